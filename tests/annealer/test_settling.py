"""What others began and did not end: timers for it, one transaction for what came due, and later and later where refused."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from nodepool_ocb.config import AnnealerSettings
from nodepool_ocb.daemon.rendezvous import Ranking
from nodepool_ocb.daemon.timers import Timers
from nodepool_ocb.engine.world import World
from nodepool_ocb.errors import OcbError, Stale
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Change, Node, State
from nodepool_ocb_annealer import settling
from nodepool_ocb_annealer.settling import Reconciler
from nodepool_ocb_annealer.timer_kinds import Timer, TimerKind
from tests.engine.worlds import put, world

CHILD = Timer(TimerKind.SETTLE, "b@n1")
OTHER = Timer(TimerKind.SETTLE, "d@n2")
DYING = Timer(TimerKind.GO_ON_DYING, "n1")

NOW = 1000.0  # of the clock that stands still


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time stands still: no wait depends on the load of the machine."""
    for module in (settling,):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: NOW, time=time.time))


class Context:
    """An annealer called "a" whose writes wait in ``sent`` for their answers."""

    identity = "a"

    def __init__(self, made: World) -> None:
        self.world, self.settings, self.ranking = made, AnnealerSettings(), Ranking("a")
        self.timers: Timers[Timer] = Timers()
        self.session: Any = SimpleNamespace(now=lambda: 100.0)
        self.sent: list[tuple[list[Change], Callable[[OcbError | None], None], str]] = []

    def send(self, changes: list[Change], then: Callable[[OcbError | None], None], what: str) -> None:
        self.sent.append((changes, then, what))

    def waits(self) -> dict[Timer, float]:
        now = NOW
        found = {key: round(when - now, 6) for when, _, key in sorted(self.timers._heap, reverse=True)}
        list(self.timers.due(float("inf")))
        return found


def unsettled() -> World:
    """b@n1 and d@n2 wait for parents that are ACTIVE by now; c@n1 and e@n2 are as they are to be."""
    made = world()
    put(made, "a@n1", State.ACTIVE)
    put(made, "b@n1", State.BLOCKED, "a@n1")
    put(made, "c@n1", State.BLOCKED, "b@n1")
    put(made, "d@n2", State.BLOCKED, "a@n1")
    put(made, "e@n2", State.ACTIVE)
    return made


def paths_of(changes: Iterable[Change]) -> set[str]:
    return {change.path for change in changes}


def states(context: Context) -> dict[str, State]:
    return {
        change.path: change.data.state  # type: ignore[union-attr]
        for changes, _, _ in context.sent
        for change in changes
        if "/noderoles/" in change.path
    }


@pytest.mark.parametrize("everything", [False, True])
def test_what_is_unsettled_has_a_timer_and_nothing_else(everything: bool) -> None:
    context = Context(unsettled())
    context.ranking.of = lambda fqdn: {"n2": 1}.get(fqdn, 0)  # type: ignore[method-assign]
    made = Reconciler(context)  # type: ignore[arg-type]
    if everything:
        made.look_at_all()
    else:
        made.look(list(context.world.vertices()), ["n1", "n2", "gone"])
    waits = context.waits()
    assert set(waits) == {CHILD, OTHER}
    own, ranked = settling.SETTLING_SECONDS, settling.SETTLING_SECONDS + context.settings.steal_delay_seconds
    assert own - 0.09 < waits[CHILD] <= own
    assert ranked - 0.09 < waits[OTHER] <= ranked


def test_all_that_came_due_is_settled_together_and_once() -> None:
    context = Context(unsettled())
    made = Reconciler(context)  # type: ignore[arg-type]
    for name in ("b@n1", "d@n2", "e@n2", "gone@n1"):
        made.settle(name)
    made.write()
    assert states(context) == {paths.noderole("b", "n1"): State.TODO, paths.noderole("d", "n2"): State.TODO}
    assert {what for _, _, what in context.sent} == {"settling"}
    count = len(context.sent)
    made.write()
    assert len(context.sent) == count


