"""``node show`` reads the records of the node, and answers as if it had read everything."""

from __future__ import annotations

import msgspec
import pytest

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.errors import Invalid, NotFound
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Claim, Create, Node, NodeRole, Set, State
from nodepool_ocb.operations.nodes.reading import NodeList, NodeShow
from nodepool_ocb.operations.performer import Performer
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.client.frames import Znode
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.world.load import load_world
from nodepool_ocb.testing.grid import Grid
from nodepool_ocb.views import nodes
from tests.operations.performing import calm

GRID = Grid(nodes=3, lanes=2, depth=3)
N0, N1 = GRID.fqdn(0), GRID.fqdn(1)


@pytest.fixture
def grid(zk_session: Session) -> Session:
    """The first level of n1 failed; n0 is claimed."""
    GRID.write(zk_session)
    failed = NodeRole.of(state=State.ERROR, since=5.0, deployment="bench", generation=1, reason="no disk")
    claim = Claim(annealer="a", noderole=f"step-0-0@{N0}", run="r", epoch=1, since=1.0)
    zk_session.commit(
        [*(Set(paths.noderole(f"step-0-{lane}", N1), failed, 0) for lane in range(2)), Create(paths.claim(N0), claim)]
    )
    return zk_session


@pytest.fixture
def whole(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Grows whenever everything is read."""
    read: list[str] = []
    load = Performer.load

    def counted(performer: Performer, opened: Session) -> object:
        read.append("everything")
        return load(performer, opened)

    monkeypatch.setattr(Performer, "load", counted)
    return read


def test_a_node_is_shown_as_if_everything_had_been_read(
    grid: Session, zk_settings: ZooKeeperSettings, whole: list[str]
) -> None:
    shown = calm(zk_settings).perform(NodeShow(node=N0)).answer
    view = load_world(grid).nodes[N0]
    assert view.record is not None
    assert shown == nodes.document(view, view.record, 0.0)
    assert (shown.claim, shown.epoch, whole) == (view.claim, 0, [])
    reasons = {each.noderole: each.reason for each in shown.noderoles}
    assert reasons[f"step-1-0@{N0}"] == f"its parent step-0-1@{N1} failed: no disk", "which is on another node"
    assert reasons[f"step-2-0@{N0}"] == f"its parent step-1-0@{N0} is BLOCKED"


@pytest.mark.parametrize("damage", [paths.claim(N0), paths.noderole("step-2-1", N0), paths.noderole("step-0-1", N1)])
def test_where_a_record_cannot_be_read_everything_is(
    grid: Session, zk_settings: ZooKeeperSettings, whole: list[str], damage: str
) -> None:
    znode = grid.get(damage)
    assert znode is not None
    grid.commit([Set(damage, {"schema": 7}, znode.version)])
    performer = calm(zk_settings)
    assert performer.perform(NodeShow(node=N0)).answer.name == N0
    assert whole == ["everything"]


def test_where_a_parent_is_a_cluster_its_members_are_found_and_where_the_node_is_absent_everything_is_read(
    grid: Session, zk_settings: ZooKeeperSettings, whole: list[str]
) -> None:
    path = paths.noderole("step-2-1", N0)
    below = NodeRole(state=State.BLOCKED, since=1.0, deployment="bench", parents=("osd@*bench",))
    grid.commit([Set(path, below, 0)])
    found = {each.noderole: each.reason for each in calm(zk_settings).perform(NodeShow(node=N0)).answer.noderoles}
    assert found[f"step-2-1@{N0}"] == "its parents are every osd of deployment bench, and there is none"
    with pytest.raises(NotFound, match=N0):
        calm(zk_settings).perform(NodeShow(node=f"{N0}m"))
    assert whole == ["everything"]


def test_a_node_without_noderoles_is_shown_and_an_unreadable_record_of_it_is_named(
    zk_session: Session, zk_settings: ZooKeeperSettings, whole: list[str]
) -> None:
    zk_session.commit([Create(paths.node("n1"), Node(deployment="system", rack="r1"))])
    shown = calm(zk_settings).perform(NodeShow(node="n1")).answer
    assert (shown.record.rack, shown.noderoles, whole) == ("r1", (), [])
    zk_session._client.create(paths.power("n1"), b"garbage")
    performer = calm(zk_settings)
    assert performer.perform(NodeShow(node="n1")).answer == shown
    assert (len(performer.heard.notes), whole) == (1, ["everything"])


def test_nodes_are_listed_without_noderoles_as_if_everything_had_been_read(
    zk_settings: ZooKeeperSettings, grid: Session, whole: list[str]
) -> None:
    listed = calm(zk_settings).perform(NodeList(deployment="bench")).answer
    assert (listed, whole) == (nodes.rows(load_world(grid), now=0.0), [])
    assert [each.noderoles for each in listed] == ["2 TODO, 4 BLOCKED", "2 ERROR, 4 BLOCKED", "2 TODO, 4 BLOCKED"]
    assert listed[0].busy == f"step-0-0@{N0}"


ODD_KEY = b'{"schema":1,"state":"ACTIVE","since":1.0,"unknown":5}'


@pytest.mark.parametrize("data", [b'{"schema":7}', b'{"schema":1,"state":"ACTIVE"}', b"", b"garbage", ODD_KEY])
def test_where_a_noderole_cannot_be_read_all_of_a_list_of_nodes_is(
    grid: Session, zk_settings: ZooKeeperSettings, whole: list[str], data: bytes
) -> None:
    path = paths.noderole("step-2-1", N0)
    grid._client.set(path, data)
    performer = calm(zk_settings)
    assert performer.perform(NodeList()).answer[0].noderoles == "2 TODO, 3 BLOCKED"
    assert (whole, len(performer.heard.notes)) == (["everything"], 1)


def test_a_noderole_with_an_impossible_name_is_not_counted_in_a_list_of_nodes(
    grid: Session, zk_settings: ZooKeeperSettings, whole: list[str]
) -> None:
    grid.commit([Create(paths.noderole("Not A Role", N0), NodeRole(state=State.ERROR, since=1.0))])
    performer = calm(zk_settings)
    assert performer.perform(NodeList()).answer[0].noderoles == "2 TODO, 4 BLOCKED"
    assert (whole, len(performer.heard.notes)) == (["everything"], 1)


FIELDS = {"since": -1.0, "attempt": "x", "not_before": "soon", "reason": 7, "serves": "ntp", "hooks": [1], "parents": 3}


@pytest.mark.parametrize("name", FIELDS)
def test_the_state_of_a_noderole_is_refused_where_its_record_is(name: str) -> None:
    good = {"schema": 1, "tx": "AbCdEfGhIjKl", "state": "TODO", "since": 1.0, "colour": "red"}
    assert codec.state(msgspec.json.encode(good)) is State.TODO
    data = msgspec.json.encode({**good, name: FIELDS[name]})
    with pytest.raises(Invalid):
        codec.decode(NodeRole, Znode("/x", data, 0, 0))
    with pytest.raises(msgspec.DecodeError):
        codec.state(data)


ODD_KEYS = [
    b'"unknown":5',
    b'"rare":5',
    b'"colour":"\xff"',
    b'"col\xff":1',
    b'"colour":1e999',
    b'"tx":1e999',
    b'"tx":"AbCdEfGhIj","by":"x"',  # a quote stands where that of a signature would
    b'"check":{"colour":"\xff"}',
    b'"checked":{"drift":"drifted","at":5.0,"run":"0000000001-aaaaaa","epoch":1,"colour":1e999}',
]


@pytest.mark.parametrize("key", ODD_KEYS)
def test_the_state_of_a_noderole_is_refused_for_an_unknown_key_that_its_record_is_refused_for(key: bytes) -> None:
    data = b'{"schema":1,%b,"state":"TODO","since":1.0}' % key
    with pytest.raises(Invalid):
        codec.decode(NodeRole, Znode("/x", data, 0, 0))
    with pytest.raises((msgspec.DecodeError, UnicodeError)):
        codec.state(data)
