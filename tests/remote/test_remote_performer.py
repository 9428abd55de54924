"""The performer of --api against prepared answers: notes, agreement, refusals, and answers that break off."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from nodepool_ocb import errors
from nodepool_ocb.errors import NoCluster, OcbError, OutcomeUnknown, Unavailable
from nodepool_ocb.operations.daemons.listing import DaemonList
from nodepool_ocb.operations.nodes.deleting import NodeDelete, NodesDeleted
from nodepool_ocb.operations.operation import Call
from nodepool_ocb.operations.wire.lines import AnswerLine, CallEnd, Question, encode_line
from nodepool_ocb.operations.wire.problems import KINDS, problem_of
from nodepool_ocb.remote import performer as remote
from nodepool_ocb.remote.address import parse
from nodepool_ocb.remote.performer import RemotePerformer
from nodepool_ocb.remote.tokens import StoredToken
from nodepool_ocb.testing.zookeeper.guarded import certificates
from nodepool_ocb.testing.zookeeper.server import free_port
from nodepool_ocb.views.changes import ChangeRow
from tests.remote.scripted_server import Prepared, ScriptedServer, answered, refused, serving

DELETE = NodeDelete(nodes=("n1.example.com",))
GONE = NodesDeleted(notes=("n1.example.com is gone",))
ROW = ChangeRow(change="delete", kind="node", name="n1.example.com", state=None)
QUESTION = AnswerLine(agree=Question("delete node n1.example.com", ("with 3 noderoles",)))


class Person:
    """The caller: a person who agrees to everything."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.agreed: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)

    def agree(self, text: str, details: Sequence[str]) -> bool:
        self.agreed += [*details, text]
        return True


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with serving() as made:
        yield made


@pytest.fixture(autouse=True)
def repeats_one_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "PAUSES_SECONDS", (0.0,))


def performer(url: str, person: Person | None = None, cluster: str | None = None, **call: bool) -> RemotePerformer:
    token = StoredToken(token="ocb_1_x", cluster=cluster)
    return RemotePerformer(
        Call(login="ann", host="desk", reason="moved", **call), person or Person(), parse(url), token
    )


def test_an_operation_is_sent_with_its_fields_its_reason_and_the_token(server: ScriptedServer) -> None:
    server.answers = [answered(GONE, AnswerLine(rows=(ROW,)))]
    performed = performer(server.url).perform(DELETE)
    assert (performed.answer, performed.rows, performed.dry_run) == (GONE, (ROW,), False)
    path, headers, body = server.asked[0]
    assert path == "/v1/operations/node/delete"
    assert (headers["authorization"], headers["if-match"]) == ("Bearer ocb_1_x", "*")
    assert bytes(body.fields) == b'{"nodes":["n1.example.com"],"selector":null}'
    assert (body.reason, body.dry_run, body.agreed) == ("moved", False, False)


def test_a_person_is_asked_and_the_second_call_carries_the_agreement_and_repeats_no_note(
    server: ScriptedServer,
) -> None:
    note = AnswerLine(note="n1.example.com is held")
    server.answers = [
        Prepared(body=encode_line(note) + encode_line(QUESTION)),
        answered(GONE, note, AnswerLine(note="done")),
    ]
    person = Person()
    assert performer(server.url, person).perform(DELETE).answer == GONE
    assert person.agreed == ["with 3 noderoles", "delete node n1.example.com"]
    assert person.notes == ["n1.example.com is held", "done"]
    first, second = (body for _, _, body in server.asked)
    assert (first.agreed, second.agreed) == (False, True)


def test_a_refusal_of_the_person_ends_the_call_before_anything_is_written(server: ScriptedServer) -> None:
    server.answers = [Prepared(body=encode_line(QUESTION))]

    class Reluctant(Person):
        def agree(self, text: str, details: Sequence[str]) -> bool:  # noqa: ARG002
            raise errors.Conflict("no")

    with pytest.raises(errors.Conflict, match="no"):
        performer(server.url, Reluctant()).perform(DELETE)
    assert len(server.asked) == 1


