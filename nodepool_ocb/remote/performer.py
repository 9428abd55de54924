"""The performer of ``--api``: the server reads, decides and writes; this process shows its notes and asks the person.

It needs no access to ZooKeeper. After a write each later read is at least as new (``Ocb-Min-Zxid``), through any server. If an
answer is lost, the request is sent again. A write has an idempotency key, so it is carried out one time.
"""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final, TypeVar

import msgspec
from msgspec.structs import replace

from nodepool_ocb.errors import Denied, NoCluster, OcbError, OutcomeUnknown, Unavailable
from nodepool_ocb.operations import registry
from nodepool_ocb.operations.operation import Call, Operation, Performed
from nodepool_ocb.operations.performer import Caller
from nodepool_ocb.operations.plans.saved import SavedPlan
from nodepool_ocb.operations.wire import codec, lines
from nodepool_ocb.operations.wire.lines import AnswerLine, CallBody, Question
from nodepool_ocb.operations.wire.problems import error_of
from nodepool_ocb.remote.address import ApiAddress, parse
from nodepool_ocb.remote.connection import HttpAnswer, HttpRequest, sent
from nodepool_ocb.remote.refusals import refusal
from nodepool_ocb.remote.tokens import VARIABLE, StoredToken, stored

OPERATIONS: Final = "/v1/operations"
PAUSES_SECONDS: Final = (0.0, 1.0, 3.0)  # before each repetition of a request whose answer is lost
DEADLINE_SECONDS: Final = 600.0  # of one operation; a large one is many transactions

T = TypeVar("T")


class _SentCall(msgspec.Struct, frozen=True):
    """A call; ``key`` names it for the server, which carries it out one time."""

    body: CallBody
    key: str | None


