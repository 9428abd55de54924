"""kazoo's connection loop, with a heartbeat that leaves a late server for another one.

A frozen server accepts connections and answers nothing. kazoo notices this after two thirds of the session's time-out.
While requests are sent, it does not notice, because each request counts as a ping. It also waits for a third of the
session's time-out at every address that accepts.

Here a server is late if it owes an answer and has sent nothing for ``late_seconds``. The answer may be that to a ping,
to a request, or to the connecting. Then the next address is tried, the late one last.

With a single address, the server gets half of the session's time-out, because there is no other server to try.

A server closes the connection of a client that has seen newer transactions than itself. One that lags catches up. After a restore
from an older copy all servers do this until their numbers have grown, so a session that ``renews`` is given up after a while.
"""

from __future__ import annotations

import random
import time
from typing import Any, Final

import msgspec
from kazoo.exceptions import AuthFailedError, ConnectionDropped, SessionExpiredError
from kazoo.protocol.connection import CLOSE_RESPONSE, STOP_CONNECTING, ConnectionHandler
from kazoo.protocol.states import KeeperState
from kazoo.retry import KazooRetry

from nodepool_ocb.store.client import diagnosis

LATE_SERVER_SECONDS: Final = 60.0  # that a late server is tried after the others
LATE_SHARE: Final = 8  # a server that was late twice is given 4/8 of the time, to begin with 2/8
LEAST_LATE_SECONDS: Final = 1.0  # a busy server needs as much
ROUND_SECONDS: Final = 0.2  # between two rounds through all addresses, but for the jitter
OPINIONS: Final = 2  # servers that say the session is over, before it is: one that was frozen is behind the times

Server = tuple[str, str, int]  # the host's name, its address, the port


class Timeouts(msgspec.Struct, frozen=True):
    """How long one server is waited for, in seconds."""

    ping: float  # that we say nothing, before we ask whether it is there
    late: float  # that it may owe an answer


def patience(session_seconds: float, addresses: int) -> Timeouts:
    """The time-outs for a session's time-out and a number of addresses.

    >>> patience(12.0, 3)
    Timeouts(ping=2.0, late=3.0)
    >>> patience(12.0, 1)
    Timeouts(ping=2.0, late=6.0)
    """
    half, quarter = session_seconds / 2, session_seconds / 4
    return Timeouts(session_seconds / 6, half if addresses < 2 else min(max(quarter, LEAST_LATE_SECONDS), half))


def rounds() -> KazooRetry:
    """When all addresses are tried again: for ever, each time after about ROUND_SECONDS.

    kazoo keeps the pause that its jitter made, and begins the next one from that: only a backoff brings it back to the bound.
    Without one the pauses shrink to nothing within a minute.
    """
    return KazooRetry(max_tries=-1, delay=ROUND_SECONDS, backoff=2, max_delay=ROUND_SECONDS)


