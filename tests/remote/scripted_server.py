"""A server of HTTP that gives prepared answers, one to each request, and keeps the requests."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgspec

from nodepool_ocb.errors import OcbError
from nodepool_ocb.operations.wire.codec import encode_answer
from nodepool_ocb.operations.wire.lines import MEDIA_TYPE, AnswerLine, CallBody, CallEnd, encode_line
from nodepool_ocb.operations.wire.problems import problem_of


class Prepared(msgspec.Struct, frozen=True, kw_only=True):
    """An answer; ``cut``: the connection ends so many bytes before the end of the body."""

    status: int = 200
    media_type: str = MEDIA_TYPE
    headers: Mapping[str, str] = {}
    body: bytes = b""
    cut: int = 0


def answered(answer: Any, *before: AnswerLine, zxid: int = 7, **more: Any) -> Prepared:
    """The answer of an operation with one round, after other lines."""
    ending = (AnswerLine(answer=msgspec.Raw(encode_answer(answer))), AnswerLine(done=CallEnd(dry_run=False, zxid=zxid)))
    return Prepared(body=b"".join(map(encode_line, (*before, *ending))), **more)


def refused(error: OcbError, status: int | None = None) -> Prepared:
    """A problem in place of an answer."""
    problem = problem_of(error)
    return Prepared(
        status=status or problem.status, media_type="application/problem+json", body=msgspec.json.encode(problem)
    )


class ScriptedServer:
    """``answers`` are given in their order; ``asked`` has the path, the headers and the body of each request."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.answers: list[Prepared] = []
        self.asked: list[tuple[str, Mapping[str, str], CallBody]] = []


@contextmanager
def serving(certificate: Path | None = None) -> Iterator[ScriptedServer]:
    """A server on a free port, until the end of the block; with TLS if it has a certificate: a key and it as PEM."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            data = self.rfile.read(int(self.headers["Content-Length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            made.asked.append((self.path, headers, msgspec.json.decode(data, type=CallBody)))
            answer = made.answers.pop(0)
            self.send_response(answer.status)
            for name, value in {"Content-Type": answer.media_type, **answer.headers}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            self.wfile.write(answer.body[: len(answer.body) - answer.cut])

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        made = ScriptedServer(f"http{'s' if certificate else ''}://127.0.0.1:{server.server_port}")
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield made
        finally:
            server.shutdown()
            thread.join()
