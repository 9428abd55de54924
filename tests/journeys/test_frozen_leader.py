"""Annealers whose ZooKeeper server is frozen, or says that their sessions are over when they are not."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import yaml

from nodepool_ocb.model.records import State
from nodepool_ocb.testing.zookeeper.ensemble import Ensemble
from nodepool_ocb.testing.zookeeper.forgetful import Forgetful
from tests.journeys.fleet import Fleet

SESSION_SECONDS = 10.0
SLACK_SECONDS = 3.0
ELECTED_SECONDS = 2.0  # from the election of another leader to work that goes on


@pytest.fixture(scope="module")
def ensemble() -> Iterator[Ensemble]:
    with Ensemble(proxied=False) as ensemble:
        yield ensemble


@pytest.fixture
def guided(ensemble: Ensemble, chroot: str, tmp_path: Path) -> Iterator[Fleet]:
    with Fleet(ensemble, chroot, tmp_path) as fleet:
        for _ in range(2):
            fleet.annealer(session_seconds=SESSION_SECONDS).start()
        yield fleet


def row(fleet: Fleet, length: int) -> list[str]:
    """So many noderoles of one machine, one after the other."""
    names: list[str] = []
    for number in range(length):
        fleet.add_role(f"r{number}", fleet.work(0.3))
        names.append(fleet.bind(f"r{number}", fleet.nodes[0], names[-1:]))
    return names


def more(fleet: Fleet, known: int, what: str) -> None:
    fleet.until(lambda: len(fleet.starts()) > known, what, 60.0)


def every_one_once(fleet: Fleet, names: list[str]) -> None:
    fleet.until_all_active(120.0)
    assert all(fleet.starts()[name] == 1 for name in names)
    assert not fleet.faults()


@pytest.mark.long
@pytest.mark.parametrize("times", [1, pytest.param(4, marks=pytest.mark.long)])
def test_with_a_frozen_leader_work_goes_on_within_the_session_and_three_seconds(
    guided: Fleet, ensemble: Ensemble, times: int
) -> None:
    fleet = guided
    names = row(fleet, 8 * times)
    for turn in range(times):
        more(fleet, 6 * turn, "work begins")
        leader = ensemble.leader()
        leader.stop()
        began = time.monotonic()
        try:
            known = 0
            while time.monotonic() < began + 1.0:  # what was claimed before may still start
                known = len(fleet.starts())
                time.sleep(0.05)
            more(fleet, known, "work goes on")
            assert time.monotonic() - began < SESSION_SECONDS + SLACK_SECONDS
        finally:
            leader.cont()
        leader.await_serving()
    every_one_once(fleet, names)


@pytest.mark.long
@pytest.mark.parametrize("times", [1, pytest.param(3, marks=pytest.mark.long)])
def test_with_a_killed_leader_work_goes_on_within_two_seconds_of_the_election(
    guided: Fleet, ensemble: Ensemble, times: int
) -> None:
    fleet = guided
    names = row(fleet, 10 * times)
    for turn in range(times):
        more(fleet, 7 * turn, "work begins")
        leader = ensemble.leader()
        leader.kill()
        ensemble.leader()
        elected, known = time.monotonic(), len(fleet.starts())  # what was claimed before may have started meanwhile
        more(fleet, known, "work goes on")
        assert time.monotonic() - elected < ELECTED_SECONDS
        ensemble.start()
    every_one_once(fleet, names)


def test_a_daemon_told_of_an_expired_session_registers_anew_although_the_session_lives(
    fleet: Fleet,
) -> None:
    fleet.add_role("long", fleet.work(6.0))
    noderole = fleet.bind("long", fleet.nodes[0])
    with ExitStack() as stack:
        wrong = [stack.enter_context(Forgetful()) for _ in range(3)]
        annealer = fleet.annealer(session_seconds=60.0)
        settings = yaml.safe_load(annealer.config.read_text())
        place = settings["zookeeper"]["hosts"]
        settings["zookeeper"]["hosts"] = ",".join([*(each.hosts for each in wrong), place])
        annealer.config.write_text(yaml.safe_dump(settings))
        annealer.start()
        fleet.until_started(noderole)
        began = time.monotonic()
        while "the session that claimed it is over" not in annealer.said:
            annealer.proxy.cut()
            fleet.until(lambda: not annealer.ready(), "it has lost its connection")
            annealer.proxy.heal()
            fleet.until(annealer.ready, "it is there again")
            assert time.monotonic() < began + 60.0, "nobody told it so"
        fleet.until_state(noderole, State.ACTIVE, 40.0)
        assert fleet.living() == 1
        assert fleet.starts()[noderole] == 1
        assert not fleet.faults()
