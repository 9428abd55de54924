"""The slots of static machines: the machine of a node, and the slots with a record. Pure.

Name, user and port identify a machine in the file, as in Nodepool.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from nodepool_ocb.model.pool import launch_facts
from nodepool_ocb.pool.configuration import ProviderPool, StaticMachine
from nodepool_ocb.pool.views import PoolNodeView


def machine_of(pool: ProviderPool, node: PoolNodeView) -> StaticMachine | None:
    """The machine of a node: the same name, user and port."""
    record, facts = node.record, launch_facts(node.record)
    name, port = (facts.machine if facts else None) or record.hostname or "", record.connection_port or record.ssh_port
    return machines_by_address(pool).get((name, record.username, port if record.username else None))


def machines_by_address(pool: ProviderPool) -> Mapping[tuple[str, str | None, int | None], StaticMachine]:
    """The machines of a pool by name, user and port; a record in ``init`` has only the name."""
    found: dict[tuple[str, str | None, int | None], StaticMachine] = {}
    for each in reversed(pool.machines):
        found[each.name, None, None] = each
        found[each.name, each.username, each.port] = each
    return found


def taken_slots(pool: ProviderPool, nodes: Iterable[PoolNodeView]) -> Sequence[set[int]]:
    """For each machine the slots with a record. A record without a slot takes the first one without a record."""
    taken: list[set[int]] = [set() for _ in pool.machines]
    unslotted: list[int] = []
    places = {id(machine): place for place, machine in enumerate(pool.machines)}
    for node in nodes:
        machine = machine_of(pool, node)
        if machine is None:
            continue
        if node.record.slot is None:
            unslotted.append(places[id(machine)])
        else:
            taken[places[id(machine)]].add(node.record.slot)
    for place in unslotted:
        taken[place].add(min(set(range(len(taken[place]) + 1)) - taken[place]))
    return taken
