"""When an annealer has a publishing noderole run again; a world without a server."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from nodepool_ocb.engine.world import Stored, World
from nodepool_ocb.errors import Stale
from nodepool_ocb.model.boot import Publication, Publisher
from nodepool_ocb.model.drift import PendingCheck
from nodepool_ocb.model.records import Change, Node, NodeRole, Role, Set, State
from nodepool_ocb.provisioning import boot, publications
from nodepool_ocb_annealer import publishing
from nodepool_ocb_annealer.publishing import PublishingSweep

SERVER = "a1.example.com"
NAME = f"{boot.DHCP}@{SERVER}"


class Sweeping:
    """The part of an annealer that a sweep uses, and the noderoles that it asks to run again."""

    def __init__(self) -> None:
        self.world = World()
        self.world.put(Stored(Role(barclamp="provisioner", jig="script"), 0), boot.DHCP)
        self.node()
        self.noderole()
        self.world.put(Stored(Publisher(directory="d", listened=1000.0), 0), NAME)
        self.asked: list[str] = []
        self.resting, self.rank, self.now, self.identity = False, 0, 1000.0, "a"
        self.settings = SimpleNamespace(dhcp_listen_seconds=600.0)
        self.session = SimpleNamespace(now=lambda: self.now)
        self.ranking = SimpleNamespace(of=lambda _: self.rank)
        self.timers = SimpleNamespace(at=lambda *_: None)
        self.answer: Callable[[Any], None] = lambda _: None
        self.sweep = PublishingSweep(self)  # type: ignore[arg-type]

    def node(self, **fields: Any) -> None:
        self.world.put_node(SERVER, Node(**({"alive": True, "admin": True} | fields)), 1)

    def noderole(self, **fields: Any) -> None:
        record = NodeRole(state=State.ACTIVE, since=1.0).amended(**fields)
        self.world.put_noderole(SERVER, boot.DHCP, record, 3, 0)

    def send(self, changes: list[Change], answer: Callable[[Any], None], _: str) -> None:
        self.asked += [change.path for change in changes if isinstance(change, Set)]
        self.answer = answer

    def asks(self) -> bool:
        """Whether a look asks for a run."""
        self.asked.clear()
        self.sweep.due()
        return bool(self.asked)

    def publish(self) -> None:
        """All that is due."""
        for name in [*publications.due(self.world, NAME)]:
            digest = publications.wanted(self.world, NAME, name).digest
            self.world.put(Stored(Publication(digest=digest, directory="d"), 0), NAME, name)


@pytest.fixture
def made() -> Sweeping:
    return Sweeping()


@pytest.mark.parametrize(
    "prevent",
    [
        lambda made: setattr(made, "resting", True),
        lambda made: setattr(made, "rank", 1),
        lambda made: made.node(virtual=True),
        lambda made: made.node(alive=False),
        lambda made: made.noderole(state=State.ERROR),
        lambda made: made.noderole(refresh=True),
        lambda made: made.noderole(refresh=True, check=PendingCheck(since=1.0)),
        lambda made: made.world.drop(Role, boot.DHCP),
        lambda made: made.publish(),
    ],
    ids=[
        "resting",
        "another first",
        "virtual",
        "dead",
        "failed",
        "to run",
        "to be checked",
        "without role",
        "published",
    ],
)
def test_a_noderole_with_due_documents_runs_again_unless_there_is_a_reason(
    made: Sweeping, prevent: Callable[[Sweeping], None]
) -> None:
    assert made.asks()
    other = Sweeping()
    prevent(other)
    assert not other.asks()


def test_the_same_documents_are_not_asked_for_again_at_once_and_others_are(
    made: Sweeping, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert made.asks()
    made.answer(None)
    assert not made.asks(), "its run did not publish them"
    made.world.put_node("n1.example.com", Node(macs=("52:54:00:00:00:01",), bootenv="rescue"), 1)
    assert made.asks(), "another one is due"
    made.answer(Stale("it was changed meanwhile"))
    assert made.asks(), "it was not asked"
    made.publish()
    made.asks()
    made.world.drop(Publication, NAME, "n1.example.com")
    assert made.asks()
    made.publish()
    assert not made.asks()
    began = time.monotonic()
    made.world.drop(Publication, NAME, "n1.example.com")
    assert made.asks(), "all was published in between"
    assert not made.asks()
    monkeypatch.setattr(publishing.time, "monotonic", lambda: began + publishing.AGAIN_SECONDS + 60.0)
    assert made.asks(), "later it is repeated"


def test_a_server_looks_for_others_now_and_then_once_for_each_time(made: Sweeping) -> None:
    made.publish()
    assert not made.asks(), "it has looked a moment ago"
    made.now += 601.0
    assert made.asks()
    assert not made.asks(), "its run did not say that it looked"
    other = Sweeping()
    other.publish()
    other.now += 601.0
    other.settings.dhcp_listen_seconds = 0.0
    assert not other.asks(), "it is switched off"


def test_a_server_of_names_looks_for_no_server_of_dhcp(made: Sweeping) -> None:
    made.publish()
    made.world.put(Stored(Role(barclamp="provisioner", jig="script"), 0), boot.DNS)
    made.world.put_noderole(SERVER, boot.DNS, NodeRole(state=State.ACTIVE, since=1.0), 3, 0)
    names = f"{boot.DNS}@{SERVER}"
    made.world.put(Stored(Publisher(directory="d", listened=1000.0), 0), names)
    for name in [*publications.due(made.world, names)]:
        digest = publications.wanted(made.world, names, name).digest
        made.world.put(Stored(Publication(digest=digest, directory="d"), 0), names, name)
    made.now += 601.0
    assert made.asks()
    assert {path.rpartition("/")[2] for path in made.asked if "noderoles" in path} == {boot.DHCP}
