"""The nodes of /ocb that belong to launched nodes: workers ask for them, and the turn creates, watches and deletes them.

The turn keeps a world of /ocb, from the moment that a label with roles is configured or a worker asks. All nodes that are asked
for in one turn are written in one transaction, as far as it has room. The watch of the world tells of each change of a noderole.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from nodepool_ocb.engine.acting.annealers import active_jigs
from nodepool_ocb.engine.enrolling import Enrolment, enrolled
from nodepool_ocb.engine.world import World
from nodepool_ocb.pool.launches.launching import RolesSight
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.pool import enrolment
from nodepool_ocb.store.world.cache import Cache
from nodepool_ocb_launcher.questions import FleetQuestions

BY: Final = "launcher"


class Roster:
    """``enrol``, ``dismiss`` and ``forget`` are for any thread, all others for the turn."""

    def __init__(self, session: Session, wake: Callable[[], None]) -> None:
        self._session, self._wake = session, wake
        self._guard = threading.Lock()
        self._wanted: dict[str, Enrolment] = {}  # by name: to be created, or watched
        self._sights: dict[str, RolesSight | str] = {}  # of these: the noderoles, or why there are none
        self._leaving: dict[str, str] = {}  # by name: the identity of the launch
        self._causes: dict[str, str] = {}  # of these: the cause of the wait
        self._cache: Cache | None = None
        self.questions = FleetQuestions(session, wake)  # about machines of the fleet

    # -- workers --

    def enrol(self, asked: Enrolment) -> RolesSight | str | None:
        """The noderoles of the node; the reason why it cannot be created; None while the turn creates it."""
        with self._guard:
            if self._wanted.get(asked.fqdn) == asked:
                return self._sights.get(asked.fqdn)
            self._wanted[asked.fqdn] = asked
            self._sights.pop(asked.fqdn, None)
        self._wake()
        return None

    def forget(self, fqdn: str) -> None:
        """The launch of the node is over: its noderoles are not watched any more."""
        with self._guard:
            self._wanted.pop(fqdn, None)
            self._sights.pop(fqdn, None)

    def dismiss(self, fqdn: str, launch: str) -> str | None:
        """None when the node of this launch is gone, else the cause of the wait."""
        with self._guard:
            if self._leaving.get(fqdn) == launch:
                if fqdn in self._causes:
                    return self._causes[fqdn]
                del self._leaving[fqdn]
                return None
            self._leaving[fqdn] = launch
            self._causes[fqdn] = f"{fqdn} is being deleted"
            self._wanted.pop(fqdn, None)
            self._sights.pop(fqdn, None)
        self._wake()
        return f"{fqdn} is being deleted"

    # -- the turn --

    def load(self) -> None:
        """A new session: former questions are void. Raises Unavailable or Denied."""
        with self._guard:
            self._wanted.clear()
            self._sights.clear()
            self._leaving.clear()
            self._causes.clear()
        self.questions.drop("the session with ZooKeeper has ended")
        if self._cache is not None:
            self._cache.load()

    def sweep(self) -> None:
        """Read everything. Raises Unavailable or Denied."""
        if self._cache is not None:
            self._cache.sweep()

    def answer(self, admin_domain: str | None, needed: bool) -> set[str]:
        """Create, look at and delete the nodes that workers ask for; gives the names with another answer than before.

        ``needed``: a label with roles is configured. Raises Unavailable or Denied.
        """
        with self._guard:
            wanted, leaving = dict(self._wanted), dict(self._leaving)
        if self._cache is None:
            if not (needed or wanted or leaving or self.questions.waiting):
                return set()
            self._cache = Cache(self._session, World(), self._wake)
            self._cache.load()
        else:
            self._cache.refresh()
        if self.questions.answer(self._cache):
            self._wake()
        world = self._cache.world
        answers = self._look(world, wanted) | self._create(world, wanted, admin_domain)
        causes = self._delete(world, leaving)
        with self._guard:
            return self._tell(answers, causes, wanted, leaving)

    def _look(self, world: World, wanted: dict[str, Enrolment]) -> dict[str, RolesSight | str]:
        return {fqdn: _sight(world, fqdn) for fqdn, each in wanted.items() if enrolled(world, each)}

    def _create(
        self, world: World, wanted: dict[str, Enrolment], admin_domain: str | None
    ) -> dict[str, RolesSight | str]:
        """The refusals of nodes that do not exist yet; the others are written."""
        absent = [each for each in wanted.values() if not enrolled(world, each)]
        if not absent:
            return {}
        jigs = active_jigs(world)
        plan = enrolment.enrol(self._session, world, absent, admin_domain=admin_domain, jigs=jigs, by=BY)
        if plan.left:
            self._wake()
        return dict(plan.refused)

    def _delete(self, world: World, leaving: dict[str, str]) -> dict[str, str]:
        """The causes of the nodes that are still there."""
        if not leaving:
            return {}
        found = enrolment.dismiss(self._session, world, leaving, by=BY)
        return dict(found.waiting)

    def _tell(
        self,
        answers: dict[str, RolesSight | str],
        causes: dict[str, str],
        wanted: dict[str, Enrolment],
        leaving: dict[str, str],
    ) -> set[str]:
        """Note the answers to ``wanted`` and ``leaving``. A question that came since then waits for the next turn."""
        asked = {fqdn for fqdn, each in wanted.items() if self._wanted.get(fqdn) == each}
        changed = {fqdn for fqdn in asked & answers.keys() if self._sights.get(fqdn) != answers[fqdn]}
        self._sights.update({fqdn: answers[fqdn] for fqdn in changed})
        for fqdn, launch in leaving.items():
            known = self._causes.get(fqdn)
            if known is None or self._leaving.get(fqdn) != launch or causes.get(fqdn) == known:
                continue
            changed.add(fqdn)
            if fqdn in causes:
                self._causes[fqdn] = causes[fqdn]
            else:
                del self._causes[fqdn]
        return changed


def _sight(world: World, fqdn: str) -> RolesSight:
    records = {role: vertex.record for role, vertex in world.nodes[fqdn].noderoles.items()}
    return RolesSight(
        states={role: record.state for role, record in records.items()},
        reasons={role: record.reason for role, record in records.items() if record.reason is not None},
        annealers=bool(world.annealers),
    )
