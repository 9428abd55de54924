"""A TLS server in front of a ZooKeeper server without TLS: Nodepool and Zuul connect by TLS alone."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from pathlib import Path
from types import TracebackType

from nodepool_ocb.testing.zookeeper.guarded import certificates

BLOCK_BYTES = 1 << 16


class TlsProxy:
    """Forwards to a port of 127.0.0.1; ``files`` are those of a client."""

    def __init__(self, target: int, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in certificates().items():
            (folder / name).write_bytes(content)
        self.files = {
            "cert": str(folder / "client.crt"),
            "key": str(folder / "client.key"),
            "ca": str(folder / "ca.pem"),
        }
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(folder / "server.crt", folder / "server.key")
        self._context.load_verify_locations(folder / "ca.pem")
        self._context.verify_mode = ssl.CERT_REQUIRED
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: set[socket.socket] = set()
        self._thread = threading.Thread(target=self._accept, name="tls-proxy", daemon=True)

    @property
    def hosts(self) -> str:
        return f"127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self) -> TlsProxy:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for each in [self._listener, *self._open]:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        self._thread.join(5.0)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return  # it was closed
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, plain: socket.socket) -> None:
        with contextlib.suppress(OSError):
            client = self._context.wrap_socket(plain, server_side=True)
            server = socket.create_connection(("127.0.0.1", self._target))
            self._open |= {client, server}
            threading.Thread(target=self._copy, args=(client, server), daemon=True).start()
            self._copy(server, client)

    def _copy(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(BLOCK_BYTES):
                sink.sendall(data)
        for each in (source, sink):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
