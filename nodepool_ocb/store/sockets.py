"""How kazoo waits for sockets and opens them."""

from __future__ import annotations

import select
import socket
import ssl
from collections.abc import Sequence
from typing import Any

from kazoo.handlers.threading import SequentialThreadingHandler


class Handler(SequentialThreadingHandler):  # type: ignore[misc]
    """kazoo's threads, with a select that makes no object in the kernel."""

    def select(
        self, rlist: Sequence[Any], wlist: Sequence[Any], _xlist: Sequence[Any], timeout: float | None = None
    ) -> tuple[list[Any], list[Any], list[Any]]:
        poll = select.poll()
        for readable in rlist:
            poll.register(readable, select.POLLIN)
        for writable in wlist:
            poll.register(writable, select.POLLOUT)
        ready = {fd for fd, _ in poll.poll(None if timeout is None else timeout * 1000)}
        return [r for r in rlist if r.fileno() in ready], [w for w in wlist if w.fileno() in ready], []

    def create_connection(self, address: tuple[str, int], timeout: float | None = None, **tls: Any) -> socket.socket:
        """Connect, over TLS where kazoo's ``use_ssl`` says so; kazoo's own leaves the socket open when that fails."""
        plain = socket.create_connection(address, timeout)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if not tls.get("use_ssl"):
            return plain
        try:
            context = ssl.create_default_context(cafile=tls["ca"])
            context.check_hostname = tls["check_hostname"]
            context.verify_mode = ssl.CERT_REQUIRED if tls["verify_certs"] else ssl.CERT_NONE
            if tls["certfile"] and tls["keyfile"]:
                context.load_cert_chain(tls["certfile"], tls["keyfile"], tls["keyfile_password"])
            return context.wrap_socket(plain, server_hostname=tls["hostname"])
        except BaseException:
            plain.close()
            raise
