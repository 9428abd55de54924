"""Returned slots of static machines: a machine is asked once for all of its slots, and one transaction puts a ready node in the
place of each returned one.

No lock is held meanwhile. The transaction deletes the returned records at the versions that were decided from, so of two
launchers one is first, and the other writes nothing. A launcher that dies before it leaves the records as they were. If a
machine refuses, the records are deleted; the launches that follow wait for it, and say why.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final, NamedTuple

from msgspec.structs import replace

from nodepool_ocb.errors import Stale
from nodepool_ocb.model.journal import Entry, PoolVerb
from nodepool_ocb.model.pool import PoolNode
from nodepool_ocb.pool.instructions import DeleteNode, Instruction, LaunchNode
from nodepool_ocb.pool.states import new_pool_node
from nodepool_ocb.pool.views import PoolNodeView, PoolView
from nodepool_ocb.providers.machines import Machine, MachineRefused
from nodepool_ocb.store.pool.nodes import NodeWriter, RenewedSlot
from nodepool_ocb.telemetry import metrics
from nodepool_ocb.views.history import pooling
from nodepool_ocb_launcher.context import LauncherContext
from nodepool_ocb_launcher.launching import LaunchParts, launch_order, parts
from nodepool_ocb_launcher.records import lent_fields, new_fields
from nodepool_ocb_launcher.works import NodeWorks

log = logging.getLogger(__name__)

SLOTS: Final = 20  # of one machine in one transaction; the others follow in the next one

MachineKey = tuple[str, str, str | None, str | None, int | None]


class _Returned(NamedTuple):
    """A returned node, the record that follows it in its slot, and the configured parts of that."""

    machine: MachineKey
    node: PoolNodeView
    heir: PoolNode
    found: LaunchParts
    reason: str


class SlotRenewals:
    """Call ``begin`` on the turn thread. A renewal that failed is not tried again: the record is deleted as others are."""

    def __init__(self, context: LauncherContext, works: NodeWorks, nodes: NodeWriter) -> None:
        self._context, self._works, self._nodes = context, works, nodes
        #: Nodes with their versions, also on workers. False: in vain. True: begun or done, and the view will show it.
        self._begun: dict[tuple[str, int], bool] = {}

    def begin(self, view: PoolView, steps: Iterable[Instruction]) -> list[Instruction]:
        """Begin the renewals among these steps; gives the other steps. A machine that is being asked is left to a later turn."""
        for former in [each for each in self._begun if each[0] not in view.nodes]:
            self._begun.pop(former, None)
        left: list[Instruction] = []
        of_machines: dict[MachineKey, list[_Returned]] = {}
        for step in steps:
            if isinstance(step, DeleteNode) and self._begun.get((step.node, step.version)):
                continue
            returned = self._returned(view, step)
            if returned is None:
                left.append(step)
            else:
                of_machines.setdefault(returned.machine, []).append(returned)
        for key, slots in of_machines.items():
            first = slots[:SLOTS]
            self._begun |= dict.fromkeys(map(_key, first), True)
            if not self._works.renew(key[0], key, partial(self._renew, first)):
                self._forget(first)
        return left

    def _forget(self, slots: Iterable[_Returned]) -> None:
        """They may be renewed in another turn."""
        for each in slots:
            self._begun.pop(_key(each), None)

    def _returned(self, view: PoolView, step: Instruction) -> _Returned | None:
        """The renewal that a step asks for; None if it is another step, or if nothing can be renewed."""
        if not isinstance(step, DeleteNode) or step.heir is None or (step.node, step.version) in self._begun:
            return None
        node, heir, slot = view.nodes[step.node], self._heir(step.heir), step.heir
        found = None if heir is None else parts(self._context, heir)
        fits = found is not None and found.calls.lends and not found.calls.deletes and node.version == step.version
        if heir is None or found is None or not fits:
            return None
        machine = (slot.provider, slot.pool, slot.machine, slot.username, slot.port)
        return _Returned(machine, node, heir, found, step.reason)

    def _heir(self, step: LaunchNode) -> PoolNode | None:
        """The record of a slot; None if the configuration was read again since the decision."""
        context, place = self._context, self._context.place(step.provider, step.pool)
        label = None if place is None else place[1].labels.get(step.label)
        if place is None or label is None:
            return None
        fields = new_fields(step, *place, label, launcher=context.id, request=None)
        return new_pool_node(context.session.now(), **fields)

    # -- on a worker --

    def _renew(self, slots: Sequence[_Returned]) -> None:
        try:
            self._ask(slots)
        except BaseException:
            self._forget(slots)  # the next turn shows the records of now
            raise

    def _ask(self, slots: Sequence[_Returned]) -> None:
        halt = self._context.halt
        orders = [launch_order(self._context, each.node.id, each.heir, each.found, halt) for each in slots]
        answers = slots[0].found.calls.renew(orders)
        if halt.is_set():
            self._forget(slots)  # the next turn, or the next launcher, asks again
            return
        ready: list[RenewedSlot] = []
        for each, answer in zip(slots, answers, strict=True):
            if isinstance(answer, Machine) and _whole(answer):
                ready.append(self._ready(each, answer))
            else:
                self._drop(each, answer)
        if ready:
            self._write(ready)

    def _ready(self, each: _Returned, machine: Machine) -> RenewedSlot:
        fields = lent_fields(each.heir, machine, each.found.label)
        said = f"{each.reason}; its slot is ready again"
        return RenewedSlot(each.node, replace(each.heir, **fields), self._entry(each.node, said))

    def _write(self, slots: Sequence[RenewedSlot]) -> None:
        """Write all at once; if one of them changed meanwhile, each by itself."""
        try:
            self._nodes.renew(slots)
        except Stale:
            for each in slots if len(slots) > 1 else ():
                self._write([each])
            if len(slots) == 1:
                self._begun[_key(slots[0])] = False
            return
        for each in slots:
            provider, now = each.heir.provider or "", self._context.session.now()
            metrics.MACHINES_DELETED.labels(provider).inc()
            metrics.LAUNCHES.labels(provider, "ready").inc()
            metrics.LAUNCH_SECONDS.labels(provider).observe(max(0.0, now - each.heir.state_time))
        ids = ", ".join(each.node.id for each in slots)
        log.info("nodes %s are returned: their slots of %s are ready again", ids, slots[0].heir.hostname)

    def _drop(self, each: _Returned, answer: Machine | MachineRefused) -> None:
        said = answer.reason if isinstance(answer, MachineRefused) else "the machine is not complete"
        log.info("node %s is deleted: %s; its slot is not ready: %s", each.node.id, each.reason, said)
        if self._nodes.drop(each.node, self._entry(each.node, each.reason)):
            metrics.MACHINES_DELETED.labels(each.heir.provider or "").inc()
        else:
            self._begun[_key(each)] = False

    def _entry(self, node: PoolNodeView, reason: str) -> Entry:
        return pooling.of_node(self._context.author(), PoolVerb.DELETE_NODE, node.id, node.record, reason)


def _key(each: _Returned | RenewedSlot) -> tuple[str, int]:
    return each.node.id, each.node.version


def _whole(machine: Machine) -> bool:
    """Whether nothing about the machine is left to find out."""
    return machine.state == "running" and machine.address is not None and machine.host_keys is not None
