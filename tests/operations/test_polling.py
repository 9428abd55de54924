"""Reads that a client of the API performs again and again, in place of watches of ZooKeeper."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.errors import NotFound, TimedOut, Unavailable
from nodepool_ocb.model.records import State
from nodepool_ocb.operations import polling
from nodepool_ocb.operations.deployments.changing import DeploymentWait
from nodepool_ocb.operations.noderoles import awaiting, reading
from nodepool_ocb.operations.noderoles.destroying import NoderoleUnbind
from nodepool_ocb.operations.noderoles.reading import NoderoleList
from nodepool_ocb.operations.operation import AwaitedNoderoles, Call, Operation, Performed
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.views.noderoles import DeletedNoderole
from tests.operations.performing import ListeningCaller, calm

T = TypeVar("T")


class ScriptedPerformer:
    """Answers a question with the next of its answers: a value, or an error that is raised."""

    def __init__(self, *answers: Any) -> None:
        self.call, self.caller = Call(login="ann", host="desk"), ListeningCaller()
        self.answers = list(answers)
        self.asked: list[Operation[Any]] = []

    def perform(self, operation: Operation[T]) -> Performed[T]:
        self.asked.append(operation)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return Performed(answers=(answer,), rows=(), dry_run=False)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(polling, "POLL_SECONDS", 0.001)


LIST = NoderoleList()


def test_a_poll_gives_every_answer_and_a_short_outage_is_one_note() -> None:
    away = Unavailable("https://ocb cannot be reached")
    used = ScriptedPerformer("a", away, away, "b", "c", NotFound("gone"))
    looks = polling.polled(used, lambda: LIST)
    assert [next(looks) for _ in range(3)] == ["a", "b", "c"]
    assert used.caller.notes == ["https://ocb cannot be reached; waiting for it"]
    with pytest.raises(NotFound):
        next(looks)


def test_a_long_outage_ends_a_poll(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(polling, "OUTAGE_SECONDS", 0.05)
    used = ScriptedPerformer("a", *[Unavailable("away")] * 1000)
    looks = polling.polled(used, lambda: LIST)
    assert next(looks) == "a"
    with pytest.raises(Unavailable):
        next(looks)


def test_a_poll_ends_at_its_deadline() -> None:
    looks = polling.polled(ScriptedPerformer(*range(100_000)), lambda: LIST, time.monotonic() + 0.05)
    with pytest.raises(TimedOut, match="it took longer than the time-out"):
        list(looks)


# -- the same looks as directly --

N1 = "n1.example.com"
BASE = f"base@{N1}"
Becomes = Callable[..., None]


class DistantPerformer:
    """Performs on ZooKeeper, with each operation and answer in JSON; it offers no session to follow records with."""

    def __init__(self, settings: ZooKeeperSettings) -> None:
        self.call, self.caller = Call(login="ann", host="desk"), ListeningCaller()
        self._settings = settings

    def perform(self, operation: Operation[T]) -> Performed[T]:
        return calm(self._settings).perform(operation)


@pytest.mark.usefixtures("world")
@pytest.mark.parametrize(
    "awaited",
    [
        AwaitedNoderoles(noderoles=(BASE,)),
        AwaitedNoderoles(nodes=(N1,)),
        DeploymentWait(name="lab").awaited(),
    ],
    ids=["noderoles", "a node", "a deployment"],
)
def test_a_wait_sees_the_same_through_polls_as_by_following(
    zk_settings: ZooKeeperSettings, becomes: Becomes, awaited: AwaitedNoderoles
) -> None:
    direct = awaiting.looks(calm(zk_settings), awaited, None)
    polled = awaiting.looks(DistantPerformer(zk_settings), awaited, None)
    assert next(direct) == next(polled)
    becomes(BASE, State.ERROR)
    seen = next(each for each in direct if each.changed)
    assert seen == next(each for each in polled if each.changed)
    assert BASE in seen.progress.failed
    assert seen.deployments == ("lab",)


def test_a_noderole_that_was_awaited_stays_awaited_after_its_deletion(
    world: Session, zk_settings: ZooKeeperSettings
) -> None:
    polled = awaiting.looks(DistantPerformer(zk_settings), AwaitedNoderoles(nodes=(N1,)), None)
    first = next(polled)
    calm(zk_settings).perform(NoderoleUnbind(noderoles=(f"top@{N1}",)))
    gone = next(each for each in polled if each.changed)
    assert (gone.names, gone.progress.gone) == (first.names, (f"top@{N1}",))
    assert world.get(f"/ocb/nodes/{N1}/noderoles/top") is None


@pytest.mark.usefixtures("world")
def test_a_watched_list_gives_all_rows_and_then_those_that_changed_or_went(
    zk_settings: ZooKeeperSettings, becomes: Becomes
) -> None:
    rows = reading.watched(DistantPerformer(zk_settings), NoderoleList(node=N1))
    first = [next(rows) for _ in range(3)]
    assert [each.noderole for each in first] == [BASE, f"middle@{N1}", f"top@{N1}"]  # type: ignore[attr-defined]
    becomes(BASE, State.ERROR)
    assert next(rows).state is State.ERROR  # type: ignore[attr-defined]
    calm(zk_settings).perform(NoderoleUnbind(noderoles=(f"top@{N1}",)))
    assert next(each for each in rows if isinstance(each, DeletedNoderole)) == DeletedNoderole(f"top@{N1}")
