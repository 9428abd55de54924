"""Event streams over restarts, two servers and a restored ZooKeeper: entries exactly once, records in order."""

from __future__ import annotations

import shutil
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.model import paths
from nodepool_ocb.model.journal import Entry
from nodepool_ocb.model.records import Append, Create, Node, Set
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.testing.zookeeper.server import Server
from tests.api.events import EventClient
from tests.api.served import ServedApi, problem

Until = Callable[..., None]

NODES: Final = 40
AT_ONCE: Final = 3  # nodes that one transaction changes
CHANGES: Final = 300
LONG_CHANGES: Final = 10_000
STOPS: Final = 6  # in the course of the changes


def name(number: int) -> str:
    return f"n{number % NODES}.example.com"


class Writer:
    """Writes nodes, some at a time, each time with an entry; ``written``: the nodes of each zxid."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._versions: dict[str, int] = {}
        self.written: dict[int, set[str]] = {}
        self.number = 0
        for each in range(NODES):
            session.commit([Create(paths.node(name(each)), Node())])
            self._versions[name(each)] = 0

    def write(self) -> None:
        names = [name(self.number * AT_ONCE + each) for each in range(AT_ONCE)]
        entry = Entry(at=float(self.number), login="w", host="h", verb="node set", subjects=tuple(names))
        record = Node(rack=f"r{self.number}")
        changes = [Set(paths.node(each), record, self._versions[each]) for each in names]
        stats = self._session.commit([*changes, Append(paths.JOURNAL_ENTRIES, entry)])
        for each in names:
            self._versions[each] += 1
        assert stats[0] is not None
        self.written[stats[0].mzxid] = set(names)
        self.number += 1


@pytest.fixture
def pair(zk_settings: ZooKeeperSettings, tmp_path: Path) -> Iterator[tuple[ServedApi, ServedApi]]:
    """Two servers of one cluster."""
    made = [ServedApi(zk_settings, tmp_path / each) for each in ("one", "two")]
    yield made[0], made[1]
    for each in made:
        each.close()


def judged(clients: list[EventClient], writer: Writer) -> None:
    """Entries in order, exactly once; the newest version of each record at the end; no part of a transaction."""
    numbers = [number for each in clients for number in each.numbers]
    assert numbers == sorted(set(numbers))
    assert numbers[-1] - numbers[0] + 1 == len(numbers) >= writer.number
    shown: dict[str, int] = {}
    latest = {name: zxid for zxid, names in writer.written.items() for name in names}
    for client in clients:
        for event in client.seen:
            if event.name == "reset":
                shown.clear()
            for change in event.data["changes"] if event.name == "state" else ():
                assert change["zxid"] == event.data["zxid"]
                assert shown.get(change["name"], 0) < change["zxid"]
                shown[change["name"]] = change["zxid"]
    parts: defaultdict[int, set[str]] = defaultdict(set)
    for client in clients:
        for change in client.changes:
            parts[change["zxid"]].add(change["name"])
    for zxid, names in parts.items():
        newer = {each for each in writer.written.get(zxid, names) if latest[each] > zxid}
        assert names <= writer.written.get(zxid, names) <= names | newer
    assert {each: shown[each] for each in shown if each in latest}.items() <= latest.items()


def followed(pair: tuple[ServedApi, ServedApi], until: Until, session: Session, changes: int) -> None:
    """Write, and follow through both servers in turn; one of them is restarted in the middle."""
    writer, clients, last = Writer(session), [], None
    for stop in range(STOPS):
        served = pair[stop % 2]
        if stop == STOPS // 2:
            served.daemon.terminate()
            assert served.daemon.wait(20.0) == 0
            served.daemon.start()
        client = EventClient(served.address, served.token, "/v1/events?kind=node&kind=entry", last)
        assert client.status == 200
        clients.append(client)
        until(lambda client=client: client.seen)
        for _ in range(changes // STOPS // 2):
            writer.write()
        newest = max(writer.written)
        if stop % 3 == 0 or stop == STOPS - 1:
            until(lambda client=client, newest=newest: any(each["zxid"] == newest for each in client.changes))
            until(lambda client=client: client.numbers and client.numbers[-1] >= writer.number - 1)
        last = client.close()
        for _ in range(changes // STOPS // 2):  # while no client looks
            writer.write()
    client = EventClient(pair[0].address, pair[0].token, "/v1/events?kind=node&kind=entry", last)
    clients.append(client)
    until(lambda: len({number for each in clients for number in each.numbers}) >= writer.number)
    newest = max(writer.written)
    until(lambda: any(each["zxid"] == newest for each in client.changes) or client.of("reset"))
    client.close()
    judged(clients, writer)
    assert sum(len(each.of("reset")) for each in clients) <= 2  # of the restarted server


def test_entries_come_exactly_once_and_records_in_order_over_a_restart_and_two_servers(
    pair: tuple[ServedApi, ServedApi], zk_session: Session, until: Until
) -> None:
    followed(pair, until, zk_session, CHANGES)


@pytest.mark.long
def test_the_same_holds_over_many_changes(pair: tuple[ServedApi, ServedApi], zk_session: Session, until: Until) -> None:
    followed(pair, until, zk_session, LONG_CHANGES)


@pytest.mark.long
def test_a_stream_of_the_time_before_a_restored_zookeeper_is_reset_also_after_its_numbers_returned(
    tmp_path: Path, until: Until
) -> None:
    with Server(fsync=False) as server:
        settings = ZooKeeperSettings(hosts=server.hosts)
        served = ServedApi(settings, tmp_path / "api")

        def copied(source: Path, to: Path) -> None:
            server.kill()
            shutil.rmtree(to, ignore_errors=True)
            shutil.copytree(source, to)
            server.start()

        def create(number: int) -> None:
            served.call("node/create", {"name": f"c{number}.example.com", "node": {}})

        def stopped(action: Callable[[], Any]) -> None:
            served.daemon.terminate()
            assert served.daemon.wait(20.0) == 0
            action()
            served.daemon.start()

        try:
            create(1)
            data, copy = server.directory / "data", tmp_path / "copy"
            stopped(lambda: copied(data, copy))
            client = EventClient(served.address, served.token)
            until(lambda: client.seen)
            for number in range(2, 5):
                create(number)
            until(lambda: len(client.numbers) == 3)
            lost = client.close()
            stopped(lambda: copied(copy, data))
            for returned in range(6):
                again = EventClient(served.address, served.token, last=lost)
                until(lambda again=again: again.seen)
                assert [each["reason"] for each in again.of("reset")] == [
                    "the numbers of ZooKeeper went back: it was restored from an older copy"
                ], returned
                again.close()
                create(returned + 10)
        finally:
            served.close()


@pytest.mark.long
def test_a_server_that_runs_while_zookeeper_is_put_back_shows_the_older_records_within_seconds(
    tmp_path: Path, until: Until
) -> None:
    """ZooKeeper refuses a session that has seen more than itself; and its numbers come again, with other records."""
    with Server(fsync=False) as server:
        served = ServedApi(ZooKeeperSettings(hosts=server.hosts, session_timeout_seconds=4.0), tmp_path / "api")
        data, copy = server.directory / "data", tmp_path / "copy"

        def create(name: str) -> int:
            lines = served.call("node/create", {"name": f"{name}.example.com", "node": {}})
            return next(each["done"]["zxid"] for each in lines if isinstance(each, dict) and "done" in each)

        def names(**headers: str) -> list[str]:
            answer = served.ask("GET", "/v1/nodes", **headers)
            assert answer.status_code == 200, answer.text
            return [row["name"].partition(".")[0] for row in answer.json()["answer"]]

        try:
            create("kept")
            server.kill()
            shutil.copytree(data, copy)
            server.start()
            until(lambda: served.ask("GET", "/v1/nodes/kept.example.com").status_code == 200)
            lost = [create(f"lost{number}") for number in range(3)][-1]
            assert len(names()) == 4
            etag = served.ask("GET", "/v1/nodes").headers["etag"]
            server.kill()
            shutil.rmtree(data)
            shutil.copytree(copy, data)
            server.start()
            until(lambda: names() == ["kept"], 15.0)
            assert int(served.ask("GET", "/v1/nodes").headers["ocb-zxid"]) < lost
            assert problem(served.ask("GET", "/v1/nodes", Ocb_Min_Zxid=str(lost + 1000)))[0] == 409
            until(lambda: served.ask("GET", "/v1/nodes/kept.example.com").status_code == 200)
            made = create("after")
            assert (made < lost, names(Ocb_Min_Zxid=str(made))) == (True, ["after", "kept"])
            assert served.ask("GET", "/v1/nodes", If_None_Match=etag).status_code == 200
        finally:
            served.close()
