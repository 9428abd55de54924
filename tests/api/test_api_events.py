"""``GET /v1/events`` on real servers: entries exactly once, the newest version of each record, resets, rights, bounds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from click.testing import CliRunner

from nodepool_ocb.api.streams.resuming import OLD, RESTORED
from nodepool_ocb.catalogue import files
from nodepool_ocb.cli.main import cli
from nodepool_ocb.model import paths
from nodepool_ocb.model.journal import Entry
from nodepool_ocb.model.records import Append
from nodepool_ocb.operations.barclamps.importing import BarclampImport
from nodepool_ocb.operations.deployments.pausing import RestoredCluster
from nodepool_ocb.operations.history.reading import HistoryRead
from nodepool_ocb.operations.operation import Call
from nodepool_ocb.operations.tokens.revoking import TokenRevoke
from nodepool_ocb.remote.events import events
from nodepool_ocb.remote.performer import logged_in
from nodepool_ocb.remote.tokens import VARIABLE
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.views.history.entries import EntryFilter, EntryRow
from nodepool_ocb.views.history.happenings import StateEvent
from tests.api.events import EventClient
from tests.api.served import ServedApi, problem

Until = Callable[..., None]
Follow = Callable[..., EventClient]


@pytest.fixture
def follow(api: ServedApi) -> Iterator[Follow]:
    """A stream; it is closed after the test."""
    made: list[EventClient] = []

    def begin(path: str = "/v1/events", token: str | None = None, last: str | None = None) -> EventClient:
        client = EventClient(api.address, token or api.token, path, last)
        assert client.status == 200
        made.append(client)
        return client

    yield begin
    for each in made:
        each.close()


def node(api: ServedApi, name: str, **fields: Any) -> None:
    api.call("node/create", {"name": name, "node": fields})


def test_a_write_comes_as_its_entry_and_as_the_records_of_its_transaction(
    api: ServedApi, follow: Follow, until: Until, tmp_path: Any
) -> None:
    role = tmp_path / "base.yml"
    role.write_text("barclamp: {name: base, version: 1}\nroles:\n  - {name: base, jig: noop}\n")
    api.direct.perform(BarclampImport(files=files.read([role])))
    node(api, "a1.example.com")
    stream = follow()
    assert stream.headers["content-type"].startswith("text/event-stream")
    api.call("node/bind", {"nodes": ["a1.example.com"], "roles": ["base"]}, reason="a test")
    until(lambda: stream.of("entry") and stream.states())
    assert [each["reason"] for each in stream.of("begin")] == [None]
    (entry,) = stream.of("entry")
    assert (entry["login"], entry["verb"], entry["reason"]) == ("ann", "node bind", "a test")
    bound = stream.states()["noderole", "base@a1.example.com"]
    assert (bound["state"], bound["was"], bound["node"]) == ("PROPOSED", None, "a1.example.com")
    assert bound["record"]["state"] == "PROPOSED"
    api.call("node/delete", {"nodes": ["a1.example.com"]}, agreed=True)
    until(lambda: len(stream.of("entry")) == 2 and stream.states()["node", "a1.example.com"]["gone"])
    assert stream.states()["noderole", "base@a1.example.com"]["state"] is None


def test_a_client_goes_on_behind_its_last_event_with_every_entry_and_change_of_the_meantime(
    api: ServedApi, follow: Follow, until: Until
) -> None:
    first = follow()
    node(api, "b1.example.com")
    until(lambda: first.of("entry") and first.states())
    last = first.close()
    node(api, "b2.example.com")
    api.call("node/set", {"nodes": ["b1.example.com"], "assignments": ["rack=r1"]})
    for path, header in (("/v1/events", last), (f"/v1/events?since={last}", None)):
        again = follow(path, last=header)
        until(lambda again=again: len(again.of("entry")) == 2 and len(again.states()) >= 2)
        assert again.of("reset") == []
        assert again.numbers == [first.numbers[-1] + 1, first.numbers[-1] + 2]
        assert again.states()["node", "b1.example.com"]["record"]["rack"] == "r1"
    older = follow(f"/v1/events?since={first.numbers[0] - 1}")
    until(lambda: len(older.of("entry")) >= 3)
    assert older.numbers == [first.numbers[0] + each for each in range(3)]


@pytest.mark.parametrize(
    ("query", "names", "verbs"),
    [
        ("kind=node&kind=deployment", {"filter", "f1.example.com", "f2.example.com"}, set()),
        ("kind=entry&deployment=filter", set(), {"deployment create", "node create"}),
        ("node=f2.example.com", {"f2.example.com"}, {"node create"}),
        ("deployment=filter&kind=node", {"f1.example.com"}, set()),
    ],
)
def test_a_stream_is_filtered_by_kind_deployment_and_node(
    api: ServedApi, follow: Follow, until: Until, query: str, names: set[str], verbs: set[str]
) -> None:
    stream, whole = follow(f"/v1/events?{query}"), follow()
    api.call("deployment/create", {"name": "filter"})
    node(api, "f1.example.com", deployment="filter")
    node(api, "f2.example.com")
    until(lambda: len(whole.of("entry")) == 3)
    until(lambda: {each["name"] for each in stream.changes} == names)
    until(lambda: {each["verb"] for each in stream.of("entry")} == verbs)
    for name in ("f1.example.com", "f2.example.com"):
        api.call("node/delete", {"nodes": [name]}, agreed=True)
    api.call("deployment/delete", {"name": "filter"}, agreed=True)


@pytest.mark.parametrize(
    ("path", "status"),
    [("/v1/events?kind=lamp", 422), ("/v1/events?since=x", 422), ("/v1/events?colour=red", 422)],
)
def test_a_wrong_query_is_refused_before_the_stream_begins(api: ServedApi, path: str, status: int) -> None:
    assert problem(api.ask("GET", path))[0] == status
    assert problem(api.client.get("/v1/events"))[0] == 401
    assert problem(api.ask("GET", "/v1/events", token=api.direct.token(role="join")))[0] == 403


@pytest.mark.parametrize(
    "limits", [{"deployments": ("lab",)}, {"selector": "tag:lab"}], ids=["deployments", "selector"]
)
def test_a_token_with_limits_sees_only_events_within_them(
    api: ServedApi, follow: Follow, until: Until, limits: dict[str, Any]
) -> None:
    for name in ("lab", "web"):
        if name not in str(api.call("deployment/list")):
            api.call("deployment/create", {"name": name})
    token = api.direct.token(role="viewer", **limits)
    stream, whole = follow(token=token), follow()
    node(api, "in.example.com", deployment="lab", tags=["lab"])
    node(api, "out.example.com", deployment="web")
    api.call("node/set", {"nodes": ["out.example.com", "in.example.com"], "assignments": ["rack=r9"]})
    api.call("node/set", {"nodes": ["in.example.com"], "assignments": ["rack=r1"]})
    api.call("node/set", {"nodes": ["in.example.com"], "assignments": ["tags=[]"]})
    api.call("node/move", {"nodes": ["in.example.com"], "deployment": "web"})
    until(lambda: whole.states().get(("node", "in.example.com"), {}).get("deployment") == "web")
    until(lambda: stream.states()["node", "in.example.com"]["gone"])
    assert {each["name"] for each in stream.changes} == {"in.example.com"}
    assert {each["deployment"] for each in stream.changes} == {"lab", None}
    verbs = [each["verb"] for each in stream.of("entry")]
    assert verbs == (["node create", "node set", "node set"] if "deployments" in limits else [])
    assert len(whole.of("entry")) >= 6
    for name in ("in.example.com", "out.example.com"):
        api.call("node/delete", {"nodes": [name]}, agreed=True)


def test_a_token_that_is_revoked_or_ends_ends_its_streams(api: ServedApi, follow: Follow, until: Until) -> None:
    revoked, short = api.direct.token(name="bob", role="viewer"), api.direct.token(role="viewer", seconds=4.0)
    streams = [follow(token=revoked), follow(token=revoked), follow(token=short)]
    other = follow()
    until(lambda: all(each.of("begin") for each in (*streams, other)))
    assert not streams[0].ended
    api.direct.perform(TokenRevoke(tokens=(revoked.split("_")[1],)))
    until(lambda: all(each.ended for each in streams), seconds=10.0)
    assert [each.of("end")[0]["reason"] for each in streams] == ["the token is revoked, or has ended"] * 3
    assert not other.ended
    assert problem(api.ask("GET", "/v1/events", token=revoked))[0] == 401


def test_a_client_with_an_event_from_before_the_server_has_to_list_again(follow: Follow, until: Until) -> None:
    stream = follow("/v1/events?kind=node", last="-1--1-1--1--1")  # as of the first transaction
    until(lambda: [each["reason"] for each in stream.of("reset")] == [OLD])


def test_after_the_command_restored_each_client_has_to_list_again(api: ServedApi, follow: Follow, until: Until) -> None:
    stream = follow("/v1/events?kind=node")
    entry = Entry(at=1.0, login="ann", host="desk", verb=RestoredCluster.noun)
    with Session(api.settings) as session:
        session.commit([Append(paths.JOURNAL_ENTRIES, entry)])
    until(lambda: [each["reason"] for each in stream.of("reset")] == [RESTORED])


def test_the_command_line_shows_the_same_events_over_http_and_directly(
    api: ServedApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, api.token)
    node(api, "cli.example.com")
    api.call("node/hold", {"nodes": ["cli.example.com"], "reason": "a test"})
    last = api.direct.perform(HistoryRead(limit=3)).rows[0].number
    for words in (f"-o json events --after {last}", "events --since 1h cli.example.com", "events --after 100000"):
        ends = [
            CliRunner().invoke(cli, [*way, *words.split()])
            for way in (("--zookeeper", api.settings.hosts), ("--api", api.address))
        ]
        assert ends[1].stdout == ends[0].stdout
        assert ends[1].exit_code == ends[0].exit_code == 0
    assert "cli.example.com" in CliRunner().invoke(cli, ["--api", api.address, "events", "--since", "1h"]).stdout


def test_events_are_followed_over_http_with_their_entries_and_states(
    api: ServedApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, api.token)
    node(api, "follow.example.com")
    last = api.direct.perform(HistoryRead(limit=1)).rows[0].number
    used = logged_in(Call(login="ann", host="desk"), api.direct, api.address)
    found = events(used, EntryFilter(names=("follow.example.com",)), last - 1, None, follow=True)
    (created,) = next(found)
    assert isinstance(created, EntryRow)
    assert (created.number, created.record.verb) == (last, "node create")
    api.call("node/hold", {"nodes": ["follow.example.com"], "reason": "a test"})
    both = [*next(found), *next(found)]
    assert [each.record.verb for each in both if isinstance(each, EntryRow)] == ["node hold"]
    states = [(each.name, each.old, each.new) for each in both if isinstance(each, StateEvent)]
    assert states == [("follow.example.com", "dead", "dead, held")]
    found.close()
