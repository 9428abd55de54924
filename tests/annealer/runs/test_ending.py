"""Runs that are ended: their processes are gone from the machine, and nothing that comes late counts."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from nodepool_ocb.engine.commands import apply_to
from nodepool_ocb.engine.noderole import Event
from nodepool_ocb.engine.world import World
from nodepool_ocb.model.records import Change, Role, State
from nodepool_ocb.testing.zookeeper.server import Server
from tests.journeys.fleet import SESSION_SECONDS, Fleet, vertex_of
from tests.journeys.history import Event as Noted
from tests.stories.test_annealer import running_under_one_of_two

FOREVER = 600.0


@pytest.fixture
def two(zookeeper: Server, chroot: str, tmp_path: Path) -> Iterator[Fleet]:
    with Fleet(zookeeper, chroot, tmp_path, machines=2) as fleet:
        yield fleet


def end(fleet: Fleet, noderole: str, reason: str = "time is up") -> None:
    """As a rollout or a person does."""

    def changes(world: World) -> list[Change]:
        vertices = [vertex_of(world, noderole)]
        return [
            change for part in apply_to(world, vertices, Event.CANCEL, time.time(), reason=reason) for change in part
        ]

    fleet.write(changes)


def alive(mark: str) -> list[str]:
    """Processes whose command lines begin so."""
    found: list[str] = []
    for place in Path("/proc").iterdir():
        if place.name.isdigit():
            with contextlib.suppress(OSError):
                line = (place / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                found += [line] if line.startswith(mark) else []
    return found


def marked(fleet: Fleet) -> tuple[str, str]:
    """A number of seconds that no other test sleeps, and the process that shows it."""
    seconds = f"{FOREVER:.0f}.{abs(hash(str(fleet.folder))) % 10**9:09}"
    return seconds, f"sleep {seconds}"


def test_a_run_is_ended_on_its_machine_and_its_noderole_is_in_error(fleet: Fleet) -> None:
    seconds, process = marked(fleet)
    fleet.add_role(
        "long", Role(barclamp="fleet", jig="script", script=f"echo begins; sleep {seconds} & wait\n", retries=3)
    )
    noderole = fleet.bind("long", fleet.nodes[0])
    fleet.annealer().begin()
    fleet.until_started(noderole)
    fleet.until(lambda: alive(process), "it runs")
    fleet.until(lambda: "begins\n" in [file.read_text() for file in fleet.folder.rglob("long-*.log")], "it has printed")
    end(fleet, noderole)
    fleet.until_state(noderole, State.ERROR)
    assert not alive(process)
    record = fleet.record(noderole)
    assert (record.reason, record.cancel_reason, record.generation) == ("time is up", None, 1)
    (run,) = fleet.runs(noderole).values()
    assert (run.outcome, run.reason, run.tail) == ("failed", "time is up", "begins\n")
    assert run.log is not None
    assert Path(run.log.partition(":")[2]).read_text() == "begins\n"
    assert not fleet.claim_stands(fleet.nodes[0])
    assert fleet.broken() <= {"unfinished"}


def test_it_may_be_tried_again(fleet: Fleet) -> None:
    fleet.add_role("long", fleet.work(2.0))
    noderole = fleet.bind("long", fleet.nodes[0])
    fleet.annealer().begin()
    fleet.until_started(noderole)
    end(fleet, noderole)
    fleet.until_state(noderole, State.ERROR)
    fleet.happens(noderole, Event.RETRY)
    fleet.until_state(noderole, State.ACTIVE)
    assert fleet.record(noderole).generation == 2
    assert fleet.starts()[noderole] == 2
    assert fleet.broken() <= {"unfinished"}


@pytest.mark.parametrize("how", ["kill", "freeze", "terminate"])
def test_the_successor_ends_the_run(fleet: Fleet, how: str) -> None:
    """Its holder dies, hangs, or goes just when it is to be ended."""
    holder, _, noderole = running_under_one_of_two(fleet, seconds=FOREVER)
    holder.freeze()
    end(fleet, noderole)
    if how == "kill":
        holder.kill()
    if how == "terminate":
        holder.terminate()
        holder.thaw()
    fleet.until_state(noderole, State.ERROR)
    if how == "freeze":
        holder.thaw()
        fleet.until(lambda: fleet.living() == 2, "the frozen one is back")
    assert fleet.noted(Noted.KILLED)[noderole] == 1
    assert fleet.starts()[noderole] == 1
    assert (fleet.state(noderole), fleet.record(noderole).reason) == (State.ERROR, "time is up")
    assert fleet.broken() <= {"unfinished"}


def test_a_result_that_comes_after_it_was_told_to_end_counts_for_nothing(fleet: Fleet) -> None:
    holder, other, noderole = running_under_one_of_two(fleet, seconds=1.0)
    other.kill()
    holder.freeze()
    fleet.until(lambda: fleet.noted(Noted.ENDED), "the run ends well")
    end(fleet, noderole)
    holder.thaw()
    fleet.until_state(noderole, State.ERROR)
    assert fleet.record(noderole).reason == "time is up"
    assert fleet.broken() <= {"unfinished"}


def test_a_machine_that_does_not_answer_has_its_run_ended_when_it_is_back(fleet: Fleet) -> None:
    fleet.add_role("long", fleet.work(FOREVER))
    noderole = fleet.bind("long", fleet.nodes[0])
    fleet.annealer(probe_seconds=0.5).begin()
    fleet.until_started(noderole)
    fleet.farm.freeze(0)
    end(fleet, noderole)
    fleet.until(lambda: not fleet.node(fleet.nodes[0]).alive, "it is found dead")
    assert (fleet.state(noderole), fleet.record(noderole).cancel_reason) == (State.TRANSITION, "time is up")
    fleet.farm.thaw(0)
    fleet.until_state(noderole, State.ERROR)
    assert fleet.noted(Noted.KILLED)[noderole] == 1
    assert fleet.starts()[noderole] == 1
    assert fleet.broken() <= {"unfinished"}


def test_a_run_is_ended_though_what_it_was_waiting_for_is_well_no_more(two: Fleet) -> None:
    fleet = two
    fleet.add_role("above", fleet.work(0.0))
    fleet.add_role("below", fleet.work(FOREVER))
    above = fleet.bind("above", fleet.nodes[0])
    below = fleet.bind("below", fleet.nodes[1], [above])
    doomed = fleet.annealer().begin()
    fleet.until_started(below)
    doomed.kill()
    fleet.happens(above, Event.PROPOSE)
    end(fleet, below)
    fleet.annealer().begin()
    fleet.until_state(below, State.BLOCKED)  # ERROR, and at once BLOCKED by its parent
    assert fleet.noted(Noted.KILLED)[below] == 1
    assert fleet.record(below).cancel_reason is None
    assert fleet.broken() <= {"unfinished"}


def test_work_without_a_machine_ends_too(fleet: Fleet) -> None:
    fleet.add_role("wait", Role(barclamp="fleet", jig="test", parameters={"delay": FOREVER}))
    noderole = fleet.bind("wait", fleet.nodes[0])
    fleet.annealer().begin()
    fleet.until_state(noderole, State.TRANSITION)
    end(fleet, noderole)
    fleet.until_state(noderole, State.ERROR, SESSION_SECONDS)
    assert fleet.record(noderole).reason == "time is up"
