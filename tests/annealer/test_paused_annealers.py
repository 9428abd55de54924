"""The annealers of a host that are paused: they claim and drive nothing new, also after a restart, until that is over."""

from __future__ import annotations

import socket
import time

from nodepool_ocb.engine.readiness import Code, why_not
from nodepool_ocb.model import paths
from nodepool_ocb.model.maintenance import Maintenance
from nodepool_ocb.model.records import Create, DaemonPause, Set, State
from nodepool_ocb.store.world.load import load_world
from tests.journeys.fleet import Fleet, vertex_of

HOST = socket.gethostname()
PATH = paths.daemon_pause("annealer", HOST)


def pause(until: float | None = None) -> DaemonPause:
    return DaemonPause(pause=Maintenance(by="ann", reason="upgrade", since=time.time(), until=until))


def test_paused_annealers_end_what_they_do_and_begin_nothing_until_it_is_over_though_started_anew(fleet: Fleet) -> None:
    fleet.add_role("first", fleet.work(1.0))
    fleet.add_role("second", fleet.work(0.0))
    first = fleet.bind("first", fleet.nodes[0])
    second = fleet.bind("second", fleet.nodes[0], [first])
    annealer = fleet.annealer().begin()
    fleet.until_started(first)
    fleet.session.ensure(paths.daemon_pauses("annealer"))
    fleet.session.commit([Create(PATH, pause())])
    fleet.until_state(first, State.ACTIVE)  # what has begun ends
    annealer.terminate()
    annealer.wait()
    fleet.annealer().begin()
    fleet.until(
        lambda: [d.paused for d in load_world(fleet.session).annealers.values()] == ["by ann: upgrade"], "it says so"
    )
    assert fleet.state(second) is State.TODO
    world = load_world(fleet.session)
    reason = next(each for each in why_not(world, vertex_of(world, second), time.time()) if each.code is Code.PAUSED)
    assert reason.advice == f"nodepool-ocb daemon resume annealer@{HOST}"
    fleet.session.commit([Set(PATH, pause(until=time.time() + 1.0), 0)])
    fleet.until_state(second, State.ACTIVE)  # nobody resumed it
    assert fleet.starts()[second] == 1
