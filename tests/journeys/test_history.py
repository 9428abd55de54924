"""The checker itself: a good history passes, and whatever goes wrong is found by the rule that is meant for it."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from nodepool_ocb.engine.noderole import OUTCOME_UNKNOWN
from nodepool_ocb.model.records import NodeRole, Run, State
from tests.journeys.history import Entry, Event, Evidence, Recorded, Work, faults, in_order

A, B = "a@m0", "b@m0"


def line(time: float, event: Event, epoch: int = 1, noderole: str = A, generation: int = 1, run: str = "") -> Entry:
    code = 0 if event is Event.ENDED else None
    return Entry(time, "m0", epoch, noderole, generation, run or f"r{epoch}", event, code)


def recorded(
    *runs: tuple[str, int, str], parents: tuple[str, ...] = (), destructive: bool = False, **more: object
) -> Recorded:
    record = NodeRole.of(**({"state": State.ACTIVE, "since": 0.0, "parents": parents} | more))  # type: ignore[arg-type]
    return Recorded(
        record,
        destructive,
        {
            name: Run(annealer="x", started=0.0, ended=1.0, outcome=outcome, generation=1, epoch=epoch)
            for name, epoch, outcome in runs
        },
    )


GOOD = [
    line(1.0, Event.STARTED),
    line(2.0, Event.ATTACHED, epoch=2, run="r1"),
    line(3.0, Event.ENDED),
    line(3.1, Event.FENCED, epoch=1),
    line(4.0, Event.STARTED, epoch=3, noderole=B),
    line(5.0, Event.ENDED, epoch=3, noderole=B),
]
RECORDED = {
    A: recorded(("r1", 1, "abandoned"), ("r2", 2, "succeeded"), destructive=True),
    B: recorded(("r3", 3, "succeeded"), parents=(A,)),
}


def found(
    entries: Sequence[Entry],
    work: Sequence[Work] = (),
    noderoles: dict[str, Recorded] | None = None,
    *,
    mute: Sequence[str] = (),
    doomed: Sequence[str] = (),
    **lives: list[float],
) -> set[str]:
    ended = {f"{role}@m0": times for role, times in lives.items()}
    evidence = Evidence(entries, work, noderoles or RECORDED, ended, mute, doomed)
    return {fault.partition(":")[0] for fault in faults(evidence)}


def test_a_run_that_was_taken_over_and_a_child_after_it_are_good() -> None:
    assert not found(GOOD)


@pytest.mark.parametrize(
    ("rule", "entries"),
    [
        ("side_by_side", [*GOOD[:2], line(2.5, Event.STARTED, epoch=3, noderole=B), *GOOD[2:3]]),
        ("leftovers", GOOD[:-1]),
        ("falling_epochs", [GOOD[0], line(2.0, Event.ATTACHED, epoch=0), *GOOD[2:]]),
        ("shared_epochs", [GOOD[0], line(2.0, Event.ADOPTED, epoch=1, run="r2"), *GOOD[2:]]),
        ("run_again", [*GOOD, line(6.0, Event.STARTED, epoch=4), line(7.0, Event.ENDED, epoch=4)]),
        ("run_again", [line(0.1, Event.STARTED, generation=2), line(0.2, Event.ENDED, generation=2), *GOOD]),
        ("destroyed_twice", [*GOOD, line(6.0, Event.STARTED, generation=2), line(7.0, Event.ENDED, generation=2)]),
        ("destroyed_twice", [GOOD[0], line(2.0, Event.KILLED), line(3.0, Event.STARTED, epoch=2), *GOOD[3:]]),
        ("before_parents", [*GOOD[4:], *(each._replace(time=each.time + 9) for each in GOOD[:4])]),
        ("unaccounted", [*GOOD, line(6.0, Event.ADOPTED, epoch=4)]),
        ("unknown_runs", GOOD[4:]),
        ("started_twice", [GOOD[0], line(1.2, Event.KILLED), line(1.3, Event.STARTED), *GOOD[1:]]),
    ],
)
def test_what_machines_note_gives_it_away(rule: str, entries: list[Entry]) -> None:
    assert rule in found(entries)


def test_two_scripts_at_once_are_found_whatever_the_runner_says() -> None:
    begun = [Work(1.0, "m0", A, 1, 11, True), Work(1.5, "m0", B, 1, 12, True)]
    assert found(GOOD, begun) == {"side_by_side"}
    assert not found(GOOD, [begun[0], Work(1.2, "m0", A, 1, 11, False), begun[1]])


def test_what_begins_while_another_holds_the_machines_lock_is_found_though_nobody_wrote_anything_else() -> None:
    beside = [Work(1.0, "m0", A, 1, 11, True, beside=True)]
    assert found(GOOD, beside) == {"side_by_side"}
    assert found([], beside, {A: recorded()}, mute=["m0"]) == {"side_by_side"}


def test_of_a_machine_that_cannot_write_nothing_is_asked_but_that_it_does_one_thing_at_a_time() -> None:
    work = [Work(1.0, "m0", A, 1, 11, True), Work(2.0, "m0", B, 1, 12, True)]
    assert not found([], work, mute=["m0"])


def test_a_run_that_is_started_again_is_found_though_its_machine_lost_its_state_directory_in_between() -> None:
    before = GOOD[0]._replace(lost=1)
    assert found([before, *(each._replace(time=each.time + 9) for each in GOOD)]) >= {"started_twice"}
    assert "started_twice" not in found([before._replace(run="r0"), *GOOD])


def test_a_machine_that_lost_its_state_directory_need_not_remember_and_destroys_nothing_twice() -> None:
    before = [each._replace(lost=1) for each in GOOD[:3]]
    anew = [line(4.0, Event.STARTED, epoch=3, run="r3"), line(5.0, Event.ENDED, epoch=3, run="r3")]
    runs = recorded(("r1", 1, "lost"), ("r2", 2, "lost"), ("r3", 3, "succeeded"))
    assert found([*GOOD[:3], *anew], noderoles={A: runs}) == {"run_again"}
    assert not found([*before, *anew], noderoles={A: runs})
    assert found([*before, *anew], noderoles={A: runs._replace(destructive=True)}) == {"destroyed_twice"}
    assert not found([*before[:1], *anew], noderoles={A: runs}), "it could not write down how it ended"


def test_what_is_destructive_and_was_lost_may_wait_for_a_person_where_runs_may_be_lost() -> None:
    waits = recorded(("r1", 1, "lost"), state=State.ERROR, reason=OUTCOME_UNKNOWN, destructive=True)
    entries = [GOOD[0], line(2.0, Event.KILLED)]
    assert found(entries, noderoles={A: waits}) == {"unfinished"}
    assert not found(entries, noderoles={A: waits}, doomed=["m0"])


def test_runs_older_than_the_newest_ten_need_no_record() -> None:
    entries = [
        line(float(n), event, epoch=n, generation=n) for n in range(1, 13) for event in (Event.STARTED, Event.ENDED)
    ]
    records = {f"r{n}": Run(annealer="x", started=0.0, ended=1.0, outcome="succeeded", generation=n, epoch=n)
               for n in range(3, 13)}  # fmt: skip
    assert not found(entries, noderoles={A: Recorded(recorded().record, False, records)})
    del records["r7"]
    assert found(entries, noderoles={A: Recorded(recorded().record, False, records)}) == {"unaccounted"}


def test_a_script_that_nobody_started_is_found() -> None:
    assert found(GOOD, [Work(0.1, "m0", A, 2, 11, True)]) == {"unordered"}


def test_records_in_zookeeper_reveal_unfinished_and_unknown_runs() -> None:
    assert found(GOOD, noderoles=RECORDED | {B: recorded(("r3", 3, "succeeded"), parents=(A,), state=State.TODO)}) == {
        "unfinished"
    }
    twice = recorded(("r1", 1, "succeeded"), ("r2", 2, "succeeded"))
    assert found(GOOD, noderoles=RECORDED | {A: twice}) == {"unknown_runs"}


def test_what_was_deleted_and_bound_again_has_no_records_of_its_first_life() -> None:
    again = [line(6.0, Event.STARTED, 4, generation=2), line(7.0, Event.ENDED, 4, generation=2)]
    second = Recorded(
        RECORDED[A].record, True, {"r4": msgspec.structs.replace(RECORDED[B].runs["r3"], epoch=4, generation=2)}
    )
    assert not found([*GOOD, *again], noderoles=RECORDED | {A: second}, a=[5.5])
    assert found([*GOOD, *again], noderoles=RECORDED | {A: second}) == {"destroyed_twice", "unaccounted"}


def test_what_is_taken_from_a_former_life_is_found() -> None:
    """Its machine was done with it before it was deleted, and ZooKeeper says that it is done again."""
    assert found(GOOD, a=[3.5]) == {"unknown_runs", "before_parents"}


def test_a_group_is_over_when_nothing_is_done_on_its_machines_and_orders_that_come_late_do_nothing() -> None:
    groups = [["m0"], ["m1"]]
    second = line(4.0, Event.STARTED)._replace(machine="m1")
    late = [line(5.0, Event.FENCED), line(5.1, Event.ADOPTED)]
    assert in_order([line(1.0, Event.STARTED), line(3.0, Event.ENDED), second, *late], groups)
    assert not in_order([line(1.0, Event.STARTED), line(4.5, Event.ENDED), second], groups)
