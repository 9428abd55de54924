"""The deletion of one node: carries out the steps of ``pool.launches.deleting``, one at a time, with the node's lock held."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from nodepool_ocb.errors import TooLarge
from nodepool_ocb.model.journal import PoolVerb
from nodepool_ocb.model.pool import LaunchFacts, PoolNodeState, launch_facts
from nodepool_ocb.pool.launches import deleting
from nodepool_ocb.pool.launches.deleting import DeletionAction, DeletionStep, DeletionView
from nodepool_ocb.pool.launches.launching import LaunchRefusal
from nodepool_ocb.providers.calls import MachineCalls
from nodepool_ocb.providers.machines import LaunchParty, Machine, MachineRefused, MachineStamp
from nodepool_ocb.store.pool.nodes import HeldNode
from nodepool_ocb.telemetry import metrics
from nodepool_ocb.views.history import pooling
from nodepool_ocb_launcher.context import LauncherContext
from nodepool_ocb_launcher.launching import launch_identity

log = logging.getLogger(__name__)

ABOUT_MACHINES: Final = frozenset({LaunchParty.MACHINE, LaunchParty.REQUEST})  # the refusals that may be about a stamp


class Deletion:
    """The observations of a deletion in one hold of the lock, and its steps."""

    def __init__(
        self, context: LauncherContext, node: HeldNode, calls: MachineCalls, reason: str, keep_record: bool = False
    ) -> None:
        self._context, self._node, self._calls = context, node, calls
        self._reason = reason
        self._failed = node.record.state in deleting.ENDED  # the journal has the failure of its launch
        self._view = DeletionView(record=node.record, now=0.0, keep_record=keep_record)

    def step(self) -> DeletionStep | None:
        """The next step; None when nothing is left to do."""
        self._view = replace(self._view, record=self._node.record, now=self._context.session.now())
        return deleting.next_deletion(self._view)

    def take(self, step: DeletionStep) -> None:
        """Carry out a step, except WAIT. Raises the exceptions of ``HeldNode.note``."""
        self._steps[step.action](self, step)

    @property
    def facts(self) -> LaunchFacts:
        """The facts of the record."""
        return launch_facts(self._node.record) or LaunchFacts(key="")

    def _write_deleting(self, _step: DeletionStep) -> None:
        try:
            self._node.enter(PoolNodeState.DELETING, reason=self._reason)
        except TooLarge:  # of another client, which filled it to the limit: the data of its use go first
            self._node.enter(PoolNodeState.DELETING, reason=self._reason, user_data=None, comment=None)

    def _find(self, step: DeletionStep) -> None:
        answer = self._calls.find(self._stamp())
        if self._accepted(step, answer):
            found = None if answer is None or isinstance(answer, MachineRefused) else answer.external_id
            self._view = replace(self._view, sought=True, found=found, gone=found is None)

    def _delete_machine(self, step: DeletionStep) -> None:
        refused = self._calls.delete(step.external_id or "", self._stamp())
        if refused is not None and refused.party in ABOUT_MACHINES and self._of_others(step.external_id or ""):
            log.warning("node %s: its machine is gone, and its id has another one: %s", self._node.id, refused.reason)
            self._view = replace(self._view, gone=True)
        elif self._accepted(step, refused):
            self._view = replace(self._view, gone=True)
            metrics.MACHINES_DELETED.labels(self._calls.name).inc()

    def _of_others(self, external_id: str) -> bool:
        """Whether the machine of this id carries the stamp of another launch: it stays."""
        found = self._calls.look(external_id)
        return isinstance(found, Machine) and found.stamp not in (None, self._stamp())

    def _dismiss(self, step: DeletionStep) -> None:
        reason = self._context.roster.dismiss(self.facts.fqdn or "", launch_identity(self._node.id, self.facts))
        if reason is None:
            self._view = replace(self._view, dismissed=True, refused=None, refusals=0)
        else:
            now = self._context.session.now()
            refused = LaunchRefusal(step.action, reason, at=now)
            self._view = replace(self._view, refused=refused, refusals=self._view.refusals + 1)

    def look_again(self) -> None:
        """The node below /ocb has changed."""
        if self._view.refused is not None and self._view.refused.action == DeletionAction.DISMISS:
            self._view = replace(self._view, refused=None)

    def _write_bare(self, _step: DeletionStep) -> None:
        facts = replace(self.facts, key="", fqdn=None)
        self._node.note(external_id=None, driver_data=msgspec.to_builtins(facts))

    def _delete_record(self, _step: DeletionStep) -> None:
        entry = None
        if not self._failed:
            author, record = self._context.author(), self._node.record
            entry = pooling.of_node(author, PoolVerb.DELETE_NODE, self._node.id, record, self._reason)
        self._node.delete(entry)
        log.info("node %s is deleted: %s", self._node.id, self._reason)

    def _accepted(self, step: DeletionStep, answer: Any) -> bool:
        """Whether the call did its work; else its refusal is noted."""
        if not isinstance(answer, MachineRefused):
            self._view = replace(self._view, refused=None, refusals=0)
            return True
        now, refusals = self._context.session.now(), self._view.refusals + 1
        refused = LaunchRefusal(step.action, answer.reason, answer.party, now)
        self._view = replace(self._view, refused=refused, refusals=refusals)
        log.warning("node %s: its deletion is tried again: %s", self._node.id, answer.reason)
        return False

    def _stamp(self) -> MachineStamp:
        record = self._node.record
        return self._context.stamp(record.provider or "", record.pool or "", self._node.id, self.facts.key)

    _steps: Final[Mapping[DeletionAction, Callable[[Deletion, DeletionStep], None]]] = {
        DeletionAction.WRITE_DELETING: _write_deleting,
        DeletionAction.FIND_MACHINE: _find,
        DeletionAction.DELETE_MACHINE: _delete_machine,
        DeletionAction.DISMISS: _dismiss,
        DeletionAction.WRITE_BARE: _write_bare,
        DeletionAction.DELETE_RECORD: _delete_record,
    }
