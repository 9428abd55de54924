"""Two servers and three people: equal and conflicting writes. None is lost, and each conflict names the change between."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from nodepool_ocb.cli.main import cli
from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Set
from nodepool_ocb.operations.history.reading import HistoryRead
from nodepool_ocb.operations.nodes.reading import NodeShow
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.world.load import load_world
from nodepool_ocb.testing.zookeeper.server import Server
from tests.api.served import ServedApi, problem
from tests.fixtures.chroots import fresh

PEOPLE: Final = ("ann", "bob", "kim")
NODE: Final = "n1.example.com"
PATH: Final = f"/v1/nodes/{NODE}"


class People:
    """Three people, who write at the same time through two servers."""

    def __init__(self, servers: list[ServedApi]) -> None:
        self.servers = servers
        self.direct = servers[0].direct
        self.tokens = {name: self.direct.token(name=name, role="operator") for name in PEOPLE}
        self._threads = ThreadPoolExecutor(len(PEOPLE))

    def all(self, turn: int, ask: Callable[[ServedApi, str, str], httpx.Response]) -> dict[str, httpx.Response]:
        """The answers, by person; ``ask(server, name, token)``. The first server changes from turn to turn."""

        def one(number: int, name: str) -> httpx.Response:
            return ask(self.servers[(turn + number) % 2], name, self.tokens[name])

        asked = {name: self._threads.submit(one, number, name) for number, name in enumerate(PEOPLE)}
        return {name: answer.result(60) for name, answer in asked.items()}

    @property
    def node(self) -> Any:
        return self.direct.perform(NodeShow(node=NODE)).record

    @property
    def written(self) -> int:
        """The entries of the journal about the node."""
        return len(self.direct.perform(HistoryRead(names=(NODE,), limit=None)).rows)

    def close(self) -> None:
        self._threads.shutdown()


@pytest.fixture(scope="module")
def people(zookeeper: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[People]:
    settings = ZooKeeperSettings(hosts=f"{zookeeper.hosts}{fresh('people')}")
    servers: list[ServedApi] = []
    try:
        servers += [ServedApi(settings, tmp_path_factory.mktemp(f"server{number}")) for number in range(2)]
        servers[0].call("node/create", {"name": NODE, "node": {"schema": 1}})
        made = People(servers)
        yield made
        made.close()
    finally:
        for each in servers:
            each.close()


@pytest.mark.parametrize("rounds", [2, pytest.param(50, marks=pytest.mark.long)])
def test_no_write_is_lost_and_each_conflict_names_the_change_between(people: People, rounds: int) -> None:
    written = people.written
    for turn in range(rounds):
        written += _own_fields(people, turn)
        written += _equal(people, turn)
        written += _conflicting(people, turn)
        written += _planned(people, turn)
        assert people.written == written


def _own_fields(people: People, turn: int) -> int:
    """Each writes a field of its own, on any version: all of them stay."""

    def ask(server: ServedApi, name: str, token: str) -> httpx.Response:
        return server.ask("PATCH", PATH, {"assignments": [f"labels.{name}={turn}"]}, token, If_Match="*")

    answers = people.all(turn, ask)
    assert {answer.status_code for answer in answers.values()} == {200}, answers
    assert {name: people.node.labels[name] for name in PEOPLE} == dict.fromkeys(PEOPLE, str(turn))
    return len(PEOPLE)


def _equal(people: People, turn: int) -> int:
    """All write the same: one of them changes the node, and the others find it so."""

    def ask(server: ServedApi, _: str, token: str) -> httpx.Response:
        return server.ask("PATCH", PATH, {"assignments": [f"rack=equal-{turn}"]}, token, If_Match="*")

    answers = people.all(turn, ask)
    assert {answer.status_code for answer in answers.values()} == {200}, answers
    assert sorted(len(answer.json()["rows"]) for answer in answers.values()) == [0, 0, 1]
    assert people.node.rack == f"equal-{turn}"
    return 1


def _conflicting(people: People, turn: int) -> int:
    """All decided from one version: one of them writes, and the others learn which change was faster."""
    versions = {name: answer.headers["etag"] for name, answer in people.all(turn, _shown).items()}
    assert len({*versions.values()}) == 1

    def ask(server: ServedApi, name: str, token: str) -> httpx.Response:
        words = {"assignments": [f"rack={name}-{turn}"]}
        return server.ask("PATCH", f"{PATH}?reason=turn+{turn}", words, token, If_Match=versions[name])

    _one_wins(people, people.all(turn, ask), turn, "")
    return 1


def _planned(people: People, turn: int) -> int:
    """All made the same dry run, by a selector: one plan is carried out, and the others no longer hold."""

    def dry(server: ServedApi, name: str, token: str) -> httpx.Response:
        zxid = {"Ocb_Min_Zxid": _shown(server, name, token).headers["ocb-zxid"]}
        return server.ask("PATCH", "/v1/nodes?dry_run=true", _wanted(name, turn), token, **zxid)

    plans = {name: answer.headers["etag"] for name, answer in people.all(turn, dry).items()}

    def ask(server: ServedApi, name: str, token: str) -> httpx.Response:
        return server.ask("PATCH", f"/v1/nodes?reason=turn+{turn}", _wanted(name, turn), token, If_Match=plans[name])

    _one_wins(people, people.all(turn, ask), turn, "plan-")
    return 1


def _wanted(name: str, turn: int) -> Any:
    return {"selector": "name:n1*", "assignments": [f"rack=plan-{name}-{turn}"]}


def _shown(server: ServedApi, _: str, token: str) -> httpx.Response:
    zxid = server.ask("PATCH", f"{PATH}?dry_run=true", {"assignments": ["rack=none"]}, token).headers["ocb-zxid"]
    return server.ask("GET", PATH, None, token, Ocb_Min_Zxid=zxid)


def _one_wins(people: People, answers: dict[str, httpx.Response], turn: int, before: str) -> None:
    winners = [name for name, answer in answers.items() if answer.status_code == 200]
    assert len(winners) == 1, {name: answer.text for name, answer in answers.items()}
    assert people.node.rack == f"{before}{winners[0]}-{turn}"
    for name in {*PEOPLE} - {*winners}:
        assert problem(answers[name]) == (412, "version-differs", "VersionDiffers")
        detail = answers[name].json()["detail"]
        assert f"node {NODE} has changed; its newest change is node set by {winners[0]}@127.0.0.1" in detail
        assert f"reason: turn {turn} (entry " in detail


def test_a_conflict_names_the_deletion_of_a_noderole_and_the_work_of_a_daemon(people: People, tmp_path: Path) -> None:
    name = f"plain@{NODE}"
    (tmp_path / "plain.yaml").write_text("barclamp: {name: plain, version: 1}\nroles: [{name: plain, jig: noop}]\n")
    words = ["--zookeeper", people.direct.settings.hosts, "barclamp", "import", str(tmp_path / "plain.yaml")]
    assert CliRunner().invoke(cli, words).exit_code == 0
    first, second = people.servers
    assert first.ask("POST", f"{PATH}/bind", {"roles": ["plain"]}, If_Match="*").status_code == 200

    def refused(act: Callable[[], None]) -> str:
        version = _shown(first, "", first.token).headers["etag"]
        act()
        stale = second.ask("PATCH", PATH, {"assignments": ["rack=late"]}, If_Match=version)
        assert problem(stale)[0] == 412
        detail: str = stale.json()["detail"]
        return detail

    def run() -> None:
        """As an annealer does it: without an entry of the journal."""
        with Session(people.direct.settings) as session:
            vertex = load_world(session).vertex(name)
            assert vertex is not None
            record = replace(vertex.record, since=2.0)
            session.commit([Set(paths.noderole("plain", NODE), record, vertex.version)])

    def unbind() -> None:
        assert first.ask("POST", f"/v1/noderoles/{name}/unbind?agreed=true", {}, If_Match="*").status_code == 200

    assert "newest change is node bind by ann@127.0.0.1" in refused(run)
    assert "a daemon has moved it after that" in refused(run)
    assert "newest change is noderole unbind by ann@127.0.0.1" in refused(unbind)
