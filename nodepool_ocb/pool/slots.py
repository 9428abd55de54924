"""The slots of static machines: the machine of a node, and the slots with a record. Pure.

Name, user and port identify a machine in the file, as in Nodepool.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from nodepool_ocb.model.pool import launch_facts
from nodepool_ocb.pool.configuration import ProviderPool, StaticMachine
from nodepool_ocb.pool.views import PoolNodeView

#: The fields of a machine and of its nodes that tell how users log in.
LOGIN_FIELDS: Final = ("connection_type", "shell_type", "python_path")
WITH_HOST_KEYS: Final = ("ssh", "network_cli")  # the connection types with host keys


class MachineIndex:
    """The machines of a pool, by their place in the file."""

    def __init__(self, pool: ProviderPool) -> None:
        self.machines = pool.machines
        self._places: dict[tuple[str, str | None, int | None], int] = {}
        for place, each in reversed(list(enumerate(pool.machines))):
            self._places[each.name, None, None] = place  # of a record that has only the name so far
            self._places[each.name, each.username, each.port] = place

    def place(self, node: PoolNodeView) -> int | None:
        """The place of a node's machine; None if the file does not have it."""
        record, facts = node.record, launch_facts(node.record)
        name, port = (
            (facts.machine if facts else None) or record.hostname or "",
            record.connection_port or record.ssh_port,
        )
        return self._places.get((name, record.username, port if record.username else None))

    def misfit(self, node: PoolNodeView) -> str | None:
        """Why a node no longer agrees with the file; None if it does."""
        place = self.place(node)
        if place is None:
            return "nodepool.yaml does not have its machine any more"
        machine = self.machines[place]
        if node.record.slot is not None and node.record.slot >= machine.slots:
            return f"max-parallel-jobs of its machine is {machine.slots}"
        if set(node.labels) != set(machine.labels):
            return "the labels of its machine changed"
        if changed := _changed(node, machine):
            return f"{changed} of its machine changed"
        return None

    def doubled(self, nodes: Iterable[PoolNodeView]) -> set[str]:
        """The ids of the nodes in a slot that another record holds: one that is not free, or else the one with the lowest id.

        No transaction keeps two launchers from entering one slot: one of them may decide from an older view.
        """
        holders: dict[tuple[int, int], list[tuple[bool, str]]] = {}
        for node in nodes:
            place = self.place(node)
            if place is not None and node.record.slot is not None:
                holders.setdefault((place, node.record.slot), []).append((node.free, node.id))
        return {id for each in holders.values() for _, id in sorted(each)[1:]}

    def missing(self, nodes: Iterable[PoolNodeView]) -> list[tuple[StaticMachine, int]]:
        """The slots without a record, each with its machine."""
        taken = self._taken(nodes)
        return [
            (machine, slot)
            for place, machine in enumerate(self.machines)
            for slot in range(machine.slots)
            if slot not in taken[place]
        ]

    def _taken(self, nodes: Iterable[PoolNodeView]) -> Sequence[set[int]]:
        """For each machine the slots with a record. A record without a slot takes the first one without a record."""
        taken: list[set[int]] = [set() for _ in self.machines]
        unslotted: list[int] = []
        for node in nodes:
            place = self.place(node)
            if place is not None and node.record.slot is not None:
                taken[place].add(node.record.slot)
            elif place is not None:
                unslotted.append(place)
        for place in unslotted:
            taken[place].add(min(set(range(len(taken[place]) + 1)) - taken[place]))
        return taken


def _changed(node: PoolNodeView, machine: StaticMachine) -> str | None:
    """The key of the file with a value that the node does not have: users log in by the node's values."""
    record, ours = node.record, launch_facts(node.record) is not None
    for field in LOGIN_FIELDS:
        found = getattr(record, field)
        if found != getattr(machine, field) and (ours or found is not None):  # other software may not write each
            return field.replace("_", "-")
    checked = machine.connection_type in WITH_HOST_KEYS and record.host_keys is not None
    return "host-key" if checked and not _bare(machine.host_keys) <= _bare(record.host_keys or ()) else None


def _bare(keys: Iterable[str]) -> set[str]:
    """Host keys without their comments."""
    return {" ".join(key.split()[:2]) for key in keys}