class Beating(ConnectionHandler):  # type: ignore[misc]
    """The base of Connection: its loop, and the order in which addresses are tried."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._socket: Any = None
        self.addresses = 1  # that there are to connect to
        self._heard = 0.0  # when anything came from the server; monotonic, as all times here
        self._late_servers: dict[
            Server, tuple[int, float]
        ] = {}  # servers that were late: how often in a row, and when last
        self._answer_seconds = 0.0  # that the server may take which we connect to now
        self.renews = False  # give a session up that no server takes
        self._shut_out_since: float | None = None  # when servers began to close each new connection without an answer
        self._expiries: list[Server] = []  # servers in a row that said the session is over; one may stand there twice

    @property
    def owed_since(self) -> float | None:
        """When the oldest request was sent that is not answered yet; None where all are."""
        raise NotImplementedError

    @property
    def patience(self) -> Timeouts:
        """With any server."""
        return patience(self.client._session_timeout / 1000, self.addresses)

    def _expand_client_hosts(self) -> list[Server]:
        found: list[Server] = super()._expand_client_hosts()
        self.addresses = max(1, len(found))
        since = time.monotonic() - LATE_SERVER_SECONDS
        self._late_servers = {server: late for server, late in self._late_servers.items() if late[1] > since}
        return sorted(found, key=self._last)  # of those that are alike: by chance

    def _last(self, server: Server) -> tuple[bool, float]:
        """The sort key of a server. Servers that reported an expired session come last; before them late servers, the
        newest last.
        """
        return server in self._expiries, self._late_servers.get(server, (0, 0.0))[1]

    def _expect(self, server: Server) -> None:
        """Set the time that connecting to this server may take: shorter after it was late, and longer again with each
        failure.
        """
        late = self.patience.late
        times, _ = self._late_servers.get(server, (0, 0.0))
        self._answer_seconds = late * min(2**times, LATE_SHARE) / LATE_SHARE if times else late
        self.handler.connect_seconds = self._answer_seconds

    def _invoke(self, timeout: float, request: Any, xid: int | None = None) -> Any:
        return super()._invoke(min(timeout, self._answer_seconds), request, xid)

    def _connect_attempt(self, host: str, hostip: str, port: int, retry: Any) -> Any:
        """One connection from its making to its end; STOP_CONNECTING if no other must follow."""
        client = self.client
        self._socket = None
        self._expect((host, hostip, port))
        if client._state != KeeperState.CONNECTING:
            client._session_callback(KeeperState.CONNECTING)
        try:
            self._xid = 0
            read_ms, timeout_ms = self._connect(host, hostip, port)
            self._shut_out_since = None
            self._expiries.clear()
            self._late_servers.pop((host, hostip, port), None)
            retry.reset()
            self._converse(read_ms / 1000, timeout_ms / 1000)
            client._session_callback(KeeperState.CLOSED)
            return STOP_CONNECTING
        except AuthFailedError as refused:
            self.logger.warning("AUTH_FAILED closing: %s", refused)
            client._session_callback(KeeperState.AUTH_FAILED)
            return STOP_CONNECTING
        except SessionExpiredError:
            self._session_expired((host, hostip, port))
        except (ConnectionDropped, self.handler.timeout_exception) as error:
            self._dropped((host, hostip, port), error)
        except Exception:
            self.logger.exception("Unhandled exception in connection loop")
            raise
        finally:
            if self._socket is not None:
                self._socket.close()
        return None

    def _session_expired(self, server: Server) -> None:
        """A leader that was frozen ends sessions which live on at the others; so another server is asked, too."""
        self._expiries.append(server)
        if len(self._expiries) < OPINIONS and self.addresses > 1:
            self.logger.warning("Session has expired, says one server; asking another")
            return
        self._expiries.clear()
        self.logger.warning("Session has expired")
        self.client._session_callback(KeeperState.EXPIRED_SESSION)

    def _dropped(self, server: Server, error: Exception) -> None:
        if isinstance(error, self.handler.timeout_exception) or isinstance(diagnosis.cause_of(error), TimeoutError):
            self._late_servers[server] = self._late_servers.get(server, (0, 0.0))[0] + 1, time.monotonic()
        self.logger.warning("Connection dropped: %s", error)
        if self.client._state != KeeperState.CONNECTING:
            self.client._session_callback(KeeperState.CONNECTING)
        elif self.renews and diagnosis.cause_of(error) is error:
            self._shut_out()

    def _shut_out(self) -> None:
        """A server has closed a new connection; after half of the session's time-out the next one begins a new session.

        Some servers may lag, so another session may see older records than this one: its user must read with ``sync``.
        """
        now = time.monotonic()
        since = self._shut_out_since = self._shut_out_since or now
        if now - since > self.client._session_timeout / 2000:
            self.logger.warning("No server takes this session; beginning a new one")
            self._shut_out_since = None
            self.client._session_callback(KeeperState.EXPIRED_SESSION)

    def _converse(self, read_timeout: float, timeout: float) -> None:
        """Send and read until the server has taken leave; raises ConnectionDropped, or kazoo's time-out where it is late."""
        patience = self.patience
        timeout = min(timeout, patience.late)
        self.ping_outstanding.clear()
        self._heard = said = time.monotonic()
        pause = self._pause(patience)
        with self._socket_error_handling():
            while True:
                wait = self._rest(patience, said + pause)
                ready = self.handler.select([self._socket, self._read_sock], [], [], wait)[0]
                if self._socket in ready:
                    self._heard = time.monotonic()
                    if self._read_socket(read_timeout) is CLOSE_RESPONSE:
                        return
                elif self._late(patience):  # nothing waits to be read: else this process may be the late one
                    raise self.handler.timeout_exception(f"no answer within {patience.late:.1f} s")
                if self._read_sock in ready:
                    self._send_request(read_timeout, timeout)
                elif time.monotonic() < said + pause or self.ping_outstanding.is_set():
                    continue
                else:
                    self._send_ping(timeout)
                said, pause = time.monotonic(), self._pause(patience)

    def _rest(self, patience: Timeouts, ping_at: float) -> float:
        """Seconds until something has to be done, though nothing comes."""
        owed = self.owed_since
        times = [ping_at] if not self.ping_outstanding.is_set() else []
        times += [max(owed, self._heard) + patience.late] if owed is not None else []
        return max(0.001, min(times, default=ping_at) - time.monotonic())

    def _late(self, patience: Timeouts) -> bool:
        owed = self.owed_since
        return owed is not None and time.monotonic() - max(owed, self._heard) > patience.late

    @staticmethod
    def _pause(patience: Timeouts) -> float:
        """The seconds from the last request to the next ping; random, so that clients do not ping at the same time."""
        return patience.ping * random.uniform(0.8, 1.0)
