"""Logs over HTTP, against a real server: pieces without gap, hostile names, an end that is told."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from nodepool_ocb.http import logs
from nodepool_ocb.http.logs import PIECE_BYTES, LogPage, LogPart, MissingLog, Shorter, Unreached
from nodepool_ocb.http.server import Pages
from nodepool_ocb.testing.proxy import Proxy
from tests.http.private import CERTIFICATE, ask, get, private

NAME = "jammy-0000000001"


class Served:
    """A folder of logs with its page; ``working`` holds the names of those that still grow."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.working: set[str] = set()
        page = LogPage(lambda: folder, lambda name: name not in self.working)
        self.pages = Pages("127.0.0.1:0", {}, private(logs=page))
        self.address = self.pages.address

    def write(self, data: bytes, name: str = NAME) -> None:
        with (self.folder / f"{name}.log").open("ab") as file:
            file.write(data)

    def get(self, path: str) -> tuple[int, bytes]:
        return get(self.address, path)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    (tmp_path / "logs").mkdir()
    served = Served(tmp_path / "logs")
    yield served
    served.pages.close()


def test_pieces_follow_each_other_to_the_end(served: Served) -> None:
    whole = os.urandom(PIECE_BYTES * 2 + 17)
    served.write(whole)
    got, piece = b"", ask(served.address, NAME)
    while isinstance(piece, LogPart) and not piece.last:
        got += piece.data
        assert len(piece.data) <= PIECE_BYTES
        piece = ask(served.address, NAME, len(got))
    assert isinstance(piece, LogPart)
    assert got + piece.data == whole
    assert (piece.size, piece.ended) == (len(whole), True)


def test_a_negative_offset_counts_from_the_end(served: Served) -> None:
    served.write(b"one\ntwo\n")
    assert ask(served.address, NAME, -4) == LogPart(b"two\n", 4, 8, True)
    assert ask(served.address, NAME, -400) == LogPart(b"one\ntwo\n", 0, 8, True)


def test_an_answer_waits_for_more(served: Served) -> None:
    served.working.add(NAME)
    served.write(b"one\n")
    writing = threading.Timer(0.3, served.write, [b"two\n"])
    began = time.monotonic()
    writing.start()
    assert ask(served.address, NAME, 4, wait_seconds=20.0) == LogPart(b"two\n", 4, 8, False)
    assert 0.25 < time.monotonic() - began < 10.0
    writing.join()


def test_an_answer_waits_for_the_log_to_begin(served: Served) -> None:
    served.working.add(NAME)
    assert ask(served.address, NAME) == MissingLog(ended=False)
    writing = threading.Timer(0.2, served.write, [b"one\n"])
    writing.start()
    assert ask(served.address, NAME, wait_seconds=20.0) == LogPart(b"one\n", 0, 4, False)
    writing.join()


def test_an_answer_comes_at_once_when_the_build_ends(served: Served) -> None:
    served.working.add(NAME)
    served.write(b"one\n")
    timer = threading.Timer(0.2, served.working.clear)
    timer.start()
    piece = ask(served.address, NAME, 4, wait_seconds=20.0)
    assert piece == LogPart(b"", 4, 4, True)
    assert piece.last
    timer.join()


