"""The looks of a wait for long work: how new they are, how often they come, and how long one may take."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest

from nodepool_ocb.api import longwork
from nodepool_ocb.api.actor import Actor
from nodepool_ocb.api.performing import Answered, OperationOrder
from nodepool_ocb.errors import NotFound
from nodepool_ocb.model.tokens import Token, TokenRole
from nodepool_ocb.operations.calls.longwork import LongWork, WorkEnd
from nodepool_ocb.operations.operation import Performed
from nodepool_ocb.operations.requests.reading import RequestShow

SHOWN = RequestShow(request="100-0000000001")
OWNER = Actor(
    id="0", token=Token(name="ann", role=TokenRole.VIEWER, digest="0" * 64, deployments=("lab",)), address="::1"
)


class SmallDesk:
    """It performs each look at once; ``valid``: whether the token still is."""

    records = None

    def __init__(self, valid: bool = True) -> None:
        self.valid = valid

    def deadline(self) -> float:
        return time.monotonic() + 600.0

    async def run(self, call: Callable[[], Any], _deadline: float) -> Any:
        return call()

    def still_valid(self, _actor: Actor) -> bool:
        return self.valid


def waited(
    monkeypatch: pytest.MonkeyPatch,
    look: Callable[[Actor], Any],
    seconds: float = 0.05,
    desk: SmallDesk | None = None,
    end: WorkEnd | None = None,
) -> tuple[list[OperationOrder], WorkEnd | None]:
    """The orders of the looks of a wait, and its end; ``look`` answers them."""
    orders: list[OperationOrder] = []

    def perform(_records: Any, actor: Actor, order: OperationOrder, _hear: Any) -> Answered:
        orders.append(order)
        return Answered(performed=Performed(answers=(look(actor),), rows=(), dry_run=False), zxid=80)

    monkeypatch.setattr(longwork, "perform", perform)
    work = LongWork(SHOWN, lambda _: SHOWN, lambda _: end)
    used: Any = desk or SmallDesk()
    return orders, asyncio.run(longwork.awaited(used, OWNER, work, seconds, 77))


def test_each_look_is_as_new_as_the_write_and_takes_a_few_seconds_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    before = time.monotonic()
    orders, end = waited(monkeypatch, lambda _: "goes on")
    assert end is None
    assert {each.min_zxid for each in orders} == {77}
    latest = time.monotonic() + longwork.LONGEST_LATE_SECONDS
    assert all(before < each.deadline <= latest for each in orders)


def test_looks_that_take_long_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(longwork, "LOOK_SECONDS", 0.0)
    orders, _ = waited(monkeypatch, lambda _: time.sleep(0.1), seconds=1.0)
    assert len(orders) <= 1.0 / (0.1 * (1 + longwork.SHARE)) + 2, (
        "a look of 0.1 s and a pause of 0.4 s; the last at the end"
    )


@pytest.mark.parametrize("valid", [True, False])
def test_the_end_is_told_to_a_token_with_the_rights_that_it_had(valid: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    _, end = waited(monkeypatch, lambda _: "done", desk=SmallDesk(valid), end=WorkEnd("active", None))
    assert (end is not None and (end.outcome, end.document)) == (("active", "done") if valid else False)


@pytest.mark.parametrize(("everywhere", "outcome"), [(True, "deleted"), (False, None)])
def test_work_is_deleted_if_it_is_gone_for_a_token_without_limits(
    everywhere: bool, outcome: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def look(actor: Actor) -> str:
        if everywhere or actor.limits is not None:
            raise NotFound("there is no such request")
        return "goes on elsewhere"

    _, end = waited(monkeypatch, look)
    assert (end.outcome if end else None) == outcome
