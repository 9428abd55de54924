"""A log is followed byte for byte, whoever has it and whatever breaks, over real pages."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from nodepool_ocb.http import following
from nodepool_ocb.http.following import Follower, LogDelivery, LogPlaces, first, rest
from nodepool_ocb.http.logs import LogAccess, LogPage, LogPart, Shorter, Unreached
from nodepool_ocb.http.server import Pages
from nodepool_ocb.testing.proxy import Proxy
from tests.http.private import access, private

LINES = [f"line {number}\n".encode() for number in range(10_000)]
WHOLE = b"".join(LINES)


class Host:
    """Pages of a daemon with one folder of logs; ``idle``: it writes none of them."""

    def __init__(self, folder: Path, name: str) -> None:
        self.name, self.idle = name, False
        self.file = folder / f"{name}.log"
        self.pages = Pages("127.0.0.1:0", {}, private(logs=LogPage(lambda: folder, lambda _: self.idle)))

    @property
    def port(self) -> int:
        return int(self.pages.address.rpartition(":")[2])

    def write(self, data: bytes) -> None:
        with self.file.open("ab") as file:
            file.write(data)


class Played:
    """A source whose places the test changes; what it says counts once it is looked at."""

    regrows = True

    def __init__(self, places: LogPlaces) -> None:
        self.next, self.over = places, False
        self.places, self.ended = places, False
        self.blind = False

    @property
    def access(self) -> LogAccess:
        return access(*self.places.addresses)

    def look(self) -> bool:
        if not self.blind:
            self.places, self.ended = self.next, self.over
        return not self.blind


class Reader:
    """Follows in a thread, and keeps all that it is given and told."""

    def __init__(self, source: Played) -> None:
        self.parts: list[bytes] = []
        self.said: list[str] = []
        self.given: list[LogDelivery] = []
        follower = Follower(source, self.parts.append, self.said.append, partial(first, source))
        self._thread = threading.Thread(target=lambda: self.given.append(follower.give(follow=True)), daemon=True)
        self._thread.start()

    @property
    def got(self) -> bytes:
        return b"".join(self.parts)

    def end(self) -> LogDelivery:
        self._thread.join(30.0)
        assert self.given, "it does not end"
        return self.given[0]


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30.0
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.fixture
def hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Host]]:
    monkeypatch.setattr(following, "PAUSE_SECONDS", 0.02)
    monkeypatch.setattr(following, "WAIT_SECONDS", 1.0)
    made = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        made.append(Host(tmp_path / name, name))
    yield made
    for host in made:
        host.pages.close()


def places(host: Host, port: int | None = None) -> LogPlaces:
    address = f"127.0.0.1:{port or host.port}"
    return LogPlaces(host.name, {address: f"{host.name}:{host.file}"})


def test_ten_thousand_lines_come_once_over_cuts_and_a_take_over(hosts: list[Host]) -> None:
    first, second = hosts
    with Proxy(first.port) as proxy:
        source = Played(places(first, proxy.port))
        reader = Reader(source)
        for cut in range(1, 3):
            first.write(b"".join(LINES[(cut - 1) * 2000 : cut * 2000]))
            until(lambda cut=cut: reader.got.count(b"\n") == cut * 2000)  # type: ignore[misc]
            proxy.cut()
            until(lambda cut=cut: sum("trying again" in line for line in reader.said) == cut)  # type: ignore[misc]
            proxy.heal()
    second.write(WHOLE[:5000])  # it took over, and has less of it yet than was given out
    source.next = places(second)
    until(lambda: source.places == source.next)
    second.write(WHOLE[5000:])
    until(lambda: reader.got.count(b"\n") == 10_000)
    second.idle = source.over = True
    given = reader.end()
    assert reader.got == WHOLE
    assert given.whole
    assert given.file == f"b:{second.file}"
    assert given.end == WHOLE[-following.COMPARED_BYTES :], "of what was given no more is held"


def test_the_end_of_whoever_had_it_before_is_not_the_end(hosts: list[Host]) -> None:
    first, second = hosts
    first.idle = True
    first.write(b"one\n")
    second.write(b"one\ntwo\n")
    source = Played(places(first))
    source.next, source.over = places(second), True  # it was taken over, and has ended, since it was looked at
    second.idle = True
    reader = Reader(source)
    reader.end()
    assert reader.got == b"one\ntwo\n"


def test_a_log_that_was_begun_anew_is_given_from_its_first_byte_on(hosts: list[Host]) -> None:
    first, second = hosts
    first.write(b"of the first\n")
    second.write(b"of the second, which began anew\n")
    source = Played(places(first))
    reader = Reader(source)
    until(lambda: bool(reader.got))
    source.next, source.over, second.idle = places(second), True, True
    first.pages.close()
    reader.end()
    assert reader.got == b"of the first\nof the second, which began anew\n"
    assert any("was written anew" in line for line in reader.said)


def test_no_run_counts_as_ended_while_its_record_is_unreadable(hosts: list[Host]) -> None:
    first, _ = hosts
    first.write(b"one\n")
    source = Played(places(first))
    source.blind = first.idle = True  # it lost its session with ZooKeeper, as we did
    reader = Reader(source)
    until(lambda: bool(reader.got))
    first.write(b"two\n")
    until(lambda: reader.got == b"one\ntwo\n")
    assert not reader.given
    source.blind, source.over = False, True
    assert reader.end().whole


def test_a_follower_looks_for_the_new_owner_of_a_log_while_the_old_one_is_silent(
    hosts: list[Host], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "WAIT_SECONDS", 0.05)
    first, second = hosts
    first.write(b"one\n")
    second.write(b"one\ntwo\n")
    source = Played(places(first))
    reader = Reader(source)
    until(lambda: bool(reader.got))
    source.next, source.over, second.idle = places(second), True, True
    reader.end()
    assert reader.got == b"one\ntwo\n"


# -- whoever answers in whichever order: A and B are places --

A, B = "https://a", "https://b"


def follow_all(
    monkeypatch: pytest.MonkeyPatch, *answers: tuple[str, following.Found], regrows: bool = True, ended: bool = True
) -> tuple[bytes, list[str], bool]:
    """What is given out and said, and whether that was all, where these answers come one after the other."""
    monkeypatch.setattr(following, "PAUSE_SECONDS", 0.0)
    left = iter(answers)
    source = Played(LogPlaces("log", {"a": ""}))
    source.regrows, source.over = regrows, True
    source.ended = ended
    parts: list[bytes] = []
    said: list[str] = []
    given = Follower(source, parts.append, said.append, lambda *_: next(left)).give(follow=True)
    assert not [*left], "all of them were asked for"
    return b"".join(parts), said, given.whole


def piece(data: bytes, offset: int, ended: bool = False) -> LogPart:
    return LogPart(data, offset, offset + len(data), ended)


def test_a_follower_waits_for_a_new_owner_with_a_shorter_log(monkeypatch: pytest.MonkeyPatch) -> None:
    got, said, whole = follow_all(
        monkeypatch,
        (A, piece(b"one\n", 0)),
        (B, piece(b"", 4)),
        (B, piece(b"on", 0)),  # what it has of the bytes that were given out
        (B, piece(b"two\n", 4, ended=True)),
        (B, piece(b"one\ntwo\n", 0, ended=True)),
        ended=False,
    )
    assert (got, said, whole) == (b"one\ntwo\n", [], True)


def test_a_log_that_shrank_is_compared_when_it_has_grown_again(monkeypatch: pytest.MonkeyPatch) -> None:
    got, said, _ = follow_all(
        monkeypatch,
        (A, piece(b"one\n", 0)),
        (A, Shorter(2)),
        (A, piece(b"zwei\n", 4)),
        (A, piece(b"ein\nzwei\n", 0)),
        (A, piece(b"ein\nzwei\n", 0, ended=True)),
        ended=False,
    )
    assert got == b"one\nein\nzwei\n"
    assert "was written anew" in said[0]


def test_a_log_that_lost_its_end_and_grows_no_more_is_gone_on_with_there(monkeypatch: pytest.MonkeyPatch) -> None:
    got, said, _ = follow_all(
        monkeypatch, (A, piece(b"one\ntwo\n", 0)), (A, Shorter(4)), (A, piece(b"end\n", 4, ended=True)), regrows=False
    )
    assert got == b"one\ntwo\nend\n"
    assert "has lost its end, from byte 4 on" in said[0]


def test_a_daemon_that_does_not_answer_once_at_the_end_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    got, _, whole = follow_all(
        monkeypatch, (A, piece(b"one\n", 0)), (A, Unreached("it is away")), (A, piece(b"two\n", 4, ended=True))
    )
    assert (got, whole) == (b"one\ntwo\n", True)


@pytest.mark.parametrize(
    ("end", "offset", "more"),
    [
        (WHOLE[-3000:-2000], len(WHOLE) - 2000, WHOLE[-2000:]),
        (WHOLE[-1024:], len(WHOLE), b""),
        (WHOLE[-9000:-8000], len(WHOLE) - 8000, None),
        (b"x" * 1024, 5000, None),
        (LINES[9990], 90_000, None),
        (b"", 0, WHOLE[-4096:]),
    ],
    ids=[
        "it meets",
        "all was given",
        "there is a gap",
        "it is found nowhere",
        "too little is known",
        "nothing was given",
    ],
)
def test_an_end_that_is_recorded_goes_on_where_it_meets_what_was_given(
    end: bytes, offset: int, more: bytes | None
) -> None:
    assert rest(LogDelivery(offset=offset, end=end), WHOLE[-4096:].decode()) == more
