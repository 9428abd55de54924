"""Storms over runs of tasks: two people begin, retry and stop runs of a list on real machines; meanwhile annealers are killed,
frozen, cut off and deaf, their hosts have faults, ZooKeeper is killed or frozen, and tasks end with odd exit codes.

Each instance is done at most once in a run, in the order of its plan; of a successful run each is done. In the end a run, a run
that fails and its retry do as in calm weather, and nothing is left of any run. The seed of a storm is in its output.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from nodepool_ocb.testing.storm import Storm, duration, seeded
from nodepool_ocb.testing.zookeeper.ensemble import Ensemble
from tests.journeys import tasking
from tests.journeys.fleet import Fleet
from tests.journeys.person import Person
from tests.journeys.storms import CALM_SECONDS, LASTS, Servers, alone, annealers, faults, small_disks, until_calm

WAIT_SECONDS = 120.0
FAILED = 6  # the exit code


@pytest.mark.long
@pytest.mark.parametrize(
    ("servers", "machines", "seconds", "every_seconds"),
    [
        pytest.param(alone, 4, 6.0, 0.8, id="short"),
        pytest.param(alone, 9, 300.0, 3.0, id="long", marks=pytest.mark.long),
        pytest.param(Ensemble, 9, 300.0, 3.0, id="long-ensemble", marks=pytest.mark.long),
    ],
)
def test_after_a_storm_every_promise_of_runs_of_tasks_holds(
    chroot: str, tmp_path: Path, servers: Servers, machines: int, seconds: float, every_seconds: float
) -> None:
    seed, seconds = seeded(), duration(seconds)
    print(f"seed {seed}")
    with ExitStack() as stack:
        disks = small_disks(stack, tmp_path)
        server = stack.enter_context(servers())
        fleet = stack.enter_context(Fleet(server, chroot, tmp_path, machines=machines))
        tasking.prepare(fleet, 0.3)
        annealers(fleet)
        notes = stack.enter_context(tasking.Notes(fleet, seed))
        people = [tasking.People(fleet, seed + number) for number in range(2)]
        storm = Storm(fleet.annealers, server, seed, lasts=LASTS, more=faults(fleet, disks, seed))
        with ExitStack() as going_on:
            for trouble in (*people, tasking.OddCodes(fleet, seed)):
                going_on.enter_context(trouble)
            storm.blow(seconds, every_seconds, fleet.revive)
        until_calm(fleet, lambda: tasking.over(fleet) and not fleet.at_work(), CALM_SECONDS)
        with Person(fleet.hosts) as person:
            assert tasking.ends(person, WAIT_SECONDS) == 0, person.said
            take_back = tasking.odd(fleet, 0, "255")
            assert tasking.ends(person, WAIT_SECONDS) == FAILED, person.said
            take_back()
            assert tasking.ends(person, WAIT_SECONDS, "--retry") == 0, person.said
        until_calm(fleet, lambda: not fleet.unfinished() and not fleet.at_work(), CALM_SECONDS)
        starts = sum(fleet.starts().values())
        print(f"{dict(storm.faults)}, {', '.join(map(str, [*people, notes]))}, {starts} starts")
        assert all(annealer.running() for annealer in fleet.annealers), "every annealer runs"
        assert not fleet.faults()
        assert len(notes.notes) >= 3, "runs were looked at"
        assert not tasking.faults(notes.notes.values(), fleet.entries())
        fleet.until(lambda: not tasking.leaks(fleet), "nothing is left")
