"""Logs through a server: the requests that wait, the forms of the answers, and the files that a server does not read."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, Final

import msgspec
import pytest

from nodepool_ocb.api.actor import Actor
from nodepool_ocb.api.streams import logs
from nodepool_ocb.api.streams.logs import LogDesk, LogQuery
from nodepool_ocb.errors import Denied, Unavailable
from nodepool_ocb.http.logs import LogPart, MissingLog, Shorter, Unreached
from nodepool_ocb.model.tokens import Token, TokenRole

PLACE: Final = "n1.example.com:1"


class SmallDesk:
    """A desk with one caller; it runs each call at once."""

    def __init__(self, role: TokenRole = TokenRole.VIEWER) -> None:
        self.records = SimpleNamespace(session=None)
        self._role = role

    async def actor(self, _request: Any) -> Actor:
        return Actor(id="00000000002a", token=Token(name="ann", role=self._role, digest="0" * 64), address="::1")

    def deadline(self) -> float:
        return 0.0

    async def run(self, call: Any, *_: Any) -> Any:
        return call()


def of(role: TokenRole = TokenRole.VIEWER) -> LogDesk:
    desk: Any = SmallDesk(role)
    return LogDesk(desk)


class SmallLog:
    """A log whose daemon is asked within another question, ``inside`` times; ``waits`` has the seconds of each."""

    def __init__(self, desk: LogDesk, inside: int = 0, fails: bool = False) -> None:
        self.waits: list[float] = []
        self._desk, self._inside, self._fails = desk, inside, fails

    def ask(self, _offset: int, wait: float) -> tuple[str, LogPart]:
        self.waits.append(wait)
        if self._inside > 0:
            self._inside -= 1
            self._desk._part(self, LogQuery(wait=5.0))  # type: ignore[arg-type]
        if self._fails:
            raise Unavailable("the daemon does not answer")
        return PLACE, LogPart(offset=0, data=b"", size=0, ended=False)


def test_so_many_requests_wait_at_a_time_and_others_are_answered_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "WAITING", 2)
    desk = of()
    log: Any = SmallLog(desk, inside=3)
    desk._part(log, LogQuery(wait=5.0))
    assert log.waits == [5.0, 5.0, 0.0, 0.0]
    desk._part(log, LogQuery(wait=5.0))
    assert log.waits[4:] == [5.0], "they have given up their places"


def test_a_request_that_fails_gives_up_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "WAITING", 1)
    desk = of()
    log: Any = SmallLog(desk, fails=True)
    for _ in range(3):
        with pytest.raises(Unavailable):
            desk._part(log, LogQuery(wait=5.0))
    assert log.waits == [5.0] * 3


def test_requests_that_do_not_wait_take_no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "WAITING", 1)
    desk = of()
    outer: Any = SmallLog(desk, inside=1)
    desk._part(outer, LogQuery())
    assert outer.waits == [0.0, 5.0]


@pytest.mark.parametrize(
    "query",
    [{"offset": "1" + "0" * 16}, {"offset": "-1" + "0" * 16}, {"wait": "20.5"}, {"wait": "-1"}, {"wait": "nan"}],
)
def test_an_offset_or_a_wait_beyond_any_log_is_refused(query: dict[str, str]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(query, LogQuery, strict=False)


def test_the_forms_of_an_answer() -> None:
    part = logs._part(PLACE, LogPart(offset=4, data=b"two", size=9, ended=True))
    assert (part.status_code, part.content, part.media_type) == (200, b"two", "application/octet-stream")
    named = {name: part.headers[f"Log-{name.title()}"] for name in ("offset", "size", "ended", "place")}
    assert named == {"offset": "4", "size": "9", "ended": "yes", "place": PLACE}
    shorter = logs._part(PLACE, Shorter(size=3))
    assert (shorter.status_code, shorter.headers["Log-Size"]) == (416, "3")
    for ended, word in ((True, "yes"), (False, "no")):
        missing = logs._part(PLACE, MissingLog(ended=ended))
        assert (missing.status_code, missing.headers["Log-Ended"]) == (404, word)
    with pytest.raises(Unavailable, match="it is away"):
        logs._part(PLACE, Unreached("it is away"))


def ask(desk: LogDesk, kind: str, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Ask for a log that cannot be looked for; gives the options with which it was."""
    options: list[dict[str, Any]] = []

    def found(*_: Any, **more: Any) -> Any:
        options.append(more)
        return SimpleNamespace(looked=False)

    monkeypatch.setattr(logs, "RunLog" if kind == "run" else "LogOfBuild", found)
    monkeypatch.setattr(desk, "_chosen", lambda *_: None)
    names = {"of_noderole": "base@n1", "of_run": "1", "of_image": "jammy", "of_build": "1"}
    request: Any = SimpleNamespace(path_params=names, query_params=SimpleNamespace(dict=dict))
    with pytest.raises(Unavailable, match="ZooKeeper does not answer"):
        asyncio.run((desk.run_log if kind == "run" else desk.build_log)(request, seen=False))
    return options


@pytest.mark.parametrize("kind", ["run", "build"])
def test_a_server_reads_no_file_of_its_own_host_for_a_log(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ask(of(), kind, monkeypatch) == [{"files": False}]


@pytest.mark.parametrize("kind", ["run", "build"])
def test_a_machine_reads_no_log(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Denied):
        ask(of(TokenRole.JOIN), kind, monkeypatch)
