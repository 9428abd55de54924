"""Two servers of one cluster: calls that are repeated, and people who write at the same time.

A repetition of a call with an idempotency key writes nothing, and has the outcome of the first call. No write of a person is
lost, and each conflict names the change between.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from nodepool_ocb.cli.main import cli
from nodepool_ocb.config import Settings, ZooKeeperSettings
from nodepool_ocb.errors import Conflict
from nodepool_ocb.model import keyed, paths
from nodepool_ocb.model.keyed import KeyedCall
from nodepool_ocb.model.records import Create, Set
from nodepool_ocb.operations import repeats
from nodepool_ocb.operations.history.reading import HistoryRead
from nodepool_ocb.operations.nodes.creating import NewNode, NodeCreate
from nodepool_ocb.operations.nodes.reading import NodeShow
from nodepool_ocb.operations.operation import Call
from nodepool_ocb.operations.performer import Performer
from nodepool_ocb.operations.repeats import CallRepeated
from nodepool_ocb.remote.address import parse
from nodepool_ocb.remote.performer import RemotePerformer
from nodepool_ocb.remote.tokens import StoredToken
from nodepool_ocb.store import keyed as stored
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.world.load import load_world
from nodepool_ocb.testing.proxy import Proxy
from nodepool_ocb.testing.zookeeper.server import Server
from tests.api.served import ServedApi, problem
from tests.fixtures.chroots import fresh

RECORD: Final = {"deployment": "lab"}


@pytest.fixture(scope="module")
def pair(zookeeper: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[ServedApi]]:
    """Two servers of one cluster, with a deployment."""
    settings = ZooKeeperSettings(hosts=f"{zookeeper.hosts}{fresh('repeats')}")
    made: list[ServedApi] = []
    try:
        for number in range(2):
            made.append(ServedApi(settings, tmp_path_factory.mktemp(f"repeats{number}")))
        made[0].call("deployment/create", {"name": "lab"})
        yield made
    finally:
        for each in made:
            each.close()


@pytest.fixture
def key() -> str:
    return uuid.uuid4().hex


def created(server: ServedApi, name: str, key: str, **more: Any) -> Any:
    return server.ask("POST", "/v1/nodes", {"name": name, "node": RECORD}, Idempotency_Key=key, **more)


def entries(server: ServedApi) -> int:
    with Session(server.settings) as session:
        return len(session.children(paths.JOURNAL_ENTRIES) or ())


def id_of(server: ServedApi, key: str) -> str:
    return keyed.id_of(server.token.split("_")[1], key)


def test_a_repetition_through_another_server_gets_the_same_rows_and_writes_nothing(
    pair: list[ServedApi], key: str
) -> None:
    first = created(pair[0], "a1.example.com", key)
    assert first.status_code == 200, first.text
    before = entries(pair[0])
    again = created(pair[1], "a1.example.com", key, token=pair[0].token)
    assert again.status_code == 200, again.text
    assert (again.json()["rows"], again.json()["answer"]) == (first.json()["rows"], first.json()["answer"])
    assert again.json()["notes"] == ["this call was carried out before; this is its outcome"]
    assert entries(pair[0]) == before
    assert problem(created(pair[1], "a1.example.com", uuid.uuid4().hex))[0] == 409, "a new key is a new call"


def test_a_repetition_of_a_call_by_its_lines_gets_the_same_lines(pair: list[ServedApi], key: str) -> None:
    body = {"fields": {"name": "a2.example.com", "node": RECORD}}
    first, again = (pair[0].ask("POST", "/v1/operations/node/create", body, Idempotency_Key=key) for _ in range(2))
    lines, repeated = first.text.splitlines(), again.text.splitlines()
    assert repeated[0] == '{"note":"this call was carried out before; this is its outcome"}'
    assert repeated[1:-1] == [line for line in lines[:-1] if not line.startswith('{"note"')]


def test_of_many_equal_calls_at_once_through_two_servers_one_writes(pair: list[ServedApi], key: str) -> None:
    before, answers, gate = entries(pair[0]), [], threading.Barrier(8)

    def ask(server: ServedApi) -> None:
        gate.wait(30.0)
        answers.append(created(server, "a3.example.com", key, token=pair[0].token))

    threads = [threading.Thread(target=ask, args=(pair[number % 2],)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60.0)
    assert [each.status_code for each in answers] == [200] * 8
    assert len({each.text.partition('"notes"')[0] for each in answers}) == 1
    assert entries(pair[0]) == before + 1


def test_the_key_of_another_call_is_refused(pair: list[ServedApi], key: str) -> None:
    assert created(pair[0], "a4.example.com", key).status_code == 200
    refused = created(pair[0], "a5.example.com", key)
    assert problem(refused) == (422, "invalid", "Invalid")
    assert "of another call" in refused.json()["detail"]
    assert pair[0].ask("GET", "/v1/nodes/a5.example.com").status_code == 404


def test_two_tokens_may_use_the_same_key(pair: list[ServedApi], key: str) -> None:
    other = pair[0].direct.token(name="bob")
    assert created(pair[0], "a6.example.com", key).status_code == 200
    assert created(pair[0], "a7.example.com", key, token=other).status_code == 200


def test_a_call_that_is_refused_before_it_writes_may_be_repeated(pair: list[ServedApi], key: str) -> None:
    refused = pair[0].ask("PUT", "/v1/deployments/late", {"parent": "missing"}, Idempotency_Key=key)
    assert refused.status_code == 404
    pair[0].call("deployment/create", {"name": "missing"})
    assert pair[0].ask("PUT", "/v1/deployments/late", {"parent": "missing"}, Idempotency_Key=key).status_code == 200


def test_a_dry_run_with_the_key_does_not_use_it_up(pair: list[ServedApi], key: str) -> None:
    body = {"name": "a8.example.com", "node": RECORD}
    assert pair[0].ask("POST", "/v1/nodes?dry_run=true", body, Idempotency_Key=key).status_code == 200
    assert pair[0].ask("GET", "/v1/nodes/a8.example.com").status_code == 404
    assert created(pair[0], "a8.example.com", key).status_code == 200
    assert pair[0].ask("GET", "/v1/nodes/a8.example.com").status_code == 200
    again = pair[0].ask("POST", "/v1/nodes?dry_run=true", body, Idempotency_Key=key)
    assert problem(again)[0] == 409, "a dry run shows what a new call would do: the node exists"


def test_the_answer_with_a_secret_is_not_kept(pair: list[ServedApi], key: str) -> None:
    made = pair[0].ask("POST", "/v1/tokens", {"name": "carol"}, Idempotency_Key=key)
    assert made.status_code == 200
    refused = pair[1].ask("POST", "/v1/tokens", {"name": "carol"}, token=pair[0].token, Idempotency_Key=key)
    assert problem(refused) == (409, "conflict", "Conflict")
    assert "its answer is not kept" in refused.json()["detail"]
    with Session(pair[0].settings) as session:
        mark = stored.one(session, id_of(pair[0], key))
    assert mark is not None
    assert mark.record.ended
    assert mark.record.outcome is None


def test_a_call_that_was_cut_off_is_not_repeated(pair: list[ServedApi], key: str) -> None:
    """Its server ended after the first transaction: the mark has no outcome."""
    assert created(pair[0], "a9.example.com", key).status_code == 200
    path = paths.call(id_of(pair[0], key))
    with Session(pair[0].settings) as session:
        znode = session.get(path)
        assert znode is not None
        record = codec.decode(KeyedCall, znode)
        session.commit([Set(path, KeyedCall(operation=record.operation, digest=record.digest), znode.version)])
    answer = pair[0].ask(
        "POST", "/v1/nodes?deadline_seconds=1", {"name": "a9.example.com", "node": RECORD}, Idempotency_Key=key
    )
    assert problem(answer) == (503, "outcome-unknown", "OutcomeUnknown")
    assert "nothing is repeated" in answer.json()["detail"]


def test_a_procedure_of_many_transactions_is_marked_before_the_first(pair: list[ServedApi], key: str) -> None:
    fields = {"labels": ["small"]}
    first, again = (
        pair[number].ask("POST", "/v1/requests", fields, token=pair[0].token, Idempotency_Key=key) for number in (0, 1)
    )
    assert (first.status_code, again.status_code) == (202, 202), (first.text, again.text)
    assert first.json()["answer"] == again.json()["answer"]
    assert len(pair[0].ask("GET", "/v1/requests").json()["answer"]) == 1


def test_the_error_that_a_call_ended_with_is_the_outcome_of_its_repetition(pair: list[ServedApi]) -> None:
    with Session(pair[0].settings) as session:
        record = KeyedCall(operation="node/create", digest="0" * 64)
        session.commit([Create(paths.call("f" * 32), record)])
        call_key = repeats.CallKey("f" * 32, "0" * 64)
        operation = NodeCreate(name="b1.example.com", node=NewNode(deployment="lab"))
        repeats.end(session, call_key, operation, Conflict("node b1.example.com exists"))
        with pytest.raises(Conflict, match="exists"):
            repeats.repeated(session, call_key, operation, 0.0)


def test_a_call_that_another_one_overtakes_does_not_try_again(pair: list[ServedApi]) -> None:
    """The mark came after the look for it and before the first transaction."""
    operation = NodeCreate(name="b2.example.com", node=NewNode(deployment="lab"))
    call_key = repeats.CallKey("e" * 32, "0" * 64)
    direct = pair[0].direct
    performer = Performer(Call(login="ann", host="desk"), direct, lambda: Settings(zookeeper=direct.settings))
    with performer.session() as session:
        Session.commit(session, [Create(paths.call(call_key.id), KeyedCall(operation="x", digest="0" * 64))])
        repeats.mark(performer, call_key, operation)
        with pytest.raises(CallRepeated):
            performer.perform(operation, session)
        assert session.get(paths.node("b2.example.com")) is None


@pytest.mark.parametrize("wrong", ["", "x" * 256, "a\tb"])
def test_a_wrong_key_is_refused(pair: list[ServedApi], wrong: str) -> None:
    assert problem(created(pair[0], "c1.example.com", wrong))[0] == 422
    assert pair[0].ask("GET", "/v1/nodes/c1.example.com").status_code == 404


def test_old_marks_are_deleted_and_new_ones_stay(pair: list[ServedApi], monkeypatch: pytest.MonkeyPatch) -> None:
    with Session(pair[0].settings) as session:
        assert stored.sweep(session) == 0
        kept = session.children(paths.CALLS)
        assert kept
        monkeypatch.setattr(stored, "KEPT_SECONDS", -3600.0)
        assert stored.sweep(session) == len(kept)
        assert session.children(paths.CALLS) == []


def test_a_command_whose_answer_is_lost_is_carried_out_one_time_and_gets_its_rows(
    pair: list[ServedApi],
) -> None:
    before = entries(pair[0])
    with Proxy(int(pair[0].address.rpartition(":")[2])) as proxy:
        url = f"http://127.0.0.1:{proxy.port}"
        used = RemotePerformer(
            Call(login="ann", host="desk"), pair[0].direct, parse(url), StoredToken(token=pair[0].token)
        )
        lost = proxy.drop_answers()

        def heal() -> None:
            lost.wait(30.0)
            proxy.heal()

        healing = threading.Thread(target=heal)
        healing.start()
        performed = used.perform(NodeCreate(name="d1.example.com", node=NewNode(deployment="lab")))
        healing.join(30.0)
        assert lost.is_set()
    assert [row.name for row in performed.rows] == ["d1.example.com"]
    assert entries(pair[0]) == before + 1


# -- three people at two servers --

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
def people(pair: list[ServedApi]) -> Iterator[People]:
    pair[0].call("node/create", {"name": NODE, "node": {}})
    made = People(pair)
    yield made
    made.close()


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
