"""The work on one node: its launch, its deletion, or both, one step after the other on a worker's thread.

A wait gives the thread back: the turn calls ``run`` again when ``due`` has come. Before each step the lock is held and the
session is trusted, as far as this process knows. After a lost session the work ends at once: another launcher continues.
"""

from __future__ import annotations

import logging
import time
from typing import Final

from nodepool_ocb.errors import Invalid, OutcomeUnknown, Stale, Unavailable
from nodepool_ocb.model.pool import PoolNodeState
from nodepool_ocb.pool.launches.deleting import DeletionAction
from nodepool_ocb.pool.launches.launching import LaunchAction
from nodepool_ocb.store.pool.nodes import HeldNode
from nodepool_ocb_launcher.context import LauncherContext
from nodepool_ocb_launcher.deleting import Deletion
from nodepool_ocb_launcher.launching import Launch, parts

log = logging.getLogger(__name__)

AGAIN_SECONDS: Final = 0.5  # while ZooKeeper does not answer
CHANGES: Final = 20  # of the record by other clients in one hold, before the lock is given up
ENDED: Final = frozenset({PoolNodeState.FAILED, PoolNodeState.ABORTED})


class NodeWork:
    """``over``: nothing is left to do, and the lock is released. ``due``: when to run it again, monotonic.

    ``deletion`` is the reason for the deletion, None for a launch. The turn may set it at any time.
    """

    def __init__(self, context: LauncherContext, node: HeldNode, deletion: str | None = None) -> None:
        self.id = node.id
        self.provider = node.record.provider or ""
        self.over = False
        self.due = 0.0
        self.waits: str | None = None  # the cause of the wait
        self.fqdn: str | None = None  # of the node below /ocb that it waits for
        self.deletion = deletion
        self._context, self._node = context, node
        self._halt = context.halt  # of the session in which the lock was taken
        self._chain: Launch | Deletion | None = None
        self._changes = 0
        self._roles_changed = False

    @property
    def halted(self) -> bool:
        """Whether it must end at once."""
        return self._halt.is_set()

    @property
    def deleting(self) -> bool:
        """Whether the node is being deleted."""
        return self.deletion is not None or self._node.record.state is PoolNodeState.DELETING

    def changed(self) -> None:
        """Something happened below the node of /ocb; on the turn thread."""
        self._roles_changed, self.due = True, 0.0

    def delete(self, reason: str) -> None:
        """Delete the node instead of its launch; on the turn thread."""
        if self.deletion is None:
            self.deletion, self.due = reason, 0.0

    def run(self) -> None:
        """Work until a wait, or to the end."""
        self.due = float("inf")
        try:
            while self._go():
                pass
        except (Stale, OutcomeUnknown) as changed:
            self._read_again(changed)
        except Unavailable as gone:
            log.warning("node %s: %s", self.id, gone)
            self._rest(AGAIN_SECONDS, str(gone))
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        """Let go of the lock: another launcher may continue. Not while ``run`` is under way on another thread."""
        self.over = True
        self._node.release()

    def _go(self) -> bool:
        """Take the next step; False at a wait or at the end."""
        if self._halt.is_set() or self._node.given_up:  # a last write that failed gives the lock up
            self.release()
        elif not self._node.held:
            self._rest(AGAIN_SECONDS, "ZooKeeper does not answer")
            return False
        elif (chain := self._next_chain()) is None:
            log.warning("node %s: this launcher has no pool %s of it", self.id, self._node.record.pool)
            self.release()
        elif isinstance(chain, Launch):
            return self._launch(chain)
        else:
            return self._delete(chain)
        return False

    def _launch(self, chain: Launch) -> bool:
        self._prepare(chain)
        step = chain.step()
        if step is None:
            self.release()
        elif step.action is LaunchAction.WAIT:
            self._rest(step.seconds, step.reason)
            return self._roles_changed or self.deletion is not None  # it came while this step was decided
        else:
            chain.take(step)
            if step.action is LaunchAction.SET_READY:
                self.over = True  # the lock was released with the write
            elif step.keep:
                self.release()
        return not self.over

    def _delete(self, chain: Deletion) -> bool:
        self._prepare(chain)
        step = chain.step()
        if step is None:
            self.release()
        elif step.action is DeletionAction.WAIT:
            self._rest(step.seconds, step.reason)
            return self._roles_changed
        else:
            chain.take(step)
            self.over = step.action is DeletionAction.DELETE_RECORD
        return not self.over

    def _prepare(self, chain: Launch | Deletion) -> None:
        """The next step sees roles that changed since the former one."""
        if self._roles_changed:
            self._roles_changed = False
            chain.look_again()
        self.fqdn = chain.facts.fqdn

    def _next_chain(self) -> Launch | Deletion | None:
        """The launch or the deletion, as the record and the turn say; None where this launcher can do neither."""
        record = self._node.record
        ended = record.state in ENDED
        if self.deletion is None and record.state is not PoolNodeState.DELETING and not ended:
            if self._chain is None:
                found = parts(self._context, record)
                self._chain = None if found is None else Launch(self._context, self._node, found)
        elif not isinstance(self._chain, Deletion):
            calls = self._context.providers.get(self.provider)
            reason = self.deletion or record.reason or "its deletion was asked for"
            keep = ended and self.deletion is None
            self._chain = None if calls is None else Deletion(self._context, self._node, calls, reason, keep)
        return self._chain

    def _read_again(self, changed: Exception) -> None:
        """Another client wrote the record, or an answer was lost: all observations are made anew."""
        self._changes += 1
        self._chain = None
        try:
            self._context.session.sync()
            if self._node.held and self._changes <= CHANGES and self._node.read():
                self.due = 0.0
                return
        except Unavailable as gone:
            self._changes -= 1
            self._rest(AGAIN_SECONDS, str(gone))
            return
        except Invalid as unreadable:
            changed = unreadable
        log.warning("node %s is given up: %s", self.id, changed)
        self.release()

    def _rest(self, seconds: float, reason: str | None) -> None:
        self.waits = reason
        self.due = time.monotonic() + seconds
