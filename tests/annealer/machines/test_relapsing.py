"""When a machine that answers probes, and that runs find dead, is asked again."""

from __future__ import annotations

from msgspec.structs import replace

from nodepool_ocb.model.records import Node
from nodepool_ocb_annealer.machines.relapses import MOST_DOUBLINGS, SOON_SECONDS, Relapses

DEAD = Node(alive=False, addresses=("a",), reason="run: no runner")
LATER = 0.5  # that the death is seen


def pauses(relapses: Relapses, times: int, dead: Node = DEAD, lives: float = 2.0) -> list[float]:
    """How long it is left alone after each of so many deaths, each so long after a probe made it alive."""
    now, found = 1000.0, []
    for _ in range(times):
        relapses.revived("n", dead, now)
        assert relapses.wait_seconds("n", dead, now, 5.0) == 0.0, "that was the death before"
        now += lives
        died = replace(dead, since=now)
        found.append(relapses.wait_seconds("n", died, now, 5.0))
        assert relapses.wait_seconds("n", died, now + LATER, 5.0) == max(0.0, found[-1] - LATER), (
            "one death counts once"
        )
        now += found[-1] + 1.0
        assert relapses.wait_seconds("n", died, now, 5.0) == 0.0
    return found


def test_a_machine_that_runs_find_dead_right_after_probes_is_asked_later_and_later() -> None:
    longest = 5.0 * 2**MOST_DOUBLINGS
    assert pauses(Relapses(), 10) == [0.0, 10.0, 20.0, 40.0, 80.0, 160.0, 320.0, longest, longest, longest]


def test_a_machine_that_lives_for_a_while_or_dies_of_something_else_is_asked_soon() -> None:
    assert not any(pauses(Relapses(), 9, lives=SOON_SECONDS + 1.0))
    assert not any(pauses(Relapses(), 9, replace(DEAD, reason="connect: refused")))


def test_what_a_machine_did_is_forgotten_when_it_stays_alive_or_is_reached_in_another_way() -> None:
    for change in ({"alive": True}, {"user": "other"}):
        relapses = Relapses()
        pauses(relapses, 5)
        relapses.revived("n", DEAD, 3000.0)
        changed = replace(DEAD, since=3000.0, **change)
        assert relapses.wait_seconds("n", changed, 3001.0 + SOON_SECONDS, 5.0) == 0.0
        relapses.revived("n", changed, 4000.0)
        assert relapses.wait_seconds("n", replace(DEAD, since=4001.0), 4001.0, 5.0) == 0.0


def test_what_a_machine_did_is_forgotten_when_it_fails_at_another_step_while_it_is_dead() -> None:
    """It is started anew, in all likelihood, and somebody mended it."""
    relapses = Relapses()
    pauses(relapses, 5)
    assert relapses.wait_seconds("n", replace(DEAD, since=3000.0, reason="connect: refused"), 3000.0, 5.0) == 0.0
    assert pauses(relapses, 2) == [0.0, 10.0]


def test_another_reason_at_the_same_step_is_no_other_death() -> None:
    relapses = Relapses()
    relapses.revived("n", DEAD, 1000.0)
    relapses.wait_seconds("n", replace(DEAD, since=1001.0), 1001.0, 5.0)
    relapses.revived("n", DEAD, 1010.0)
    assert relapses.wait_seconds("n", replace(DEAD, since=1011.0), 1011.0, 5.0) == 10.0
    later = replace(DEAD, since=1011.0 + 2 * SOON_SECONDS, reason="run: no room")
    assert relapses.wait_seconds("n", later, later.since, 5.0) == 0.0
    relapses.revived("n", later, later.since + 1.0)
    assert relapses.wait_seconds("n", replace(later, since=later.since + 2.0), later.since + 2.0, 5.0) == 20.0