def test_a_later_call_demands_a_state_as_new_as_the_answers_before(server: ScriptedServer) -> None:
    server.answers = [answered([], zxid=41, headers={"Ocb-Zxid": "43"}), answered([], zxid=42), answered([])]
    used = performer(server.url)
    for _ in range(3):
        used.perform(DaemonList())
    assert [headers.get("ocb-min-zxid") for _, headers, _ in server.asked] == [None, "43", "43"]


@pytest.mark.parametrize("cut", [5, 60], ids=["in a line", "before the end"])
def test_a_write_whose_answer_is_lost_is_sent_again_with_its_key(server: ScriptedServer, cut: int) -> None:
    whole = answered(GONE, AnswerLine(note="n1 is held"))
    server.answers = [Prepared(body=whole.body, cut=cut), whole, whole]
    person = Person()
    used = performer(server.url, person)
    assert used.perform(DELETE).answer == GONE
    assert person.notes == ["n1 is held"]
    used.perform(DELETE)
    first, again, other = (headers["idempotency-key"] for _, headers, _ in server.asked)
    assert first == again != other, "a later call is another one"


def test_a_write_whose_answers_are_all_lost_is_of_unknown_outcome(
    server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "PAUSES_SECONDS", (0.0, 0.0))
    server.answers = [Prepared(body=answered(GONE).body, cut=5)] * 3
    with pytest.raises(OutcomeUnknown, match="broke off") as lost:
        performer(server.url).perform(DELETE)
    assert lost.value.exit_code == 7
    assert len({headers["idempotency-key"] for _, headers, _ in server.asked}) == 1


def test_a_call_in_haste_is_not_sent_again(server: ScriptedServer) -> None:
    server.answers = [Prepared(body=answered([]).body, cut=5), answered([])]
    hasty = performer(server.url)
    hasty.patience_seconds = 5.0
    with pytest.raises(OutcomeUnknown, match="broke off"):
        hasty.perform(DaemonList())
    ((_, _, body),) = server.asked
    assert body.deadline_seconds == 5.0


def test_a_server_that_restarts_answers_the_request_that_is_sent_again(
    server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "PAUSES_SECONDS", (0.0, 0.0))
    server.answers = [Prepared(body=answered(GONE).body, cut=5), refused(Unavailable("starting")), answered(GONE)]
    assert performer(server.url).perform(DELETE).answer == GONE


def test_reads_and_dry_runs_have_no_key(server: ScriptedServer) -> None:
    server.answers = [answered([]), answered(GONE)]
    performer(server.url).perform(DaemonList())
    performer(server.url, dry_run=True).perform(DELETE)
    assert [headers.get("idempotency-key") for _, headers, _ in server.asked] == [None, None]


@pytest.mark.parametrize(("operation", "dry_run"), [(DaemonList(), False), (DELETE, True)], ids=["read", "dry run"])
def test_the_lost_answer_of_a_read_is_asked_for_again(server: ScriptedServer, operation: Any, dry_run: bool) -> None:
    whole = answered(GONE if operation == DELETE else [], AnswerLine(note="n1 is held"))
    server.answers = [Prepared(body=whole.body, cut=5), whole]
    person = Person()
    performer(server.url, person, dry_run=dry_run).perform(operation)
    assert person.notes == ["n1 is held"]
    server.answers = [Prepared(body=whole.body, cut=5)] * 2
    with pytest.raises(OutcomeUnknown, match="broke off"):
        performer(server.url, dry_run=dry_run).perform(operation)


def test_an_answer_without_an_end_is_not_taken_for_an_answer(server: ScriptedServer) -> None:
    server.answers = [Prepared(body=encode_line(AnswerLine(note="begun")))] * 2
    with pytest.raises(OutcomeUnknown, match="has no end"):
        performer(server.url).perform(DELETE)


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_an_error_of_the_operation_is_raised_as_it_would_be_directly(
    server: ScriptedServer, kind: type[OcbError]
) -> None:
    error = kind("so it is", "/ocb/x") if issubclass(kind, errors.Unreadable) else None
    error = error or (kind("so it is", 1.0) if kind is errors.NameTaken else kind("so it is"))
    begun = encode_line(AnswerLine(note="begun"))
    for answer in (refused(error), Prepared(body=begun + encode_line(AnswerLine(error=problem_of(error))))):
        server.answers = [answer]
        with pytest.raises(kind, match="so it is") as raised:
            performer(server.url).perform(DELETE)
        assert (type(raised.value), raised.value.exit_code) == (kind, error.exit_code)


