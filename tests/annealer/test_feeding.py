"""Nodes with work that wait for others: for a slot, for fewer under way, or for a host that is well."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from nodepool_ocb.config import AnnealerSettings
from nodepool_ocb.daemon.rendezvous import Ranking
from nodepool_ocb.daemon.timers import Timers
from nodepool_ocb.engine.world import World
from nodepool_ocb.errors import OcbError, Unavailable
from nodepool_ocb.model.drift import PendingCheck
from nodepool_ocb.model.records import Change, Claim, State
from nodepool_ocb.secrecy.opening import Secrets
from nodepool_ocb_annealer import claims
from nodepool_ocb_annealer.claims import Claims
from nodepool_ocb_annealer.machines.judging import Judging
from nodepool_ocb_annealer.runs.executor import RunParts
from nodepool_ocb_annealer.runs.slots import SlotPool
from tests.engine.worlds import put, world


class Context:
    """An annealer called "a" with one jig, noop, whose writes wait in ``sent`` for their answers."""

    resting = False
    identity = "a"

    def __init__(self, made: World, instant: bool = True) -> None:
        self.world, self.settings = made, AnnealerSettings(slots=1)
        self.timers, self.ranking = Timers(), Ranking("a")
        self.session: Any = SimpleNamespace(
            now=lambda: 1.0, trusted=True, id=1, connections=1, send_read=lambda wanted: lambda: [None] * len(wanted)
        )
        self.tidying: Any = SimpleNamespace(ended=lambda *_, **__: None)
        self.secrets = Secrets()
        self.jigs: Any = {"noop": SimpleNamespace(instant=instant, attaches=True)}
        self.slots = SlotPool(self)
        self.judging = Judging(self)
        self.claims = Claims(self, RunParts(self.slots, self.tidying, self.judging), lambda _: True)
        self.sent: list[tuple[str, Callable[[OcbError | None], None]]] = []

    def send(self, changes: list[Change], then: Callable[[OcbError | None], None], what: str) -> None:
        assert changes
        self.sent.append((what, then))

    def post(self, call: Callable[[], None]) -> None:
        call()

    def spoiled(self, path: str, reason: str) -> None: ...

    @property
    def asked(self) -> list[str]:
        return [what for what, _ in self.sent]


def among(*names: str) -> World:
    made = world()
    for name in names:
        put(made, name, State.TODO)
    return made


def settle(made: World, name: str) -> None:
    """Somebody has done it."""
    vertex = made.vertex(name)
    assert vertex is not None
    made.put_noderole(vertex.node.name, vertex.role, replace(vertex.record, state=State.ACTIVE), 8)


def failing(context: Context) -> None:
    """This host failed at two machines, and the pauses after that are over."""
    for fqdn in ("x", "y"):
        context.claims._faults.fault(fqdn, 0.0, "the disk is full")
    context.claims._faults._until = 0.0


@pytest.mark.parametrize("state", [State.TODO, State.ACTIVE])
def test_a_claim_of_ours_without_a_run_is_given_back_also_where_nothing_is_left_to_do(state: State) -> None:
    context = Context(among("a@n"))
    if state is State.ACTIVE:
        settle(context.world, "a@n")
    for annealer in ("b", "a"):
        context.world.put_claim("n", Claim(annealer=annealer, noderole="a@n", run="r", epoch=1, since=1.0), 1, 0)
        context.claims.consider("n")
    assert context.asked == ["giving back n"]


def test_a_host_that_fails_looks_at_what_waits_when_nothing_is_under_way_and_not_before() -> None:
    made = among("a@n1", "a@n2")
    context = Context(made)
    context.claims.consider("n2")
    failing(context)
    under_way: Any = SimpleNamespace(fqdn="n9", slot=False, let_go=lambda: None)
    context.claims.executor._attempts["n9"] = under_way
    context.claims.consider("n1")
    settle(made, "a@n2")
    context.sent[0][1](None)  # this came to no end
    assert context.asked == ["claim of a@n2"]
    context.claims.executor._forget(under_way)
    context.claims.retry_waiting()
    assert context.asked == ["claim of a@n2", "claim of a@n1"]


@pytest.mark.parametrize("refusal", [None, Unavailable("the connection broke")])
def test_what_came_when_too_many_were_under_way_follows_though_all_slots_are_busy(
    monkeypatch: pytest.MonkeyPatch, refusal: OcbError | None
) -> None:
    monkeypatch.setattr(claims, "MOST_IN_FLIGHT", 1)
    made = among("a@n1", "a@n2")
    context = Context(made)
    context.slots._count(+1)
    context.claims.consider("n2")
    context.claims.consider("n1")
    assert context.asked == ["claim of a@n2"]
    settle(made, "a@n2")
    context.sent[0][1](refusal)
    assert context.asked == ["claim of a@n2", "claim of a@n1"]


def test_one_that_is_to_be_cancelled_is_claimed_and_not_done_at_once() -> None:
    made = world()
    put(made, "a@n1", State.TODO, cancel_reason="time is up")
    context = Context(made)
    context.claims.consider("n1")
    assert context.claims.executor._attempts["n1"].grant.record.state is State.TRANSITION
    assert context.asked == ["claim of a@n1"]


def test_checks_for_which_no_slot_is_spare_wait_until_one_is_and_are_not_looked_at_meanwhile() -> None:
    made = world()
    for name in ("a@n1", "a@n2"):
        put(made, name, State.ACTIVE, refresh=True, check=PendingCheck())
    context = Context(made, instant=False)
    context.slots._count(+1)
    context.claims.consider("n1")
    context.claims.consider("n2")
    context.claims.retry_waiting()
    assert context.asked == []
    assert context.timers.seconds(0.0, at_most=9e9) == 9e9, "no timer"
    context.slots._count(-1)
    context.claims.retry_waiting()
    assert len(context.asked) == 1, "the other waits for its end"
