"""A role that is given another jig while it runs: what is written for the run is judged by the role as it was claimed."""

from __future__ import annotations

import pytest

from nodepool_ocb.engine.world import World
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Change, Role, Set, State
from tests.journeys.fleet import SESSION_SECONDS, Fleet
from tests.journeys.history import Event as Noted

LONG = 600.0


def import_anew(fleet: Fleet, name: str, role: Role) -> None:
    """As an import of its barclamp."""

    def changes(world: World) -> list[Change]:
        return [Set(paths.role(name), role, world.roles[name].version)]

    fleet.write(changes)


@pytest.mark.parametrize("end", ["kill", pytest.param("terminate", marks=pytest.mark.long)])
def test_the_successor_ends_the_run_with_the_jig_of_its_order(fleet: Fleet, end: str) -> None:
    fleet.add_role("slow", fleet.work(LONG))
    fleet.add_role("next", fleet.work(0.0))
    slow = fleet.bind("slow", fleet.nodes[0])
    child = fleet.bind("next", fleet.nodes[0], [slow])
    doomed = fleet.annealer(drain_seconds=0.1).begin()
    fleet.until_started(slow)
    import_anew(fleet, "slow", Role(barclamp="fleet", jig="noop"))
    doomed.kill() if end == "kill" else doomed.terminate()
    fleet.annealer().begin()
    fleet.until_all_active()
    assert fleet.noted(Noted.KILLED)[slow] == 1
    assert fleet.record(slow).generation == 2, "ACTIVE as the role is now, by a run of its own"
    assert [run.outcome for run in fleet.runs(slow).values()] == ["abandoned", "lost", "succeeded"]
    assert fleet.starts()[child] == 1


def test_a_destructive_one_is_left_to_a_person(fleet: Fleet) -> None:
    fleet.add_role("wipe", fleet.work(LONG, flags=("destructive",)))
    wipe = fleet.bind("wipe", fleet.nodes[0])
    doomed = fleet.annealer().begin()
    fleet.until_started(wipe)
    import_anew(fleet, "wipe", Role(barclamp="fleet", jig="noop"))
    doomed.kill()
    fleet.annealer().begin()
    fleet.until_state(wipe, State.ERROR)
    assert fleet.noted(Noted.KILLED)[wipe] == 1
    assert fleet.starts()[wipe] == 1


def test_the_one_that_ordered_it_sees_it_through(fleet: Fleet) -> None:
    fleet.add_role("slow", fleet.work(SESSION_SECONDS))
    slow = fleet.bind("slow", fleet.nodes[0])
    fleet.annealer().begin()
    fleet.until_started(slow)
    import_anew(fleet, "slow", Role(barclamp="fleet", jig="noop"))
    fleet.until_state(slow, State.ACTIVE)
    assert fleet.noted(Noted.ENDED)[slow] == 1
    assert not fleet.faults()
