"""What tests of the webhook stand on: a receiver that answers as it is told, and annealers in this process."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

import msgspec

from nodepool_ocb.config import AnnealerSettings, WebhookSettings, ZooKeeperSettings
from nodepool_ocb.errors import Unavailable
from nodepool_ocb.model import paths
from nodepool_ocb.model.journal import Entry
from nodepool_ocb.model.records import Append, Daemon
from nodepool_ocb.store.client.session import Session
from tests.fixtures.annealers import ThreadedAnnealer


class Got(msgspec.Struct):
    """A request that came."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def document(self) -> Any:
        return msgspec.json.decode(self.body)

    @property
    def numbers(self) -> list[int]:
        return [entry["number"] for entry in self.document["entries"]]


class Receiver:
    """Takes requests on this host; ``answer`` gives the status of each, and may wait."""

    def __init__(self, answer: Callable[[Got], int] = lambda _: 200) -> None:
        self.answer = answer
        self.got: list[Got] = []
        self.free = threading.Event()  # what waits for it goes on at the end
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                request = Got(self.path, dict(self.headers), body)
                receiver.got.append(request)
                status = receiver.answer(request)
                self.send_response(status)
                if 300 <= status < 400:
                    self.send_header("Location", "/elsewhere")
                self.end_headers()

            def log_message(self, *_: object) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.handle_error = lambda *_: None  # type: ignore[method-assign] # the other side has gone
        self._thread = threading.Thread(target=lambda: self.server.serve_forever(poll_interval=0.02))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}/hook"

    @property
    def numbers(self) -> list[int]:
        """Of all entries that came, in their order."""
        return [number for each in self.got for number in each.numbers]

    def statuses(self, *statuses: int) -> None:
        """Answer so, one after the other; the last from then on."""
        left = list(statuses)
        self.answer = lambda _: left.pop(0) if len(left) > 1 else left[0]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.free.set()
        self.server.shutdown()
        self.server.server_close()
        self._thread.join()


class Poster(ThreadedAnnealer):
    """An annealer in this process; it knows no machines."""

    def __init__(self, zookeeper: ZooKeeperSettings, identity: str, webhook: WebhookSettings | None) -> None:
        self.settings = AnnealerSettings(sweep_seconds=3600.0, steal_delay_seconds=0.02, log_dir=None, webhook=webhook)
        record = Daemon(host=socket.gethostname(), pid=1, version="1", started=0.0)
        super().__init__(zookeeper, self.settings, {}, None, identity, record)

    def configure(self, webhook: WebhookSettings | None) -> None:
        """As a reload does."""
        settings = msgspec.structs.replace(self.settings, webhook=webhook)
        self.annealer.context.post(lambda: self.annealer.configure(settings))

    def have_swept(self) -> None:
        """Look at everything, on the turn thread; a connection that breaks ends that."""
        done = threading.Event()

        def sweep() -> None:
            try:
                self.annealer.sweep()
            except Unavailable:
                pass
            finally:
                done.set()

        self.annealer.context.post(sweep)
        assert done.wait(60.0)

    @property
    def sends(self) -> bool:
        """Whether it has the lock."""
        return self.annealer.posting._lock is not None


def write(session: Session, count: int = 1, **fields: Any) -> None:
    """Some entries."""
    for number in range(count):
        session.commit([Append(paths.JOURNAL_ENTRIES, entry(f"n{number}.example.com", **fields))])


def entry(*subjects: str, **fields: Any) -> Entry:
    return Entry(**{"at": time.time(), "login": "ann", "host": "h", "verb": "node set", "subjects": subjects, **fields})


def write_all(session: Session, entries: Sequence[Entry]) -> None:
    """At once."""
    session.commit([Append(paths.JOURNAL_ENTRIES, each) for each in entries])
