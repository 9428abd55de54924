"""An API server over a grid, the bare handler beside it, and a client with one kept connection."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Self

from nodepool_ocb.config import Settings, ZooKeeperSettings
from nodepool_ocb.model.tokens import TokenRole
from nodepool_ocb.operations.operation import Call
from nodepool_ocb.operations.performer import Performer
from nodepool_ocb.operations.tokens.creating import TokenCreate
from nodepool_ocb.testing.processes import API, DaemonProcess
from nodepool_ocb.testing.zookeeper.server import free_port

BARE: Final = Path(__file__).parents[1] / "peers" / "bare_handler.py"
LEAST_HEADERS: Final = ("content-type", "etag")


class HttpClient:
    """Requests over one kept connection."""

    def __init__(self, port: int, token: str = "") -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60.0)
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def connect(self) -> None:
        """A fresh connection: servers end one that rests for seconds."""
        self._connection.close()
        self._connection.connect()

    def get(self, path: str) -> tuple[bytes, Mapping[str, str]]:
        """The body and the headers, by small names. Raises RuntimeError for another status than 200."""
        self._connection.request("GET", path, headers=self._headers)
        answer = self._connection.getresponse()
        body = answer.read()
        if answer.status != 200:
            raise RuntimeError(f"GET {path}: {answer.status} {body[:200]!r}")
        return body, {name.lower(): value for name, value in answer.getheaders()}

    def await_zxid(self, zxid: int) -> None:
        """Return when the server shows all writes up to ``zxid``. Raises RuntimeError after 10 s."""
        deadline = time.monotonic() + 10.0
        while time.monotonic() < deadline:
            self._connection.request("GET", "/none")
            answer = self._connection.getresponse()
            answer.read()
            if int(answer.getheader("Ocb-Zxid") or 0) >= zxid:
                return
        raise RuntimeError("a change did not reach the server within 10 s")

    def rate(self, path: str, seconds: float) -> float:
        """Requests a second, one after the other."""
        self.connect()
        began, count = time.monotonic(), 0
        while (now := time.monotonic()) - began < seconds:
            self.get(path)
            count += 1
        return count / (now - began)


class _Notes:
    """The caller of the operation that makes a token."""

    def note(self, text: str) -> None:
        pass

    def agree(self, text: str, details: object) -> bool:  # noqa: ARG002
        return False


def token(settings: ZooKeeperSettings) -> str:
    """The text of a viewer's new token."""
    performer = Performer(Call(login="bench", host="bench"), _Notes(), lambda: Settings(zookeeper=settings))
    text = performer.perform(TokenCreate(name="bench", role=TokenRole.VIEWER)).answer.token
    assert text is not None
    return text


@contextmanager
def served(settings: ZooKeeperSettings) -> Iterator[tuple[DaemonProcess, int]]:
    """A server that has read everything, and its port."""
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="nodepool-ocb-bench-") as directory:
        process = DaemonProcess(
            settings, Path(directory), {"api": {"listen": f"127.0.0.1:{port}", "drain_seconds": 1.0}}, launcher=API
        )
        try:
            process.start()
            yield process, port
        finally:
            process.close()


@contextmanager
def bare(body: bytes, headers: Mapping[str, str]) -> Iterator[int]:
    """The bare handler with these bytes, and its port."""
    port = free_port()
    with tempfile.NamedTemporaryFile(prefix="nodepool-ocb-bench-") as file:
        file.write(body)
        file.flush()
        process = subprocess.Popen(
            [sys.executable, str(BARE)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert process.stdin is not None
        assert process.stdout is not None
        kept = {name: value for name, value in headers.items() if name in LEAST_HEADERS}
        kept["content-length"] = str(len(body))
        try:
            process.stdin.write(json.dumps({"port": port, "file": file.name, "headers": kept}) + "\n")
            process.stdin.flush()
            if process.stdout.readline() != "ready\n":
                raise RuntimeError("the bare handler did not start")
            yield port
        finally:
            process.stdin.close()
            process.wait(20.0)
            process.stdout.close()
