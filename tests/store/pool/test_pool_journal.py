"""Entries of launchers stand in the transactions that they describe. They stop no work, are bounded, and displace no others."""

from __future__ import annotations

import pytest

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.errors import Stale
from nodepool_ocb.model import limits, paths
from nodepool_ocb.model.journal import Entry, PoolVerb
from nodepool_ocb.model.pool import NodeRequest, PoolNode, PoolNodeState, RequestState
from nodepool_ocb.model.records import Create, Delete, Set
from nodepool_ocb.store import journal
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.pool.journal import PoolJournal
from nodepool_ocb.store.subtree import removal
from nodepool_ocb.views.history import pooling
from nodepool_ocb.views.history.pooling import EntryAuthor
from tests.store.pool.test_pool_cache import add_request
from tests.store.pool.test_pool_writes import Launcher

ME = EntryAuthor("h", 5.0)


def entries(session: Session) -> list[Entry]:
    found = journal.read(session, journal.numbers(session, pool=True), pool=True)
    return [each.entry for each in found if each.entry is not None]


def entry(id: str = "100-0000000000") -> Entry:
    record = NodeRequest(state=RequestState.PENDING, state_time=1.0, node_types=("small",))
    return pooling.of_request(ME, PoolVerb.FAIL_REQUEST, id, record, reason="no room")


@pytest.fixture
def launcher(zk_session: Session) -> Launcher:
    return Launcher(zk_session)


@pytest.fixture
def noted(zk_session: Session) -> PoolJournal:
    made = PoolJournal(zk_session)
    made.load()
    return made


def test_the_end_of_a_request_and_its_entry_are_one_transaction_or_neither(launcher: Launcher) -> None:
    request = add_request(launcher.session)
    launcher.requests.claim(launcher.request(request))
    held, zxid = launcher.request(request), launcher.session.last_zxid
    launcher.requests.fail(held, ["p1"], "no room", entry(request))
    assert launcher.session.last_zxid == zxid + 1
    (noted_entry,) = entries(launcher.session)
    assert (noted_entry.verb, noted_entry.reason, noted_entry.login) == ("fail request", "no room", "launcher")
    assert noted_entry.subjects == (request, "label small")
    with pytest.raises(Stale):
        launcher.requests.delete(held, entry(request))  # of a version that is gone
    assert len(entries(launcher.session)) == 1


def test_both_ends_of_a_node_are_one_transaction_each_with_their_entries(launcher: Launcher) -> None:
    node = launcher.nodes.create("launch", type=("small",), provider="north", pool="main")
    assert node is not None
    node.enter(PoolNodeState.BUILDING, hostname="n1")
    zxid = launcher.session.last_zxid
    node.finish(PoolNodeState.READY, pooling.of_node(ME, PoolVerb.LAUNCH_NODE, node.id, node.record))
    assert launcher.session.last_zxid == zxid + 1
    again = launcher.nodes.hold(node.id, "delete")
    assert again is not None
    again.enter(PoolNodeState.DELETING)
    zxid = launcher.session.last_zxid
    again.delete(pooling.of_node(ME, PoolVerb.DELETE_NODE, node.id, again.record, "it was returned"))
    assert launcher.session.last_zxid == zxid + 1
    assert [(each.verb, each.subjects) for each in entries(launcher.session)] == [
        ("launch node", (node.id, "n1", "label small")),
        ("delete node", (node.id, "n1", "label small")),
    ]


def test_an_entry_that_the_journal_refuses_stops_no_work(noted: PoolJournal, zk_session: Session) -> None:
    zk_session.commit(removal(zk_session, paths.JOURNAL_POOL))
    for name in ("a", "b"):
        noted.commit([Create(f"{paths.POOL_NODES}/{name}")], entry())
    assert zk_session.children(paths.POOL_NODES) == ["a", "b"]
    assert noted.refused
    noted.load()  # a new session makes the folder again
    noted.commit([Create(f"{paths.POOL_NODES}/c")], entry())
    assert len(entries(zk_session)) == 1


def test_a_change_that_came_too_late_is_not_written_without_its_entry(noted: PoolJournal, zk_session: Session) -> None:
    zk_session.commit([Create(f"{paths.POOL_NODES}/a")])
    with pytest.raises(Stale):
        noted.commit([Delete(f"{paths.POOL_NODES}/a", 7)], entry())
    assert entries(zk_session) == []
    assert zk_session.children(paths.POOL_NODES) == ["a"]


def test_launchers_bound_their_entries_and_leave_those_of_people(
    noted: PoolJournal, zk_session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "POOL_ENTRIES", 30)
    monkeypatch.setattr(limits, "POOL_ENTRIES_LEFT", 20)
    for _ in range(3):
        journal.write(zk_session, Entry(at=1.0, login="ann", host="h", verb="node set"))
    most = 0
    for _ in range(330):
        noted.commit([], entry())
        noted.trim()
        most = max(most, len(journal.numbers(zk_session, pool=True)))
    assert most <= 30 + 100, "a launcher counts the entries after each hundred of its own"
    assert journal.numbers(zk_session, pool=True)[-1] == 329
    assert journal.numbers(zk_session) == [0, 1, 2]


def test_an_entry_about_a_huge_request_has_room(noted: PoolJournal, zk_session: Session) -> None:
    labels = tuple(f"label-{number}-{'x' * 200}" for number in range(500))
    record = NodeRequest(state=RequestState.PENDING, state_time=1.0, node_types=labels, requestor="y" * 100_000)
    nodes = {f"{number:010}": PoolNode(state=PoolNodeState.READY, state_time=1.0) for number in range(500)}
    made = pooling.of_request(ME, PoolVerb.FULFIL_REQUEST, "100-0000000000", record, nodes, "z" * 100_000)
    noted.commit([], made)
    (noted_entry,) = entries(zk_session)
    assert noted_entry.subjects[0] == "100-0000000000"
    assert noted_entry.more > 0


def test_a_second_writer_of_the_record_is_named_and_not_the_journal(
    noted: PoolJournal, zk_session: Session, zk_settings: ZooKeeperSettings
) -> None:
    zk_session.commit([Create(f"{paths.POOL_NODES}/a")])
    with Session(zk_settings) as other:
        other.commit([Set(f"{paths.POOL_NODES}/a", {}, 0)])
    with pytest.raises(Stale, match="/nodepool/nodes/a"):
        noted.commit([Set(f"{paths.POOL_NODES}/a", {"b": 1}, 0)], entry())
