"""kazoo's client with a faster connection: no epoll object a wait, one send or recv for many requests or answers.

kazoo's API, SASL and TLS are unchanged. Replaced are the waiting, sending and reading of its loop, and the change to
another server (heart), in the style of a patch that could go upstream. Two things are added: persistent recursive
watches, and completions that run on the connection's thread (they must not block).

One thing differs on purpose. Without a connection, a request is refused with ``NotSent``; kazoo would keep it for a
later connection.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import ssl
import struct
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from kazoo.client import KazooClient
from kazoo.exceptions import (
    EXCEPTIONS,
    AuthFailedError,
    ConnectionDropped,
    ConnectionLoss,
    SessionClosedRequireSaslError,
)
from kazoo.protocol.connection import AUTH_XID, CLOSE_RESPONSE, PING_XID, WATCH_XID
from kazoo.protocol.serialization import SASL, Auth, ReplyHeader
from kazoo.protocol.states import KeeperState

from nodepool_ocb.store.client import diagnosis
from nodepool_ocb.store.client.answers import Completion, NotSent, PendingAnswer
from nodepool_ocb.store.client.frames import Raw, Reply
from nodepool_ocb.store.client.heart import Beating, Server
from nodepool_ocb.store.client.sockets import Handler
from nodepool_ocb.telemetry.logs import Repeats

log = logging.getLogger(__name__)
log.addHandler(logging.NullHandler())  # a command's one line of error is not preceded by kazoo's warnings
log.addFilter(Repeats(anew="Zookeeper connection established"))  # while no server answers, it tries about once a second

RECEIVE_BYTES: Final = 1 << 18
SASL_ROUNDS: Final = 5  # DIGEST-MD5 needs three
_FRAME = struct.Struct("!iii")  # length, xid, opcode
_LENGTH = struct.Struct("!i")
_REPLY = struct.Struct("!iqi")  # xid, zxid, error
_BODY: Final = _LENGTH.size + _REPLY.size  # where the body of an answer begins
_PATH: Final = _BODY + 3 * _LENGTH.size  # where that of an event begins: behind its kind, a state and its length
_KINDS: Final = {1: "created", 2: "deleted", 3: "changed"}

Wake = Callable[[str, str], None]


class Watcher(NamedTuple):
    """The reader of a path and of all below it. Paths with more slashes, those of the chroot included, do not concern it."""

    wake: Wake
    most_slashes: float = float("inf")
    over: Callable[[], None] | None = None  # to call behind the events that came at once


class Connection(Beating):
    """kazoo's connection, sending and reading in batches.

    ``proven`` is the time when the newest answered request was *sent* (monotonic seconds). The time of reading would
    not do: the answer may have waited in the kernel while this process was stopped.
    """

    def __init__(self, client: Client, *args: Any, **kwargs: Any) -> None:
        super().__init__(client, *args, **kwargs)
        self.proven = float("-inf")
        self.lease_seconds = 0.0
        self.failure = ""  # why the newest attempt to connect failed, and the remedy
        self.refusals = 0  # the number of "connection refused" in a row
        self.rejected = False  # kazoo has ended its attempts, because the server refuses our identity
        self._xid = 0
        self._sending = threading.Lock()  # held from a request's number to its last byte, and while the socket changes
        self._unsent = b""  # of a request that ``send_now`` could not send whole
        self._open = False  # ``send_now`` may send: the requests that come first on a connection are queued
        self._signalled = False
        self._admitted = False
        self._sent: deque[tuple[int, float]] = deque()  # the last xid of each batch, and when it was sent
        self._pinged = 0.0
        self._watched = False  # events of watches came since ``events_over`` was called
        self._partial: list[bytes] = []  # the beginning of an incomplete answer
        self._missing = 0

    @property
    def owed_since(self) -> float | None:
        """When the oldest request was sent that is not answered yet, pings included; None where all are."""
        requests = self._sent[0][1] if self._sent else None
        if not self.ping_outstanding.is_set():
            return requests
        return self._pinged if requests is None else min(self._pinged, requests)

    def start(self) -> None:
        super().start()
        self._read_sock.setblocking(False)

    def wake(self) -> None:
        """Let the loop look at the queue; one byte is enough for any number of requests."""
        if not self._signalled:
            self._signalled = True
            with contextlib.suppress(AttributeError, OSError):  # closed: the request is refused by its maker
                self._write_sock.send(b"\0")

    def abort(self) -> None:
        """Break the connection, so that the loop ends although the server is mute."""
        sock = self._socket
        if sock is not None:
            with contextlib.suppress(OSError):  # it is closed already
                sock.shutdown(socket.SHUT_RDWR)

    def _connect(self, host: str, hostip: str, port: int) -> tuple[float, float]:
        self._partial, self._missing = [], 0
        with self._sending:
            self._sent.clear()
            self._unsent, self._open = b"", False
        began = time.monotonic()
        try:
            timeouts: tuple[float, float] = super()._connect(host, hostip, port)
        except (OSError, ConnectionDropped) as error:
            refused = isinstance(diagnosis.cause_of(error), ConnectionRefusedError)
            self.refusals = self.refusals + 1 if refused else 0
            self.failure = diagnosis.why(error)
            raise
        except (AuthFailedError, SessionClosedRequireSaslError) as error:
            self.failure = diagnosis.NO_SASL if str(error) == diagnosis.NO_SASL else diagnosis.WRONG_USER
            if self._admitted:  # a server that stops in the middle looks the same; our password was right before
                raise ConnectionDropped("connection lost while authenticating") from error
            self.rejected = True
            raise AuthFailedError(self.failure) from error
        self._admitted, self.failure, self.refusals = True, "", 0
        self.proven = began
        self.lease_seconds = timeouts[0] / 1000  # kazoo's read time-out: 2/3 of the session's, as the server granted it
        self.client.connected_again()
        self._open = not isinstance(self._socket, ssl.SSLSocket)  # two threads may not use one of TLS at once
        return timeouts

    def _expand_client_hosts(self) -> list[Server]:
        found = super()._expand_client_hosts()
        if not found:
            self.failure = diagnosis.UNRESOLVED
        return found

    def _submit(self, request: Any, timeout: float, xid: int | None = None) -> None:
        if request.type == SASL.type and (xid or 0) > SASL_ROUNDS:
            raise AuthFailedError(diagnosis.NO_SASL)  # it answers each of our words with nothing, for ever
        super()._submit(request, timeout, xid)

    # -- sending --

    def _send_request(self, read_timeout: float, connect_timeout: float) -> None:
        try:
            while len(self._read_sock.recv(4096)) == 4096:
                pass
        except BlockingIOError:
            pass
        self._signalled = False  # after the pipe is empty and before the queue is read: no wake-up is lost
        with self._sending:
            parts, self._unsent = [self._unsent] if self._unsent else [], b""
            while queue := self.client._queue:
                try:
                    request, completion = queue.popleft()
                except IndexError:  # refused by the thread that made it
                    break
                parts += self._numbered(request, completion)
            if parts:
                self._sent.append((self._xid, time.monotonic()))
                self._flush(b"".join(parts), read_timeout, connect_timeout)

    def _numbered(self, request: Any, completion: Any) -> tuple[bytes, bytes]:
        """The bytes of a request with the next number; its answer is awaited from now on. Called with ``_sending`` held."""
        xid = AUTH_XID
        if request.type != Auth.type:
            xid = self._xid = (self._xid % 2147483647) + 1
        body = request.serialize()
        self.client._pending.append((request, completion, xid))
        return _FRAME.pack(len(body) + 8, xid, request.type), body

    def send_now(self, request: Raw, completion: Completion) -> bool:
        """Send a request on this thread, if none is before it and no answer is due; gives whether that was done.

        A thread that goes on with other work keeps Python's lock for as long, and the connection's thread waits for it.
        """
        client = self.client
        if not self._open or client._queue or client._pending or not self._sending.acquire(blocking=False):
            return False
        try:
            if client._queue or client._pending or not (self._open and client._live.is_set()):
                return False
            data = b"".join(self._numbered(request, completion))
            self._sent.append((self._xid, time.monotonic()))
            try:
                self._unsent = data[self._socket.send(data) :]
            except BlockingIOError:
                self._unsent = data
            except (AttributeError, OSError):
                pass  # the connection is broken: its thread notices that, and tells all who wait
            if not client._live.is_set():
                client.give_up(completion)
        finally:
            self._sending.release()
        if self._unsent:
            self.wake()
        return True

    def _flush(self, data: bytes, read_timeout: float, timeout: float) -> None:
        """Send all of it. While the server accepts nothing, read its answers, because it may wait for that."""
        rest = memoryview(data)
        deadline = time.monotonic() + timeout
        with self._socket_error_handling():
            while rest:
                try:
                    rest = rest[self._socket.send(rest) :]
                    continue
                except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                    pass
                if time.monotonic() > deadline:
                    raise self.handler.timeout_exception("socket time-out during write")
                if self.handler.select([self._socket], [self._socket], [], 1.0)[0]:
                    self._read_socket(read_timeout)

    def _send_ping(self, connect_timeout: float) -> None:
        with self._sending:
            if self._unsent:  # the pipe has a byte, and the rest is sent now
                return
            self._pinged = time.monotonic()
            super()._send_ping(connect_timeout)

    # -- reading --

    def _read_socket(self, _read_timeout: float) -> Any:
        try:
            data = self._socket.recv(RECEIVE_BYTES)
            while getattr(self._socket, "pending", int)():  # TLS: poll does not report data that are decrypted already
                data += self._socket.recv(RECEIVE_BYTES)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return None
        if not data:
            raise ConnectionDropped("socket connection broken")
        if self._partial:
            self._partial.append(data)
            self._missing -= len(data)
            if self._missing > 0:
                return None
            data = b"".join(self._partial)
            self._partial = []
        result = self._split(data)
        if self._watched:
            self._watched = False
            self.client.events_over()
        return result

    def _split(self, data: bytes) -> Any:
        """Take every whole answer out of ``data``, and keep the beginning of the last."""
        offset, size, result = 0, len(data), None
        while size - offset >= 4:
            end = offset + 4 + _LENGTH.unpack_from(data, offset)[0]
            if end > size:
                self._partial, self._missing = [data[offset:]], end - size
                return result
            xid, zxid, error = _REPLY.unpack_from(data, offset + 4)
            if xid == WATCH_XID:  # most of them are such: each write of others comes as several
                if data.count(b"/", offset + _PATH, end) <= self.client.most_slashes:
                    self._read_event(data, offset, end)
            elif self._take(data, offset + _BODY, xid, zxid, error) is CLOSE_RESPONSE:
                result = CLOSE_RESPONSE
            offset = end
        if offset < size:
            self._partial, self._missing = [data[offset:]], 4 - (size - offset)
        return result

    def _take(self, data: bytes, offset: int, xid: int, zxid: int, error: int) -> Any:
        """Take the answer with this header; its body begins at the offset."""
        if xid == PING_XID:
            self.proven = self._pinged
            self.ping_outstanding.clear()
        elif xid == AUTH_XID:
            self._take_auth(error)
        else:
            while self._sent and self._sent[0][0] <= xid:
                self.proven = self._sent.popleft()[1]
            return self._read_response(ReplyHeader(xid, zxid, error), data, offset)
        return None

    def _take_auth(self, error: int) -> None:
        _, completion, _ = self.client._pending.popleft()
        if error:
            completion.set_exception(AuthFailedError())
            self.client._session_callback(KeeperState.AUTH_FAILED)
        else:
            completion.set(True)

    def _read_response(self, header: ReplyHeader, buffer: bytes, offset: int) -> Any:
        pending = self.client._pending
        if not pending or not isinstance(pending[0][0], Raw):
            return super()._read_response(header, buffer, offset)
        _, completion, expected = pending.popleft()
        if header.zxid > 0:
            self.client.last_zxid = header.zxid
        if header.xid != expected:
            error = ConnectionDropped(f"answer {header.xid} came where {expected} was due")
            completion.set_exception(ConnectionLoss())
            raise error
        if header.err:
            completion.set_exception(EXCEPTIONS[header.err]())
        else:
            completion.set(Reply(buffer, offset, header.zxid))
        return None

    def _read_event(self, buffer: bytes, offset: int, end: int) -> None:
        """Tell of the event of a watch; by hand, because kazoo makes an object of each."""
        number, client = _LENGTH.unpack_from(buffer, offset + _BODY)[0], self.client
        path = buffer[offset + _PATH : end].decode()  # empty in an event of the session
        kind = _KINDS.get(number)
        if kind is not None:
            self._watched = True
            client.wake_watchers(kind, path)
        if path in client._data_watchers or path in client._child_watchers:
            super()._read_watch_event(buffer, offset + _BODY)


class Client(KazooClient):  # type: ignore[misc]
    """A KazooClient over ``Connection``.

    ``connected_again`` is called when a connection is up and authenticated, before any request goes out on it.
    ``connection_gone`` is called when it ended, before any request is told so. Both run on the connection's thread:
    they must not block.
    """

    def __init__(
        self, *, connected_again: Callable[[], None], connection_gone: Callable[[], None], **kwargs: Any
    ) -> None:
        self.connected_again = connected_again
        self.connection_gone = connection_gone
        super().__init__(handler=Handler(), logger=log, **kwargs)
        self.watchers: dict[str, Watcher] = {}  # by the path, with the chroot, that is watched with all below it
        self.most_slashes = float("inf")  # in a path that concerns a watcher; kazoo's own watches may have no more
        self._watching = threading.Lock()  # held while both change
        self._connection = Connection(
            self, self._conn_retry.copy(), logger=log, sasl_options=kwargs.get("sasl_options")
        )

    def give_up(self, completion: Completion) -> None:
        """Tell that a request may have been sent, and that no answer comes; unless that was told already."""
        for item in list(self._pending):
            if item[1] is completion:
                with contextlib.suppress(ValueError):
                    self._pending.remove(item)
                    completion.set_exception(ConnectionLoss())

    def submit_now(self, request: Raw, completion: Completion) -> None:
        """As ``submit``, for a thread that does not wait for the answer."""
        if not self._connection.send_now(request, completion):
            self.submit(request, completion)

    def submit(self, request: Raw, completion: PendingAnswer | Completion, first: bool = False) -> None:
        """Queue a request; ``first`` puts it before all that wait already."""
        queue, item = self._queue, (request, completion)
        if first:
            queue.appendleft(item)
        else:
            queue.append(item)
        self._connection.wake()
        if not self._live.is_set():  # looked at after the append: either we see it, or _notify_pending sees the item
            self._refuse(queue, item)

    def _call(self, request: Any, async_object: Any) -> bool | None:
        if self._state in (KeeperState.AUTH_FAILED, KeeperState.CLOSED, KeeperState.EXPIRED_SESSION):
            answer: bool | None = super()._call(request, async_object)
            return answer
        self.submit(request, async_object)
        return None

    def _refuse(self, queue: deque[Any], item: Any) -> None:
        while True:
            try:
                queue.remove(item)
            except ValueError:
                return  # sent, or refused by another
            except IndexError:
                continue  # the connection's thread took one meanwhile
            item[1].set_exception(NotSent())
            return

    def _session_callback(self, state: Any) -> None:
        if state not in (KeeperState.CONNECTED, KeeperState.CONNECTED_RO):
            self.connection_gone()
        super()._session_callback(state)

    def _notify_pending(self, state: Any) -> None:
        while state != KeeperState.AUTH_FAILED and self._queue:
            try:
                _, completion = self._queue.popleft()
            except IndexError:
                break
            if completion is not None:
                completion.set_exception(NotSent())
        super()._notify_pending(state)

    def watch(self, root: str, watcher: Watcher) -> None:
        """Add a watcher, or put it in the place of the former one; from any thread."""
        with self._watching:
            self.watchers[root] = watcher
            self.most_slashes = max(each.most_slashes for each in self.watchers.values())

    def wake_watchers(self, kind: str, path: str) -> None:
        """Call the watchers of this path and of each path above it."""
        for root, watcher in list(self.watchers.items()):  # another thread may begin to watch
            if path.startswith(root) and (len(path) == len(root) or root == "/" or path[len(root)] == "/"):
                if path.count("/") > watcher.most_slashes:
                    continue
                try:
                    watcher.wake(kind, path[len(self.chroot) :] or "/")
                except Exception:
                    log.exception("a watcher of %s failed", root)

    def events_over(self) -> None:
        """The events that came at once were given to the watchers."""
        for root, watcher in list(self.watchers.items()):
            if watcher.over is None:
                continue
            try:
                watcher.over()
            except Exception:
                log.exception("the end of events below %s failed", root)
