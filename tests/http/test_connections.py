"""Clients that connect in masses, or never end their request, against real pages."""

from __future__ import annotations

import logging
import os
import resource
import socket
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import pytest

from nodepool_ocb.http import connections
from nodepool_ocb.http.certificates import PinnedConnection
from nodepool_ocb.http.connections import CONNECTIONS
from nodepool_ocb.http.page import PageResponse
from nodepool_ocb.http.proofs import proof
from nodepool_ocb.http.server import Pages
from tests.http.flood import Flood
from tests.http.private import CERTIFICATE, KEY, private


@pytest.fixture
def pages() -> Iterator[Pages]:
    served = Pages("127.0.0.1:0", {"live": lambda: None})
    yield served
    served.close()


def live(pages: Pages, timeout: float = 5.0) -> bool:
    with urllib.request.urlopen(f"http://{pages.address}/health/live", timeout=timeout) as page:
        return bool(page.status == 200)


def opened(pages: Pages) -> socket.socket:
    host, _, port = pages.address.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=10.0)


@pytest.mark.long
def test_a_flood_takes_some_tens_of_threads_and_a_request_is_answered_meanwhile(
    pages: Pages, until: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    before = threading.active_count()
    with caplog.at_level(logging.WARNING), Flood(pages.address, idle=300, dripping=100) as flood:
        until(lambda: flood.connected > 500)
        for _ in range(10):
            assert live(pages)
            assert threading.active_count() <= before + 1 + CONNECTIONS + 1
    until(lambda: threading.active_count() <= before)
    assert len([each for each in caplog.records if "were refused" in each.message]) == 1


def test_a_request_that_drips_has_a_deadline_for_the_whole(
    pages: Pages, monkeypatch: pytest.MonkeyPatch, until: Callable[..., None]
) -> None:
    monkeypatch.setattr(connections, "REQUEST_SECONDS", 0.5)
    with opened(pages) as client:
        began = time.monotonic()
        client.setblocking(False)

        def cut() -> bool:
            try:
                client.send(b"G")
                return client.recv(1) == b""
            except BlockingIOError:
                return False
            except OSError:
                return True

        until(cut)
        assert time.monotonic() > began + 0.4


def asking(pages: Pages) -> PinnedConnection:
    """A reader that has asked for a slow page."""
    host, _, port = pages.address.rpartition(":")
    client = PinnedConnection(host, int(port), 60.0, CERTIFICATE.digest)
    client.request("GET", "/slow/", headers={"Authorization": proof(KEY, CERTIFICATE.digest)})
    return client


def test_a_connection_whose_request_came_is_not_cut_for_another() -> None:
    asked, go = threading.Semaphore(0), threading.Event()

    def slow(_: str, __: object) -> PageResponse:
        asked.release()
        assert go.wait(60.0)
        return PageResponse(200, b"whole")

    pages = Pages("127.0.0.1:0", {}, private(slow=slow))
    clients = [asking(pages) for _ in range(CONNECTIONS)]
    assert all(asked.acquire(timeout=60.0) for _ in clients)
    with opened(pages) as beyond:
        assert beyond.recv(1) == b""
    go.set()
    for client in clients:
        with closing(client):
            assert client.getresponse().read() == b"whole"
    pages.close()


@contextmanager
def descriptors_left(left: int) -> Iterator[None]:
    """The process may open so many more descriptors."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    spare = os.dup(0)
    os.close(spare)
    resource.setrlimit(resource.RLIMIT_NOFILE, (spare + left, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_the_last_descriptors_are_left_to_the_work_of_the_daemon(pages: Pages) -> None:
    with descriptors_left(4), opened(pages) as client:
        assert client.recv(1) == b""
    assert live(pages)


def test_a_process_without_a_thread_to_spare_refuses_a_connection_and_serves_the_next(
    pages: Pages, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def start(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as full, caplog.at_level(logging.WARNING):
        full.setattr(threading.Thread, "start", start)
        for _ in range(CONNECTIONS + 5):
            with opened(pages) as client:
                assert client.recv(1) == b""
    assert live(pages)
    assert len(caplog.records) == 1
