"""A check goes on when its annealer does not: who takes over gets its answer, and the machine is as it was."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from nodepool_ocb.engine.noderole import Event
from nodepool_ocb.model.drift import Drift
from nodepool_ocb.model.records import State
from tests.journeys.evidence import WITNESS
from tests.journeys.fleet import Fleet


def look(go_on: Path) -> str:
    return f'{WITNESS}while [ ! -e "{go_on}" ]; do sleep 0.05; done\necho looked; exit 2\n'


def test_a_check_outlives_its_annealers_and_is_neither_repeated_nor_lost(fleet: Fleet, tmp_path: Path) -> None:
    """The first is killed, and the second is told to end."""
    go_on = tmp_path / "go-on"
    fleet.add_role("looked", replace(fleet.work(0.0), check=look(go_on)))
    noderole, first = fleet.bind("looked", fleet.nodes[0]), fleet.annealer().begin()
    fleet.until_state(noderole, State.ACTIVE)
    before = fleet.record(noderole)
    fleet.happens(noderole, Event.CHECK)
    fleet.until(lambda: fleet.starts()[noderole] == 2, "it is checked")
    others = [fleet.annealer().begin() for _ in range(2)]
    fleet.until(lambda: fleet.living() == 3, "there are others")
    first.kill()
    fleet.until(lambda: fleet.held_by() in others, "it is taken over")
    second = fleet.held_by()
    assert second is not None
    second.terminate()
    fleet.until(lambda: fleet.held_by() in {*others} - {second}, "it is taken over again")
    go_on.touch()
    fleet.until(lambda: fleet.record(noderole).drift is Drift.DRIFTED, "its answer is there")
    after = fleet.record(noderole)
    assert fleet.starts()[noderole] == 2, "once for itself, once for its check"
    assert (after.state, after.run, after.since, after.epoch) == (State.ACTIVE, before.run, before.since, before.epoch)
    assert after.check is None
    fleet.until(lambda: not fleet.claim_stands(fleet.nodes[0]), "the node is free")
    assert fleet.faults() == []


def test_a_check_whose_machine_was_killed_with_it_is_unknown_and_is_not_in_sync(fleet: Fleet, tmp_path: Path) -> None:
    """Annealer and run are gone, and nothing tells how it ended."""
    fleet.add_role("looked", replace(fleet.work(0.0), check=look(tmp_path / "never")))
    noderole, first = fleet.bind("looked", fleet.nodes[0]), fleet.annealer().begin()
    fleet.until_state(noderole, State.ACTIVE)
    fleet.happens(noderole, Event.CHECK)
    fleet.until(lambda: fleet.starts()[noderole] == 2, "it is checked")
    first.kill()
    fleet.happens(noderole, Event.CANCEL)
    fleet.annealer().begin()
    fleet.until(lambda: fleet.record(noderole).checked is not None, "somebody accounts for it")
    assert (fleet.state(noderole), fleet.record(noderole).drift) == (State.ACTIVE, Drift.UNKNOWN)
    fleet.until(lambda: not fleet.claim_stands(fleet.nodes[0]), "the node is free")
    assert fleet.at_work() == []