@pytest.mark.parametrize(
    ("status", "exit_code"),
    [
        (401, 8),
        (403, 8),
        (404, 3),
        (409, 4),
        (412, 4),
        (422, 1),
        (421, 9),
        (428, 4),
        (500, 1),
        (502, 7),
        (503, 7),
        (504, 5),
    ],
)
def test_an_answer_of_a_proxy_has_the_exit_code_of_its_status(
    server: ScriptedServer, status: int, exit_code: int
) -> None:
    server.answers = [Prepared(status=status, media_type="text/html", body=b"<html>")]
    with pytest.raises(OcbError, match=f"answered {status}") as raised:
        performer(server.url).perform(DELETE)
    assert raised.value.exit_code == exit_code


def test_a_call_without_a_valid_token_names_the_login(server: ScriptedServer) -> None:
    server.answers = [refused(errors.Denied("this token is not valid"), 401)]
    with pytest.raises(errors.Denied, match=f"not valid; to store a token: nodepool-ocb login {server.url}"):
        performer(server.url).perform(DELETE)


def test_another_cluster_than_that_of_the_token_is_refused(server: ScriptedServer) -> None:
    server.answers = [answered([], headers={"Ocb-Cluster": "b2"})]
    with pytest.raises(NoCluster, match="serves cluster b2, and the token is of cluster a1") as raised:
        performer(server.url, cluster="a1").perform(DaemonList())
    assert raised.value.exit_code == 9


def test_a_page_that_is_no_answer_is_refused(server: ScriptedServer) -> None:
    server.answers = [Prepared(media_type="text/html", body=b"<html>hello</html>\n")]
    with pytest.raises(OcbError, match="is it an API server"):
        performer(server.url).perform(DELETE)


def test_a_server_that_is_not_there_ends_with_7() -> None:
    with pytest.raises(
        Unavailable, match="cannot be reached: Connection refused; is nodepool-ocb-api running"
    ) as raised:
        performer(f"http://127.0.0.1:{free_port()}").perform(DELETE)
    assert (type(raised.value), raised.value.exit_code) == (Unavailable, 7)


def test_a_server_is_identified_by_the_authority_that_signed_its_certificate(tmp_path: Path) -> None:
    for name in ("server.pem", "ca.pem"):
        (tmp_path / name).write_bytes(certificates()[name])
    with serving(tmp_path / "server.pem") as server:
        server.answers = [answered([])]
        with pytest.raises(Unavailable, match=r"certificate of https://127.0.0.1:\d+ is not trusted: .*--ca"):
            performer(server.url).perform(DaemonList())
        token = StoredToken(token="ocb_1_x", ca=str(tmp_path / "ca.pem"))
        used = RemotePerformer(Call(login="ann", host="desk"), Person(), parse(server.url), token)
        assert used.perform(DaemonList()).answer == []


def test_a_file_of_certificates_that_is_none_is_named(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("hello")
    token = StoredToken(token="ocb_1_x", ca=str(tmp_path / "ca.pem"))
    used = RemotePerformer(Call(login="ann", host="desk"), Person(), parse("https://127.0.0.1:1"), token)
    with pytest.raises(errors.Invalid, match=r"ca.pem: is no file of certificates"):
        used.perform(DaemonList())


def test_a_line_of_a_later_version_is_passed_over(server: ScriptedServer) -> None:
    end = encode_line(AnswerLine(answer=msgspec.Raw(b"[]"))) + encode_line(
        AnswerLine(done=CallEnd(dry_run=False, zxid=1))
    )
    server.answers = [Prepared(body=b'{"progress":{"percent":50}}\n\n' + end)]
    assert performer(server.url).perform(DaemonList()).answer == []
