"""``history`` and ``events`` show the entries of launchers among those of people, by request, node and label."""

from __future__ import annotations

import json
from typing import Any

import pytest

from nodepool_ocb.model import paths
from nodepool_ocb.model.journal import Entry, PoolVerb
from nodepool_ocb.model.pool import NodeRequest, PoolNode, PoolNodeState, RequestState
from nodepool_ocb.store import journal
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.pool.journal import PoolJournal
from nodepool_ocb.views.history import pooling
from nodepool_ocb.views.history.pooling import EntryAuthor
from tests.fixtures.commands import Ocb

REQUEST, NODE = "100-0000000007", "0000000003"


def asked(ocb: Ocb, *words: str) -> list[dict[str, Any]]:
    answer = ocb("history", *words, "-o", "json")
    assert answer.exit_code == 0, answer.output
    found: list[dict[str, Any]] = json.loads(answer.stdout)
    return found


@pytest.fixture
def journaled(zk_session: Session, ocb: Ocb) -> Session:
    """A person's entry before and after those of a launcher."""
    assert ocb("init").exit_code in (0, 4)
    noted = PoolJournal(zk_session)
    noted.load()
    record = NodeRequest(state=RequestState.PENDING, state_time=1.0, node_types=("small",), requestor="z\x1b[2J")
    node = PoolNode(
        state=PoolNodeState.TESTING,
        state_time=1.0,
        type=("small",),
        provider="north",
        pool="main",
        allocated_to=REQUEST,
    )
    journal.write(zk_session, Entry(at=10.0, login="ann", host="h", verb="node set", subjects=("n1.example.com",)))
    launch = pooling.of_node(EntryAuthor("l1", 20.0), PoolVerb.LAUNCH_NODE, NODE, node, "it was ready after 2.0 s")
    noted.commit([], launch)
    given = {NODE: node}
    noted.commit([], pooling.of_request(EntryAuthor("l1", 21.0), PoolVerb.FULFIL_REQUEST, REQUEST, record, given))
    journal.write(zk_session, Entry(at=30.0, login="ann", host="h", verb="node set", subjects=("n2.example.com",)))
    return zk_session


def test_entries_of_launchers_stand_among_those_of_people_by_time(journaled: Session, ocb: Ocb) -> None:
    assert journaled.children(paths.JOURNAL_POOL)
    found = asked(ocb)
    assert [each["verb"] for each in found if each["at"] < 100] == [
        "node set", "launch node", "fulfil request", "node set"
    ]  # fmt: skip
    assert [each.get("pool") for each in found if each["at"] < 100] == [None, True, True, None]


@pytest.mark.parametrize("name", [REQUEST, NODE, "label small"])
def test_the_request_the_node_and_the_label_find_their_entries(journaled: Session, ocb: Ocb, name: str) -> None:
    assert journaled.connected
    assert [each["verb"] for each in asked(ocb, name)] == ["launch node", "fulfil request"]


def test_a_line_names_the_links_and_shows_no_escape_code(journaled: Session, ocb: Ocb) -> None:
    assert journaled.connected
    answer = ocb("history", "--verb", "fulfil request")
    assert answer.exit_code == 0
    assert REQUEST in answer.stdout
    assert "\x1b" not in answer.stdout


def test_an_id_of_a_request_without_entries_is_no_error(journaled: Session, ocb: Ocb) -> None:
    now = journaled.now()
    record = NodeRequest(state=RequestState.REQUESTED, state_time=now, node_types=("small",))
    id = journaled.create_next(f"{paths.REQUESTS}/100-", record).rpartition("/")[2]
    assert asked(ocb, id) == []
    assert ocb("history", "100-0000000999").exit_code == 3


def test_events_go_on_after_a_number_of_each_kind(journaled: Session, ocb: Ocb) -> None:
    assert journaled.connected
    answer = ocb("events", "--after", "0", "--after-pool", "0", "-o", "json")
    assert answer.exit_code == 0, answer.output
    rows = [json.loads(line) for line in answer.stdout.splitlines()]
    assert [(each["verb"], each["number"]) for each in rows if each["at"] < 100][:1] == [("fulfil request", 1)]
    assert all(each["number"] > 0 for each in rows)
