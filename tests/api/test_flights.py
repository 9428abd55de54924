"""Equal reads at once are one read."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Coroutine
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from nodepool_ocb.api import reading
from nodepool_ocb.api.actor import Actor
from nodepool_ocb.api.memory.documents import KeptDocuments
from nodepool_ocb.api.memory.flights import DEADLINES_SECONDS, Flights
from nodepool_ocb.api.paging import PageOptions
from nodepool_ocb.api.performing import Answered, DatedVersion, OperationOrder
from nodepool_ocb.api.reading import AskedResource
from nodepool_ocb.api.routes import ROUTES
from nodepool_ocb.errors import Denied, NotFound, TimedOut
from nodepool_ocb.model.tokens import Token, TokenRole
from nodepool_ocb.operations.noderoles.reading import NoderoleShow
from nodepool_ocb.operations.operation import Operation, Performed
from nodepool_ocb.operations.tokens.reading import TokenList, TokenShow

LATER = 60.0


class Reads:
    """Reads that end when they are let go; each answers with its number."""

    def __init__(self) -> None:
        self.flights = Flights[int]()
        self.begun = 0
        self.ends = asyncio.Event()
        self.error: Exception | None = None

    async def read(self) -> int:
        self.begun += 1
        number = self.begun
        await self.ends.wait()
        if self.error is not None:
            raise self.error
        return number

    def ask(self, key: str = "a", least: int = 0, now: int = 5, seconds: float = LATER) -> asyncio.Task[int]:
        return asyncio.create_task(self.flights.join(key, least, now, time.monotonic() + seconds, self.read))

    async def until(self, begun: int) -> None:
        while self.begun < begun:
            await asyncio.sleep(0)

    async def end(self, *asked: asyncio.Task[int]) -> list[int | BaseException]:
        await asyncio.sleep(0)
        self.ends.set()
        return await asyncio.gather(*asked, return_exceptions=True)


def run(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(story, 20.0))


def test_equal_reads_at_once_have_one_answer_and_a_later_one_has_its_own() -> None:
    async def story() -> None:
        reads = Reads()
        assert await reads.end(reads.ask(), reads.ask(), reads.ask("b")) == [1, 1, 2]
        assert await reads.ask() == 3

    run(story())


def test_a_read_that_must_show_a_later_write_does_not_join() -> None:
    async def story() -> None:
        reads = Reads()
        first, second = reads.ask(now=5), reads.ask(least=6, now=5)
        await asyncio.sleep(0)
        assert await reads.end(first, second, reads.ask(least=6, now=5)) == [1, 2, 2]

    run(story())


def test_an_error_is_that_of_all_and_no_read_waits_beyond_its_deadline() -> None:
    async def story() -> None:
        reads = Reads()
        first, second, short = reads.ask(), reads.ask(), reads.ask(seconds=0.05)
        with pytest.raises(TimedOut):
            await short
        reads.error = NotFound("gone")
        assert [type(each) for each in await reads.end(first, second)] == [NotFound, NotFound]

    run(story())


def test_a_client_that_leaves_does_not_end_the_read_of_the_others() -> None:
    async def story() -> None:
        reads = Reads()
        first, second = reads.ask(), reads.ask()
        await asyncio.sleep(0)
        first.cancel()
        assert (await reads.end(first, second))[1] == 1

    run(story())


def test_a_read_does_not_join_one_that_ends_much_earlier() -> None:
    async def story() -> None:
        reads = Reads()
        first, second = reads.ask(seconds=20.0), reads.ask(seconds=20.0 + 2 * DEADLINES_SECONDS)
        assert await reads.end(first, second) == [1, 2]

    run(story())


def test_a_read_that_ends_late_leaves_a_newer_one_of_its_key_to_the_others() -> None:
    async def story() -> None:
        reads = Reads()
        old = reads.ask(now=5)
        await reads.until(1)
        ends, reads.ends = reads.ends, asyncio.Event()
        newer = reads.ask(least=6)
        await reads.until(2)
        ends.set()
        assert await old == 1
        assert await reads.end(newer, reads.ask(least=6)) == [2, 2]

    run(story())


def test_the_error_of_a_read_that_all_have_left_is_no_fault_of_the_loop() -> None:
    faults: list[object] = []

    async def story() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, each: faults.append(each))
        reads = Reads()
        with pytest.raises(TimedOut):
            await reads.ask(seconds=0.05)
        reads.error = NotFound("gone")
        await reads.end()
        await asyncio.sleep(0.01)
        gc.collect()

    run(story())
    assert faults == []


def actor(id: str = "00000000002a", role: TokenRole = TokenRole.VIEWER, **fields: Any) -> Actor:
    token = Token(name="ann", role=role, digest="0" * 64, **fields)
    return Actor(id=id, token=token, address="192.0.2.1")


def asked(holder: Actor, operation: Operation[Any]) -> AskedResource:
    route = next(each for each in ROUTES if each.operation == "token/list")
    order = OperationOrder(operation=operation, deadline=time.monotonic() + LATER)
    return AskedResource(route=route, actor=holder, order=order, place=None, page=PageOptions())


@pytest.mark.parametrize(
    ("changed", "other", "reads"),
    [
        pytest.param({}, actor("00000000002b"), 1, id="another token with the same rights"),
        pytest.param({"writes": 1}, actor(), 2, id="after a write of this server"),
        pytest.param({}, actor(role=TokenRole.ADMIN), 2, id="another role"),
        pytest.param({}, actor(reveal=True), 2, id="secrets"),
        pytest.param({}, actor(deployments=("lab",)), 2, id="limits"),
    ],
)
def test_requests_with_the_same_rights_and_no_write_between_them_share_a_read(
    changed: dict[str, int], other: Actor, reads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[AskedResource] = []
    monkeypatch.setattr(reading, "_found", lambda _desk, each, *_: begun.append(each))

    async def story() -> None:
        ends = asyncio.Event()

        async def run_later(call: Any, _deadline: float) -> Any:
            await ends.wait()
            return call()

        records = SimpleNamespace(zxid=5, writes=0)
        desk: Any = SimpleNamespace(records=records, flights=Flights(), run=run_later)
        first = asyncio.create_task(reading._read_once(desk, asked(actor(), TokenList()), "/v1/tokens?", ()))
        await asyncio.sleep(0)
        vars(records).update(changed)
        second = asyncio.create_task(reading._read_once(desk, asked(other, TokenList()), "/v1/tokens?", ()))
        await asyncio.sleep(0)
        ends.set()
        await asyncio.gather(first, second)

    run(story())
    assert len(begun) == reads


@pytest.mark.parametrize(
    "operation", [TokenShow(token="0" * 12), NoderoleShow(noderole="a@n1", reveal=True)], ids=["token", "secret"]
)
def test_rights_are_judged_before_anything_is_taken_from_the_memory(operation: Operation[Any]) -> None:
    desk: Any = SimpleNamespace()  # without a memory, and without a cluster
    request: Any = SimpleNamespace(headers={})
    with pytest.raises(Denied):
        asyncio.run(reading.read(desk, request, asked(actor(role=TokenRole.JOIN), operation)))


def test_each_holder_reads_the_own_token_alone() -> None:
    async def story() -> None:
        keys: list[Any] = []

        async def join(key: Any, *_: Any) -> None:
            keys.append(key)

        desk: Any = SimpleNamespace(records=SimpleNamespace(zxid=5, writes=0), flights=SimpleNamespace(join=join))
        for id in ("00000000002a", "00000000002b"):
            await reading._read_once(desk, asked(actor(id), TokenShow(token=id)), "/v1/tokens/x?", ())
        assert len(set(keys)) == 2

    run(story())


def test_a_document_is_no_older_than_its_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """The version is read from ZooKeeper, and the document from a cache that may lag."""
    orders: list[OperationOrder] = []

    def perform(_records: Any, _actor: Actor, order: OperationOrder, _hear: Any) -> Answered:
        orders.append(order)
        return Answered(performed=Performed(answers=({},), rows=(), dry_run=False), zxid=80)

    monkeypatch.setattr(reading, "version_of", lambda *_: DatedVersion("v1", 77))
    monkeypatch.setattr(reading, "perform", perform)
    desk: Any = SimpleNamespace(records=SimpleNamespace(zxid=5), documents=KeptDocuments())
    one = replace(asked(actor(), TokenShow(token="0" * 12)), place="/ocb/tokens/000000000000")
    assert reading._found(desk, one, "/v1/tokens/x?", ()).version == "v1"
    assert [each.min_zxid for each in orders] == [77]
    assert desk.documents.get("/v1/tokens/x?", "v1", 0.0) is None