def test_waiting_is_bounded(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    served.working.add(NAME)
    served.write(b"")
    began = time.monotonic()
    assert ask(served.address, NAME, 0, wait_seconds=0.2) == LogPart(b"", 0, 0, False)
    monkeypatch.setattr(logs, "WAIT_SECONDS", 0.2)
    assert ask(served.address, NAME, 0, wait_seconds=9000.0) == LogPart(b"", 0, 0, False)
    assert time.monotonic() - began < 5.0


def test_a_log_that_lost_its_end_is_told_from_one_that_grows(served: Served) -> None:
    served.write(b"one\n")
    assert ask(served.address, NAME, 5) == Shorter(4)


@pytest.mark.parametrize(
    "name",
    [
        "", ".", "..", "../secret", "..%2fsecret", "%2e%2e/secret", "/etc/passwd", "//etc/passwd", "logs/../../secret",
        ".hidden", "-rf", "Jammy", "jammy%00", "jammy-0000000001%0a", "jammy-0000000001\\x", "a" * 122, "link", "fifo",
        "folder", "jammy-0000000001/", "jammy-0000000001.log",
    ],
)  # fmt: skip
def test_hostile_names_are_not_found(served: Served, name: str) -> None:
    secret = served.folder.parent / "secret.log"
    secret.write_text("secret")
    served.write(b"fine")
    (served.folder / "link.log").symlink_to(secret)
    (served.folder / ".hidden.log").write_text("secret")
    (served.folder / "folder.log").mkdir()
    os.mkfifo(served.folder / "fifo.log")
    status, body = served.get(f"/logs/{name}?wait=0")
    assert status == 404
    assert b"secret" not in body


@pytest.mark.parametrize(
    "query", ["offset=x", "offset=1e9", "offset=--1", "offset=" + "9" * 40, "wait=inf", "wait=nan", "wait=-1"]
)
def test_odd_queries_are_refused(served: Served, query: str) -> None:
    served.write(b"fine")
    assert served.get(f"/logs/{NAME}?{query}")[0] == 400
    assert served.get("/logs/" + NAME + "?" + "&".join(["a=b"] * 50))[0] == 400


def test_a_page_that_raises_is_the_client_s_error(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def ended(_: str) -> bool:
        raise RuntimeError("bang")

    pages = Pages("127.0.0.1:0", {}, private(logs=LogPage(lambda: tmp_path, ended)))
    assert isinstance(ask(pages.address, NAME), Unreached)
    pages.close()
    assert "the page for" in caplog.text


def test_an_answer_that_is_cut_is_no_answer(served: Served) -> None:
    served.write(os.urandom(PIECE_BYTES))
    with Proxy(int(served.address.rpartition(":")[2])) as proxy:
        swallowed = proxy.drop_answers()
        asked: list[object] = []
        asking = threading.Thread(target=lambda: asked.append(ask(proxy.hosts, NAME)))
        asking.start()
        assert swallowed.wait(10)
        proxy.cut()
        asking.join(10)
    assert isinstance(asked[0], Unreached)


def test_half_an_answer_is_no_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        said = b"HTTP/1.0 200 OK\r\nContent-Length: 10\r\nLog-Offset: 0\r\nLog-Size: 10\r\nLog-Ended: yes\r\n\r\nhalf"
        serving = threading.Thread(target=_say, args=(listener, said))
        serving.start()
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        assert ask(address, NAME) == Unreached(f"{address}: the answer was cut")
        serving.join()


def _say(listener: socket.socket, said: bytes) -> None:
    plain, _ = listener.accept()
    with plain, CERTIFICATE.context.wrap_socket(plain, server_side=True) as connection:
        connection.recv(65536)
        connection.sendall(said)


@pytest.mark.parametrize(
    "said", [b"", b"nonsense\r\n\r\n", b"HTTP/1.0 200 OK\r\n\r\nhello", b"HTTP/1.0 500 No\r\n\r\n"]
)
def test_another_server_is_no_log(said: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        serving = threading.Thread(target=_say, args=(listener, said))
        serving.start()
        assert isinstance(ask(f"127.0.0.1:{listener.getsockname()[1]}", NAME), Unreached)
        serving.join()


@pytest.mark.parametrize("address", ["", "nohost", "127.0.0.1:x", "127.0.0.1:99999", "256.0.0.1:1"])
def test_an_address_that_is_none_is_unreached(address: str) -> None:
    assert isinstance(ask(address, NAME, patience_seconds=1.0), Unreached)


def test_only_so_many_answers_wait(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "WAITING", 1)
    page = LogPage(lambda: served.folder, lambda _: False)
    served.write(b"")

    def seconds(_: int) -> float:
        began = time.monotonic()
        assert page(NAME, {"wait": "2"}).status == 200
        return time.monotonic() - began

    with ThreadPoolExecutor(3) as beside:
        took = sorted(beside.map(seconds, range(3)))
    assert took[1] < 1.5 < took[2]


def test_pages_name_what_they_have(served: Served, until: Callable[..., None]) -> None:
    until(lambda: served.get("/nothing") == (404, b"/metrics\n/logs/\n"))


def test_a_server_on_all_addresses_gives_a_name_that_others_can_use(tmp_path: Path) -> None:
    pages = Pages("0.0.0.0:0", {}, private(logs=LogPage(lambda: tmp_path, lambda _: True)))
    assert pages.address.rpartition(":")[0] == socket.gethostname()
    pages.close()


@pytest.mark.parametrize("image", ["Ubuntu", "_under", "c++~dev@site", "x" * 200])
def test_the_log_of_every_image_that_may_be_configured_is_served(served: Served, image: str) -> None:
    served.write(b"built", f"{image}-0000000001")
    piece = ask(served.address, f"{image}-0000000001")
    assert isinstance(piece, LogPart)
    assert piece.data == b"built"
