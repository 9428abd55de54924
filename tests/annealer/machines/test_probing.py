"""When the probes of a machine that does not answer add up to a death."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from queue import SimpleQueue
from types import SimpleNamespace

import pytest

from nodepool_ocb.jigs.jig import Unreachable
from nodepool_ocb.jigs.ssh.probe import Alive
from nodepool_ocb.model.aliveness import Mark, Marker
from nodepool_ocb.model.records import Node, Set
from nodepool_ocb_annealer.machines import probes
from nodepool_ocb_annealer.machines.probes import IN_A_ROW_SECONDS, Probing
from nodepool_ocb_annealer.timer_kinds import Timer, TimerKind
from tests.annealer.machines.test_judging import Context as Judged
from tests.engine.worlds import world


class Context(Judged):
    """An annealer that is alone, with the machine n0, which does not answer."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(probes, "time", SimpleNamespace(monotonic=lambda: self.now))
        self.now = 1000.0
        made = world()
        made.put_node("n0", Node(alive=True, addresses=("192.0.2.1",)), 0)
        super().__init__(made)
        self.prober = SimpleNamespace(probe=lambda *_: Unreachable("connect", "no answer"))
        self.inbox: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self.probing = Probing(self, self.judging)  # type: ignore[arg-type]
        self.probing.plan(["n0"])

    def post(self, call: Callable[[], None]) -> None:
        self.inbox.put(call)

    def ask(self, after_seconds: float, takes_seconds: float) -> None:
        """Keep the timer, as late, and take the answer, after so long: others may be asked first."""
        self.now += after_seconds
        assert list(self.timers.due(self.now)) == [Timer(TimerKind.PROBE, "n0")]
        self.probing.probe("n0")
        self.now += takes_seconds
        self.inbox.get(timeout=60.0)()

    @property
    def dead(self) -> bool:
        written = [change.data for changes in self.sent for change in changes if isinstance(change, Set)]
        return any(isinstance(record, Node) and not record.alive for record in written)


@pytest.fixture
def context(monkeypatch: pytest.MonkeyPatch) -> Iterator[Context]:
    made = Context(monkeypatch)
    yield made
    made.probing.close()


def test_machines_that_are_asked_one_after_the_other_are_dead_however_long_that_takes(context: Context) -> None:
    """Of a hundred that are silent at once, eight are asked at a time, and each for some ten seconds."""
    context.ask(60.0, 3 * IN_A_ROW_SECONDS)
    assert not context.dead
    context.ask(2.0, 3 * IN_A_ROW_SECONDS)
    assert context.dead


def test_a_failure_that_lies_long_back_is_none_of_two_in_a_row(context: Context) -> None:
    context.ask(60.0, 1.0)
    context.ask(2 * IN_A_ROW_SECONDS, 1.0)
    assert not context.dead
    context.ask(2.0, 1.0)
    assert context.dead


def marked(until: float) -> Node:
    mark = Mark(kind=Marker.PERSON, by="ann", since=0.0, until=until)
    return Node(addresses=("192.0.2.1",), mark=mark)


def test_a_machine_is_not_asked_while_a_mark_holds_and_at_once_when_its_time_is_up(context: Context) -> None:
    """ZooKeeper's clock says when: one that is behind this host's has it looked at again, and nothing is written."""
    assert list(context.timers.due(context.now + 3600.0))
    context.world.put_node("n0", marked(until=61.0), 1)
    context.session.now = lambda: 1.0
    context.probing.plan(["n0"])
    context.now += 60.0
    assert list(context.timers.due(context.now)) == [Timer(TimerKind.PROBE, "n0")]
    context.session.now = lambda: 51.0
    context.probing.probe("n0")
    assert context.inbox.empty()
    assert context.timers.seconds(context.now, at_most=60.0) == 10.0
    context.session.now = lambda: 61.0
    context.ask(10.0, 1.0)
    (written,) = [change.data for changes in context.sent for change in changes if isinstance(change, Set)]
    assert isinstance(written, Node)
    assert (written.mark, written.reason) == (None, "connect: no answer")


def test_an_answer_that_comes_after_a_mark_counts_for_nothing(context: Context) -> None:
    context.prober = SimpleNamespace(probe=lambda *_: Alive())
    context.world.put_node("n0", Node(addresses=("192.0.2.1",)), 1)
    context.probing.probe("n0")
    context.world.put_node("n0", marked(until=61.0), 2)
    context.inbox.get(timeout=60.0)()
    assert context.sent == []


def test_a_well_machine_is_asked_again_in_a_minute_and_a_dead_one_in_seconds(context: Context) -> None:
    settings = context.settings
    for alive, answer, seconds in (
        (True, Alive(), settings.probe_seconds),
        (False, Unreachable("connect", "no answer"), settings.dead_probe_seconds),
    ):
        list(context.timers.due(context.now + 3600.0))  # the timer before
        context.world.put_node("n0", Node(alive=alive, addresses=("192.0.2.1",)), 1)
        context.prober = SimpleNamespace(probe=lambda *_, answer=answer: answer)
        context.probing.probe("n0")
        context.inbox.get(timeout=60.0)()
        assert context.timers.seconds(context.now, at_most=3600.0) == pytest.approx(seconds, rel=0.11)
