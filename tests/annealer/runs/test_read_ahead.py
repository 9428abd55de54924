"""The attributes of a run are asked for behind its claim, in the same flight, and read anew where that is not enough."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import pytest

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.engine import inputs, unreadable
from nodepool_ocb.engine.world import Stored, World
from nodepool_ocb.model import paths
from nodepool_ocb.model.joining import Inventory
from nodepool_ocb.model.records import Change, Create, DeploymentRole, Role, Set, State
from nodepool_ocb.store.client.session import Session
from nodepool_ocb_annealer.runs import attributes
from nodepool_ocb_annealer.runs.attributes import ReadAhead
from tests.annealer.test_feeding import Context, among
from tests.engine.worlds import put

HERE = "n1.example.com"
WALL, USER = paths.wall("ntp", HERE), paths.user("ntp", HERE)


def requests(session: Session) -> int:
    """How many requests this session's connection has sent."""
    sent: int = session._client._connection._xid
    return sent


@pytest.fixture
def written(zk_session: Session) -> Session:
    zk_session.ensure(paths.noderole("ntp", HERE))
    zk_session.commit([Create(WALL, {"a": 1}), Create(USER, {"b": 1})])
    return zk_session


def sent_behind(session: Session, changes: list[Change], wanted: Sequence[str]) -> ReadAhead:
    """The changes are sent, and the read at once behind them."""
    connections = session.connections
    session.commit_soon(changes, lambda _: None)
    return ReadAhead(session, wanted, connections)


def values(blobs: attributes.Blobs | None) -> list[bytes]:
    assert blobs is not None
    return [znode.data for znode in blobs.values() if znode is not None]


def test_a_read_behind_a_transaction_has_what_that_wrote_and_needs_no_further_request(written: Session) -> None:
    before = requests(written)
    ahead = sent_behind(written, [Set(WALL, {"a": 2}, 0)], [WALL, USER])
    assert values(ahead.found([USER, WALL])) == [b'{"a":2}', b'{"b":1}']
    assert requests(written) == before + 2


@pytest.mark.parametrize("why", ["another path", "long ago", "another connection"])
def test_it_is_not_used_where_it_may_lack_something(
    written: Session, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    ahead = sent_behind(written, [Set(WALL, {"a": 2}, 0)], [WALL])
    wanted: Collection[str] = [WALL, USER] if why == "another path" else [WALL]
    if why == "long ago":
        monkeypatch.setattr(attributes, "AHEAD_SECONDS", -1.0)
    elif why == "another connection":
        ahead._connections -= 1
    assert ahead.found(wanted) is None


@pytest.mark.long
def test_a_read_that_never_left_this_process_is_made_anew(written: Session) -> None:
    vertex = among(f"ntp@{HERE}").vertex(f"ntp@{HERE}")
    assert vertex is not None
    sources = inputs.sources(vertex.node.world, vertex, Role(barclamp="b", jig="script"))
    unconnected = Session(ZooKeeperSettings(hosts=written.hosts))
    ahead = ReadAhead(unconnected, attributes.wanted(sources), unconnected.connections)
    assert ahead.found(attributes.wanted(sources)) is None
    assert values(attributes.read(written, sources, ahead)) == [b'{"a":1}', b'{"b":1}']


# -- the part of an annealer --


class Asked(Context):
    """Its reads are noted in ``wanted``."""

    def __init__(self, made: World, **role: Any) -> None:
        super().__init__(made, instant=False)
        made.put(Stored(Role(barclamp="b", jig="noop", **role), 0), "a")
        self.wanted: list[list[str]] = []
        self.session.send_read = lambda wanted: self.wanted.append(list(wanted)) or (lambda: [None] * len(wanted))


def test_the_attributes_are_asked_for_behind_the_claim() -> None:
    context = Asked(among("a@n1"))
    context.claims.consider("n1")
    assert context.asked == ["claim of a@n1"]
    assert context.wanted == [[*paths_of("a"), paths.given("a", "n1")]]


def test_a_role_with_a_hook_before_its_run_is_not_read_ahead() -> None:
    context = Asked(among("a@n1"), hooks=("on_transition",))
    context.claims.consider("n1")
    assert (context.asked, context.wanted) == (["claim of a@n1"], [])


def test_a_run_that_is_claimed_as_another_ends_is_asked_for_with_the_attributes_of_that_one() -> None:
    made = among("a@n1")
    put(made, "b@n1", State.BLOCKED)
    made.put(Stored(Role(barclamp="b", jig="noop"), 0), "b")
    context = Asked(made)
    context.claims.consider("n1")
    (attempt,) = context.claims.executor._attempts.values()
    ended, other = made.vertex("a@n1"), made.vertex("b@n1")
    assert ended is not None
    assert other is not None
    context.slots.read_ahead(attempt, 1, ended=other)
    assert set(context.wanted[1]) == {*context.wanted[0], *unreadable.blobs(other)}


def paths_of(role: str) -> list[str]:
    return [paths.wall(role, "n1"), paths.system(role, "n1"), paths.user(role, "n1")]


def test_a_catalogue_is_kept_until_a_record_that_it_was_made_from_changes() -> None:
    made = among("a@n1")
    context = Asked(made)
    context.claims.consider("n1")
    first = context.slots._catalogue
    assert first is not None
    (attempt,) = context.claims.executor._attempts.values()
    context.slots._sources(attempt)
    assert context.slots._catalogue is first
    for kind, record, names in (
        (DeploymentRole, DeploymentRole(user={"a": 2}), ("system", "a")),
        (Role, Role(barclamp="b", jig="noop", template={"c": 3}), ("a",)),
        (Inventory, Inventory(at=1.0), ("n1",)),
    ):
        for change in (lambda record=record, names=names: made.put(Stored(record, 1), *names),
                       lambda kind=kind, names=names: made.drop(kind, *names)):  # fmt: skip
            context.slots._sources(attempt)
            before = context.slots._catalogue
            change()
            context.slots._sources(attempt)
            assert context.slots._catalogue is not before
