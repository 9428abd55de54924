"""The consequences when this annealer does not reach a machine: a machine is dead by agreement, and an annealer can be wrong.

A fault of this host never comes here. A fault of the machine counts where no other annealer can look. Where one can, this
annealer writes a suspicion into the node's record, and the others look, in the order of their rank. One that reaches the machine
takes the suspicion back, which this annealer holds against itself (standing). One that does not reach it writes the death.
A fault of the path is a suspicion in any case: only an annealer on another host, with its own path, can make a death of it.
Of a healthy machine nothing is written.

All on the turn thread.
"""

from __future__ import annotations

import logging
import time
from functools import partial
from typing import Final

from nodepool_ocb.engine import installing, maintenance, marks
from nodepool_ocb.engine.liveness import refuted, suspected
from nodepool_ocb.engine.world import NodeView
from nodepool_ocb.errors import OcbError
from nodepool_ocb.jigs.jig import Party
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Daemon, Node
from nodepool_ocb_annealer.context import AnnealerContext
from nodepool_ocb_annealer.machines.fitness import Fitness

log = logging.getLogger(__name__)

MOST_DOUBLINGS: Final = 4  # of the time for which a node is not suspected again


class Judging:
    """Suspicions, ours and those of others."""

    def __init__(self, context: AnnealerContext) -> None:
        self._context = context
        self.standing = Fitness()
        self._suspected: dict[str, str] = {}  # nodes that we suspect → why
        self._refuted: dict[str, tuple[int, float]] = {}  # how often in a row, and until when it is not suspected again

    # -- of others --

    def asked(self, node: Node) -> bool:
        """Whether another annealer wants to know if we reach the node."""
        return node.suspicion is not None and node.suspicion.by != self._context.identity

    def agreed(self, node: Node, party: Party) -> bool:
        """Whether the node is dead if we do not reach it, by the fault of this party.

        Another annealer found the same. For a fault of the machine it is enough that there is no other to ask; for a fault of
        the path the other annealer must be on another host. The word of an annealer that is in trouble itself, or gone, does not
        count: it may have been ours, before a restart.
        """
        other, annealers = self._suspecting(node), self._context.world.annealers
        if party is Party.PATH:
            own = annealers.get(self._context.identity)
            return other is not None and own is not None and other.host != own.host
        return other is not None or self._alone

    def _suspecting(self, node: Node) -> Daemon | None:
        """The other annealer that suspects the node, where it is ready."""
        by = node.suspicion.by if node.suspicion is not None and self.asked(node) else ""
        other = self._context.world.annealers.get(by)
        return other if other is not None and other.trouble is None else None

    @property
    def _alone(self) -> bool:
        """Whether no other annealer is ready."""
        return not any(
            daemon.trouble is None and daemon.state == "running"
            for identity, daemon in self._context.world.annealers.items()
            if identity != self._context.identity
        )

    def answered(self, view: NodeView, fresh: bool = False) -> None:
        """The machine answers us: then it is well, also where others do not reach it. ``fresh``: over a new connection."""
        self.reached(view.name, fresh)
        if view.record is not None and view.record.suspicion is not None:
            self._context.send(refuted(view), lambda _: None, f"{view.name} reached")

    # -- ours --

    def suspect(self, view: NodeView, reason: str) -> None:
        """Ask the others, unless that was done, or they said lately that the node is well."""
        context, fqdn, node = self._context, view.name, view.record
        assert node is not None, "only nodes that have a record are probed"
        ours = node.suspicion is not None and node.suspicion.by == context.identity
        if ours or self._suspecting(node) is not None or time.monotonic() < self._refuted.get(fqdn, (0, 0.0))[1]:
            return
        log.warning("%s does not answer; others are asked to look: %s", fqdn, reason)
        changes = suspected(view, context.identity, reason, context.session.now())
        context.send(changes, partial(self._suspicion_written, fqdn, reason), f"suspicion of {fqdn}")

    def refused(self, view: NodeView, reason: str) -> None:
        """The machine did not let us in, and no other annealer is to be asked about it."""
        if self._tells_of_us(view, reason):
            self.standing.refused(view.name, reason)

    def own_fault(self, view: NodeView, reason: str) -> bool:
        """Whether it may be for this annealer's key that the machine is not reached."""
        return self._tells_of_us(view, reason) and self.standing.doubtful(view.name)

    def _tells_of_us(self, view: NodeView, reason: str) -> bool:
        """Whether a refusal by a machine says something about our key: we are alone, and there are other machines to ask.

        A machine that was dead before counts only if no machine is alive.
        """
        assert view.record is not None, "only nodes that have a record are probed"
        now = self._context.session.now()
        others = [other for other in self._context.world.nodes.values() if other is not view and probed(other, now)]
        if not (reason.startswith("authenticate:") and self._alone and others):
            return False
        return view.record.alive or not any(other.record is not None and other.record.alive for other in others)

    def _suspicion_written(self, fqdn: str, reason: str, refused: OcbError | None) -> None:
        if refused is None:
            self._suspected[fqdn] = reason

    def heed(self, fqdn: str, view: NodeView | None) -> None:
        """See the fate of our suspicion, if we have one; a node that is asked no more tells nothing of this host."""
        if view is None or not probed(view, self._context.session.now()):
            self.standing.forget(fqdn)
        reason = self._suspected.get(fqdn)
        node = view.record if view is not None else None
        if reason is None or (node is not None and node.suspicion is not None):
            return
        del self._suspected[fqdn]
        if node is not None and node.alive and node.available:
            count = self._refuted.get(fqdn, (0, 0.0))[0] + 1
            pause = self._context.settings.probe_seconds * 2 ** min(count - 1, MOST_DOUBLINGS)
            self._refuted[fqdn] = count, time.monotonic() + pause
            log.warning("%s does not answer, but others reach it: %s", fqdn, reason)
            if not reason.startswith("run:"):  # the run had reached the node: its later fault is not of this host
                self.standing.refuted(fqdn, reason)

    def reached(self, fqdn: str, fresh: bool = False) -> None:
        """The machine let us in."""
        self._suspected.pop(fqdn, None)
        self._refuted.pop(fqdn, None)
        self.standing.well(fqdn, fresh)

    def unfit(self, fqdn: str, reason: str, lacking: bool, certain: bool = False) -> None:
        """This host could not ask; ``lacking``: it could not ask any machine; ``certain``: as of ``Fitness.unable``."""
        if lacking:
            self.standing.lacks(reason)
        else:
            self.standing.unable(fqdn, reason, certain)


def probed(view: NodeView, now: float) -> bool:
    """Whether the node is one that annealers ask at all."""
    node = view.record
    if node is None or node.virtual or not node.addresses:
        return False
    if paths.node(view.name) in view.world.unreadable:
        return False  # its present state is not known, and it cannot be written
    set_aside = not node.available or maintenance.held(node, now) or marks.holds(node, now)
    set_aside = (
        set_aside or node.decommissioned is not None or installing.under_way(view) is not None
    )  # it may be away, and that says nothing
    return not set_aside
