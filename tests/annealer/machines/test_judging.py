"""Whose word on a machine counts, and what this annealer holds against itself."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from nodepool_ocb.config import AnnealerSettings
from nodepool_ocb.daemon.rendezvous import Ranking
from nodepool_ocb.daemon.timers import Timers
from nodepool_ocb.engine.liveness import suspected
from nodepool_ocb.engine.run import RunEvent
from nodepool_ocb.engine.world import Stored, World
from nodepool_ocb.errors import OcbError
from nodepool_ocb.jigs.jig import Outcome, Party, Succeeded, Unreachable
from nodepool_ocb.model.aliveness import Suspicion
from nodepool_ocb.model.records import Change, Daemon, Node, State
from nodepool_ocb.secrecy.opening import Secrets
from nodepool_ocb_annealer.claims import Claims
from nodepool_ocb_annealer.machines.judging import Judging
from nodepool_ocb_annealer.runs.attempts import SlotAnswer
from nodepool_ocb_annealer.runs.executor import RunParts
from nodepool_ocb_annealer.runs.slots import SlotPool
from tests.engine.worlds import put, world


class Context:
    """An annealer called "a" whose every write is taken; ``outcome`` is what each of its runs comes to."""

    draining = False
    resting = False
    identity = "a"

    def __init__(self, made: World, outcome: Outcome | None = None) -> None:
        self.world, self.settings, self.timers, self.ranking = made, AnnealerSettings(), Timers(), Ranking("a")
        self.session: Any = SimpleNamespace(
            now=lambda: 1.0, trusted=True, id=1, connections=1, send_read=lambda wanted: lambda: [None] * len(wanted)
        )
        self.tidying: Any = SimpleNamespace(ended=lambda *_, **__: None)
        self.secrets = Secrets()
        self.jigs: Any = {"noop": SimpleNamespace(instant=False, attaches=True)}
        self.slots = SlotPool(self)
        if outcome is not None:
            event = RunEvent.UNREACHED if isinstance(outcome, Unreachable) else RunEvent.ENDED
            answer = SlotAnswer(event, outcome, 1.0)
            self.slots.start = lambda _, done, __: done(answer)  # type: ignore[method-assign]
        self.judging = Judging(self)
        self.claims = Claims(self, RunParts(self.slots, self.tidying, self.judging), lambda _: True)
        self.sent: list[list[Change]] = []

    def send(self, changes: list[Change], then: Callable[[OcbError | None], None], what: str) -> None:  # noqa: ARG002
        self.sent.append(changes)
        self.session.trusted = len(self.sent) < 2  # one run is enough
        for vertex in list(self.world.vertices()):
            for change in changes:
                if change.path.endswith(f"/noderoles/{vertex.role}"):
                    self.world.put_noderole(vertex.node.name, vertex.role, change.data, 8)  # type: ignore[union-attr, arg-type]
        self.world.put_fence("n", 7)
        then(None)

    def post(self, call: Callable[[], None]) -> None:
        call()

    def spoiled(self, path: str, reason: str) -> None: ...


def among(*names: str) -> World:
    made = world()
    for name in names:
        made.put(Stored(Daemon(host="h", pid=1, version="0", started=0.0), 0), "annealer", name)
    return made


def node(by: str) -> Node:
    return Node(alive=True, suspicion=Suspicion(by=by, reason="connect: refused", since=0.0))


@pytest.mark.parametrize(("by", "counts"), [("b", True), ("gone", False), ("a", False)])
def test_only_an_annealer_that_is_there_agrees_that_a_machine_is_dead(by: str, counts: bool) -> None:
    """One that is gone may have been this one, before it was started again with the same fault."""
    assert Judging(Context(among("b", "c"))).agreed(node(by), Party.MACHINE) is counts


@pytest.mark.parametrize(
    ("by", "hosts", "trouble", "dead"),
    [
        ("b", {"a": "h1", "b": "h2"}, None, True),
        ("b", {"a": "h1", "b": "h1"}, None, False),
        ("b", {"a": "h1", "b": "h2"}, "its own", False),
        ("a", {"a": "h1"}, None, False),
        ("gone", {"a": "h1"}, None, False),
    ],
)
def test_a_fault_of_the_path_kills_only_with_the_verdict_of_an_annealer_on_another_host(
    by: str, hosts: dict[str, str], trouble: str | None, dead: bool
) -> None:
    made = world()
    for name, host in hosts.items():
        made.put(Stored(Daemon(host=host, pid=1, version="0", started=0.0, trouble=trouble), 0), "annealer", name)
    assert Judging(Context(made)).agreed(node(by), Party.PATH) is dead


def test_a_suspicion_of_another_that_is_ready_is_not_written_over() -> None:
    """Two annealers of one host would write theirs in turn for as long as the machine is off."""
    made = among("a", "b")
    context = Context(made)
    made.put_node("n1", node("b"), 0)
    context.judging.suspect(made.node("n1"), "connect: timed out")
    assert not context.sent
    made.put_node("n1", node("gone"), 1)
    context.judging.suspect(made.node("n1"), "connect: timed out")
    assert len(context.sent) == 1


def test_what_machines_do_after_they_let_it_in_makes_no_trouble_of_an_annealer() -> None:
    """Others reach them, and so did it: two machines that lie must not keep it from all the rest."""
    made = among("b")
    context = Context(made)
    for fqdn, reason in (
        ("n1", "run: the machine sends an answer that its runner never sends"),
        ("n2", "run: no runner"),
    ):
        made.put_node(fqdn, Node(alive=True), 0)
        view = made.node(fqdn)
        assert suspected(view, "a", reason, 1.0)
        context.judging.suspect(view, reason)
        context.judging.heed(fqdn, view)
    assert context.judging.standing.trouble is None


@pytest.mark.parametrize("well", [True, False])
def test_a_run_that_ends_in_the_death_of_its_machine_does_not_tell_that_this_host_is_well(well: bool) -> None:
    made = among()
    vertex = put(made, "app@n", State.TODO)
    context = Context(made, Succeeded({}) if well else Unreachable("connect", "no route"))
    standing = context.judging.standing
    standing.well()
    standing.refuted("n1", "connect: no route")
    context.claims.consider("n")
    assert len(context.sent) == 2, vertex.record
    standing.refuted("n2", "connect: no route")
    assert (standing.trouble is None) is well


@pytest.mark.parametrize("fate", ["deleted", "not available", "probed"])
def test_a_fault_met_at_a_node_that_is_asked_no_more_makes_no_trouble(fate: str) -> None:
    """Else the trouble would have no end: the operation that failed cannot be repeated there."""
    made = among("a")
    made.put_node("n1", Node(alive=True, addresses=("10.0.0.1",), available=fate != "not available"), 0)
    judging = Judging(Context(made))
    judging.unfit("n1", "resolve: Temporary failure in name resolution", lacking=False, certain=True)
    judging.heed("n1", None if fate == "deleted" else made.node("n1"))
    assert (judging.standing.trouble is not None) == (fate == "probed")