class HttpDocument(msgspec.Struct, frozen=True):
    """An answer as a whole; the names of headers are in small letters."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class RemotePerformer:
    """Performs the operations of one call at an API server; not thread-safe."""

    def __init__(self, call: Call, caller: Caller, address: ApiAddress, token: StoredToken) -> None:
        self.call = call
        self.caller = caller
        self._address = address
        self._token = token
        self.cluster = token.cluster  # that the server serves; None before its first answer
        self.patience_seconds: float | None = None  # of a call that is given up soon, and not repeated
        self.saved: SavedPlan | None = None  # of the dry run that was performed last
        self._zxid = 0  # the newest state that an answer was of

    def perform(self, operation: Operation[T]) -> Performed[T]:
        """Raises the errors of the operation; Unavailable, Denied or NoCluster for the server."""
        said = _Notes(self.caller)
        agreed = False
        plan = self.call.plan if isinstance(self.call.plan, SavedPlan) else None
        key = uuid.uuid4().hex if operation.writes and not self.call.dry_run else None
        while True:
            said.begin()
            body = CallBody(
                fields=msgspec.Raw(codec.encode_fields(operation) if plan is None else b"{}"),
                reason=self.call.reason,
                dry_run=self.call.dry_run,
                agreed=agreed,
                save=self.call.save,
                plan=plan,
                deadline_seconds=self.patience_seconds or DEADLINE_SECONDS,
            )
            found = self._performed(operation, _SentCall(body, key), said)
            if isinstance(found, Performed):
                return found
            self.caller.agree(found.text, found.details)
            agreed = True

    def fetch(self, path: str, statuses: Collection[int]) -> HttpDocument:
        """What is at a path, with one of these statuses. Raises the error of the server, Unavailable and OutcomeUnknown."""
        headers = {"Authorization": f"Bearer {self._token.token}"}
        request = HttpRequest(method="GET", path=path, headers=headers)
        with sent(self._address, request, self._token.ca) as answer:
            self._observe(answer)
            body = answer.body()
            if answer.status not in statuses:
                raise refusal(self._address.url, answer.status, answer.reason, body, answer.media_type)
            return HttpDocument(answer.status, answer.headers, body)

    def follow(self, path: str) -> Iterator[bytes]:
        """The lines of an answer that goes on. Raises the error of the server, Unavailable and OutcomeUnknown."""
        headers = {"Authorization": f"Bearer {self._token.token}"}
        with sent(self._address, HttpRequest(method="GET", path=path, headers=headers), self._token.ca) as answer:
            self._observe(answer)
            if answer.status != 200:
                raise refusal(self._address.url, answer.status, answer.reason, answer.body(), answer.media_type)
            yield from answer.lines()

    def _performed(self, operation: Operation[T], request: _SentCall, said: _Notes) -> Performed[T] | Question:
        """A request whose answer is lost is sent again: the key of a write keeps the server from a second one."""
        try:
            return self._called(operation, request, said)
        except OutcomeUnknown as lost:
            if self.patience_seconds is not None:
                raise
            for pause in PAUSES_SECONDS:
                time.sleep(pause)
                said.begin()
                with suppress(Unavailable):
                    return self._called(operation, request, said)
            raise lost

    def _called(self, operation: Operation[T], request: _SentCall, said: _Notes) -> Performed[T] | Question:
        kind = type(operation)
        answers: list[T] = []
        rows: tuple[Any, ...] = ()
        for line in self._lines(f"{OPERATIONS}/{registry.name_of(kind)}", request):
            if line.note is not msgspec.UNSET:
                said.note(line.note)
            elif line.answer is not msgspec.UNSET:
                answers.append(codec.decode_answer(kind, bytes(line.answer)))
            elif line.rows is not msgspec.UNSET:
                rows = line.rows
            elif line.plan is not msgspec.UNSET:
                self.saved = line.plan
            elif line.agree is not msgspec.UNSET:
                return line.agree
            elif line.done is not msgspec.UNSET and answers:
                return Performed(answers=tuple(answers), rows=rows, dry_run=line.done.dry_run)
        raise OutcomeUnknown(f"the answer of {self._address.url} has no end; look before you try again")

    def _lines(self, path: str, asked: _SentCall) -> Iterator[AnswerLine]:
        """Raises the error that the server sends in place of an answer, or in it."""
        headers = {
            "Authorization": f"Bearer {self._token.token}",
            "Accept": lines.MEDIA_TYPE,
            "Content-Type": "application/json",
            "If-Match": "*",
            **({"Ocb-Min-Zxid": str(self._zxid)} if self._zxid else {}),
            **({"Idempotency-Key": asked.key} if asked.key else {}),
        }
        request = HttpRequest(
            method="POST",
            path=path,
            headers=headers,
            body=msgspec.json.encode(asked.body),
            patience_seconds=self.patience_seconds,
        )
        with sent(self._address, request, self._token.ca) as answer:
            self._observe(answer)
            if answer.status != 200:
                raise refusal(self._address.url, answer.status, answer.reason, answer.body(), answer.media_type)
            for data in answer.lines():
                line = self._read(data)
                if line.error is not msgspec.UNSET:
                    raise error_of(line.error)
                if line.done is not msgspec.UNSET:
                    self._zxid = max(self._zxid, line.done.zxid)
                yield line

    def _read(self, data: bytes) -> AnswerLine:
        try:
            return lines.decode_line(data)
        except (msgspec.DecodeError, UnicodeError) as wrong:
            raise OcbError(
                f"the answer of {self._address.url} cannot be read: {wrong}; is it an API server?"
            ) from wrong

    def _observe(self, answer: HttpAnswer) -> None:
        """Remember the state that the answer is of. Raises NoCluster if the server serves another cluster than before."""
        cluster, zxid = answer.header("Ocb-Cluster"), answer.header("Ocb-Zxid")
        if zxid is not None and zxid.isdecimal():
            self._zxid = max(self._zxid, int(zxid))
        if cluster is None:
            return
        if self.cluster not in (None, cluster):
            raise NoCluster(
                f"{self._address.url} serves cluster {cluster}, and the token is of cluster {self.cluster};"
                f" if that is right: nodepool-ocb login {self._address.url}"
            )
        self.cluster = cluster


class _Notes:
    """The notes of one call. A second request for it repeats notes, which are not shown again."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self._shown: Counter[str] = Counter()
        self._now: Counter[str] = Counter()

    def begin(self) -> None:
        """A request begins."""
        self._now.clear()

    def note(self, text: str) -> None:
        self._now[text] += 1
        if self._now[text] > self._shown[text]:
            self._shown[text] += 1
            self._caller.note(text)


def logged_in(call: Call, caller: Caller, url: str, ca: str | None = None) -> RemotePerformer:
    """The performer at the server with this URL, with the stored token. Raises Invalid, or Denied without a token.

    ``ca``: certificates that identify the server, if the login named none.
    """
    address = parse(url)
    token = stored(address.url)
    if token is None:
        raise Denied(
            f"there is no token for {address.url}; store one: nodepool-ocb login {address.url}, or set {VARIABLE}"
        )
    return RemotePerformer(call, caller, address, replace(token, ca=token.ca or ca))