def test_what_is_refused_is_settled_later_and_later_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    context = Context(unsettled())
    made = Reconciler(context)  # type: ignore[arg-type]
    waits = []
    with caplog.at_level(logging.WARNING, settling.log.name):
        for _ in range(settling.QUIET + 3):
            made.settle("b@n1")
            made.write()
            _, then, _ = context.sent.pop()
            then(Stale("it moved on", "/x"))
            waits.append(context.waits()[CHILD])
    doubled = [settling.SETTLING_SECONDS * 2.0**at for at in range(settling.QUIET + 3)]
    assert all(wait <= most and wait > most - 0.09 for wait, most in zip(waits, doubled, strict=True))
    (said,) = [each.getMessage() for each in caplog.records]
    assert said == f"{CHILD} was refused again and again, and is tried again: it moved on"
    made.settle("b@n1")
    made.write()
    context.sent.pop()[1](None)
    assert context.waits() == {}
    made.settle("b@n1")
    made.write()
    context.sent.pop()[1](Stale("it moved on", "/x"))
    assert context.waits()[CHILD] <= settling.SETTLING_SECONDS, "it begins anew"


def test_what_others_settled_is_refused_no_more() -> None:
    made = unsettled()
    context = Context(made)
    ours = Reconciler(context)  # type: ignore[arg-type]
    for _ in range(4):
        ours.settle("b@n1")
        ours.write()
        context.sent.pop()[1](Stale("it moved on", "/x"))
    vertex = made.vertex("b@n1")
    assert vertex is not None
    made.put_noderole("n1", "b", replace(vertex.record, state=State.TODO), 8)
    ours.settle("b@n1")
    made.put_noderole("n1", "b", replace(vertex.record, state=State.BLOCKED), 9)
    context.waits()
    ours.settle("b@n1")
    ours.write()
    context.sent.pop()[1](Stale("it moved on", "/x"))
    assert context.waits()[CHILD] <= settling.SETTLING_SECONDS


# -- deaths --


def dying(**fields: Any) -> World:
    made = world()
    put(made, "a@n1", State.ACTIVE)
    made.put_node("n1", Node(**{"alive": False, "dying": True, "reason": "no route", **fields}), 6)
    return made


@pytest.mark.parametrize(
    ("fields", "timed"), [({}, True), ({"dying": False}, False), ({"alive": True, "dying": False}, False)]
)
def test_a_death_that_is_not_written_whole_has_a_timer(fields: dict[str, Any], timed: bool) -> None:
    context = Context(dying(**fields))
    context.ranking.of = lambda _: 2  # type: ignore[method-assign]
    Reconciler(context).look_at_all()  # type: ignore[arg-type]
    waits = context.waits()
    assert set(waits) == ({DYING} if timed else set())
    if timed:
        wait = settling.SETTLING_SECONDS + 2 * context.settings.steal_delay_seconds
        assert wait - 0.09 < waits[DYING] <= wait


def test_a_death_goes_on_until_all_of_it_is_written() -> None:
    context = Context(dying())
    made = Reconciler(context)  # type: ignore[arg-type]
    made.go_on_dying("n1")
    ((changes, then, what),) = context.sent
    assert what == "death of n1"
    assert {paths.noderole("a", "n1"), paths.node("n1")} <= paths_of(changes)
    moved = next(change.data for change in changes if change.path == paths.noderole("a", "n1"))  # type: ignore[union-attr]
    assert moved.by == "a"
    then(None)
    assert set(context.waits()) == {DYING}, "the node may still be dying"
    then(Stale("it moved on", "/x"))
    assert context.waits()[DYING] <= settling.SETTLING_SECONDS
    then(Stale("it moved on", "/x"))
    assert context.waits()[DYING] > settling.SETTLING_SECONDS


def test_a_death_that_others_wrote_whole_is_at_an_end() -> None:
    context = Context(dying(dying=False))
    made = Reconciler(context)  # type: ignore[arg-type]
    for _ in range(3):
        made._went_on("n1", Stale("it moved on", "/x"))
    context.waits()
    made.go_on_dying("n1")
    made.go_on_dying("gone")
    assert [changes for changes, _, _ in context.sent] == [[]]
    made._went_on("n1", Stale("it moved on", "/x"))
    assert context.waits()[DYING] <= settling.SETTLING_SECONDS
