"""How kazoo waits for sockets and opens them."""

from __future__ import annotations

import errno
import select
import socket
from collections.abc import Sequence
from typing import Any

from kazoo.handlers.threading import SequentialThreadingHandler

from nodepool_ocb.errors import Invalid
from nodepool_ocb.store.client import tls as tls_files


class Handler(SequentialThreadingHandler):  # type: ignore[misc]
    """kazoo's threads, with a select that creates no object in the kernel.

    If ``connect_seconds`` is set, it bounds kazoo's wait for a connection.
    """

    connect_seconds: float | None = None

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
        bounds = [seconds for seconds in (timeout, self.connect_seconds) if seconds is not None]
        plain = socket.create_connection(address, min(bounds, default=None))
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if not tls.get("use_ssl"):
            return plain
        try:
            context = tls_files.context(tls["ca"], tls["certfile"], tls["keyfile"], tls["verify_certs"])
            return context.wrap_socket(plain, server_hostname=tls["hostname"])
        except Invalid as wrong:  # the files were right at the start; they may be so again
            plain.close()
            raise OSError(errno.EINVAL, str(wrong)) from wrong
        except BaseException:
            plain.close()
            raise
