"""Has the noderoles that publish documents run again while documents are due, and now and then to look for other servers of DHCP.

A decision rests on the records alone: it is the same after a lost event, a takeover, or a directory that was lost. Each sweep
looks at all. Of each noderole the annealer decides that ranks first for its node. All on the turn thread.
"""

from __future__ import annotations

import logging
import time
from functools import partial
from typing import Final

from nodepool_ocb.engine import claim
from nodepool_ocb.engine.noderole import Event, apply, renewing
from nodepool_ocb.engine.world import Vertex
from nodepool_ocb.errors import OcbError
from nodepool_ocb.model.boot import Bootenv, Publication, Publisher
from nodepool_ocb.model.installation import BootToken, Installation
from nodepool_ocb.model.networks import Network
from nodepool_ocb.provisioning import boot, publications
from nodepool_ocb.provisioning.servers import listening
from nodepool_ocb.store.world.changeset import ChangeSet
from nodepool_ocb_annealer.context import AnnealerContext
from nodepool_ocb_annealer.timer_kinds import Timer, TimerKind

log = logging.getLogger(__name__)

PAUSE_SECONDS: Final = 0.2  # after a change: changes of many nodes become one run
AGAIN_SECONDS: Final = 30.0  # a run that did not publish the documents that it got is not repeated sooner


class PublishingSweep:
    """``look`` at changes, ``due`` a moment later."""

    def __init__(self, context: AnnealerContext) -> None:
        self._context = context
        self._asked: dict[str, tuple[tuple[str, ...], float]] = {}  # noderole → the due documents, and the time
        self._digests: publications.Digests = {}
        self._listened: dict[str, float] = {}  # noderole → when it was asked to look for other servers of DHCP

    def look(self, touched: ChangeSet) -> None:
        """Look soon, if a record that documents rest on has changed."""
        if touched.nodes or touched.has(Bootenv, BootToken, Installation, Network, Publication, Publisher):
            self.look_at_all()

    def look_at_all(self) -> None:
        """Look soon at all noderoles that publish."""
        self._context.timers.at(time.monotonic() + PAUSE_SECONDS, Timer(TimerKind.PUBLISH))

    def due(self) -> None:
        """Have each noderole with due documents run again."""
        context = self._context
        if context.resting:
            return
        for role in boot.PUBLISHING:
            for vertex in list(publications.servers(context.world, role)):
                if context.ranking.of(vertex.node.name) != 0 or not self._idle(vertex):
                    continue
                if not self._waits(vertex) or self._listens(vertex):
                    self._ask(vertex)

    def _idle(self, vertex: Vertex) -> bool:
        """Whether it can be asked to run again."""
        node = vertex.node.record
        if node is None or node.virtual or vertex.role not in self._context.world.roles:
            return False  # no script of ours writes its files
        return not renewing(vertex.record) and vertex.record.check is None  # so it is ACTIVE, as it publishes

    def _listens(self, vertex: Vertex) -> bool:
        """Whether it is to look for servers of DHCP that are not ours: such a run publishes nothing."""
        context, every, now = self._context, self._context.settings.dhcp_listen_seconds, time.monotonic()
        if vertex.role != boot.DHCP or not listening.due(context.world, vertex.name, context.session.now(), every):
            return False
        if now < self._listened.get(vertex.name, -every) + every:
            return False  # its newest run did not say that it looked
        self._listened[vertex.name] = now
        return True

    def _waits(self, vertex: Vertex) -> bool:
        """Whether nothing is due, or its newest run did not publish the same documents."""
        due = tuple(publications.due(self._context.world, vertex.name, self._digests))
        now = time.monotonic()
        before, asked = self._asked.get(vertex.name, ((), 0.0))
        if not due:
            self._asked.pop(vertex.name, None)
            return True
        if due == before and now < asked + AGAIN_SECONDS:
            self._context.timers.at(asked + AGAIN_SECONDS, Timer(TimerKind.PUBLISH))
            return True
        self._asked[vertex.name] = due, now
        return False

    def _ask(self, vertex: Vertex) -> None:
        context = self._context
        moved = apply({vertex: Event.REFRESH}, context.session.now(), by=context.identity)
        context.send(
            claim.settling(moved, [vertex]), partial(self._answered, vertex.name), f"publishing of {vertex.name}"
        )

    def _answered(self, noderole: str, refused: OcbError | None) -> None:
        if refused is not None:  # a change meanwhile wakes us
            self._asked.pop(noderole, None)
            log.debug("publishing of %s: %s", noderole, refused)
