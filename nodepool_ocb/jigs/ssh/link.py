"""One authenticated connection to one machine, and the steps to it: resolve, connect, host key, authenticate.

Nothing here waits for ever: a link is dead when no answer has come to three keepalives in a row. A stopped sshd gives
none, although its kernel acknowledges every packet.
"""

from __future__ import annotations

import errno
import logging
import shlex
import socket
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import paramiko
from paramiko.common import (
    MSG_CHANNEL_DATA,
    MSG_CHANNEL_EXTENDED_DATA,
    MSG_REQUEST_FAILURE,
    MSG_REQUEST_SUCCESS,
    cMSG_GLOBAL_REQUEST,
)

from nodepool_ocb.config import SshSettings
from nodepool_ocb.jigs.jig import Party, Unreachable
from nodepool_ocb.jigs.ssh.addresses import parse
from nodepool_ocb.jigs.ssh.faults import GLUED, OwnFault, of_connection, of_resolver, words
from nodepool_ocb.jigs.ssh.sockets import KEEPALIVE_SECONDS, Socket, Unconnected, connected
from nodepool_ocb.model.records import Node

BANNER_BYTES: Final = 1 << 13  # up to and with the line in which SSH begins
BEFORE_LOGIN_BYTES: Final = 1 << 18  # from there to the login
HOST_KEY_CHARACTERS: Final = 1 << 13  # twice the length of an RSA key of 16,384 bits
UNASKED: Final = "that were not requested"
UNASKED_BYTES: Final = 1 << 23  # after the login: between two packets of output that a channel takes
WINDOW_BYTES: Final = 1 << 21  # that a channel may hold unread; the machine is told this number
ENDED: Final = (paramiko.SSHException, EOFError, OSError)  # the exceptions of paramiko when a connection is over
HUNG_UP: Final = tuple(f"[Errno {number}]" for number in (errno.ECONNRESET, errno.EPIPE, errno.ECONNABORTED))
HOST_KEY_KINDS: Final = (
    "ssh-ed25519", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521", "ssh-rsa"
)  # fmt: skip
STEPS: Final = ("resolve", "connect", "host key", "authenticate", "run")

logging.getLogger("paramiko").setLevel(logging.CRITICAL)  # our answers have its messages


class Broken(Exception):
    """The link or the channel ended under us: a request on it may have been carried out. ``party``: at fault, never OWN."""

    def __init__(self, said: str, party: Party = Party.MACHINE) -> None:
        super().__init__(said)
        self.party = party

    @property
    def unreachable(self) -> Unreachable:
        """The same as an outcome."""
        return Unreachable("run", str(self), party=self.party)


class Lied(Broken):
    """The machine sent an answer that no runner sends. An immediate repetition would get the same."""


class MachineTransport(paramiko.Transport):
    """Paramiko's transport, with cheap algorithms first, without expensive ones, and with a handler for answers to
    keepalives.

    The unread bytes of a channel are bounded by the window that the machine was told, also if the machine exceeds it.
    """

    _preferred_keys: tuple[str, ...] = ("ssh-ed25519", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384",
                                        "ecdsa-sha2-nistp521", "rsa-sha2-512", "rsa-sha2-256")  # fmt: skip
    _preferred_kex = ("curve25519-sha256@libssh.org", "ecdh-sha2-nistp256", "mlkem768x25519-sha256",
                      "ecdh-sha2-nistp384", "ecdh-sha2-nistp521", "diffie-hellman-group14-sha256")  # fmt: skip
    _preferred_ciphers = ("aes128-gcm@openssh.com", "aes256-gcm@openssh.com", "aes128-ctr", "aes192-ctr", "aes256-ctr")
    _preferred_macs = (
        "hmac-sha2-256-etm@openssh.com",
        "hmac-sha2-512-etm@openssh.com",
        "hmac-sha2-256",
        "hmac-sha2-512",
    )
    _active_check_timeout = 1.0  # how often an idle thread wakes; 0.1 cost 5 % of a core for 200 of them

    def __init__(self, sock: Socket) -> None:
        super().__init__(sock, default_window_size=WINDOW_BYTES)
        self._channel_handler_table = self._channel_handler_table | {  # type: ignore[has-type]
            MSG_CHANNEL_DATA: _feed,
            MSG_CHANNEL_EXTENDED_DATA: _feed_extended,
        }
        self.allow = sock.allow
        self.heard = time.monotonic()
        self.answered = threading.Event()
        self.offered: tuple[str, ...] = ()  # the kinds of the machine's host keys, once it has told them
        for answer in (MSG_REQUEST_SUCCESS, MSG_REQUEST_FAILURE):
            self._handler_table[answer] = self._hear  # type: ignore[attr-defined]

    def _check_banner(self) -> None:
        super()._check_banner()  # type: ignore[misc]
        self.allow(BEFORE_LOGIN_BYTES, "before the login")

    def _hear(self, _: paramiko.Message) -> None:
        self.heard = time.monotonic()
        self.answered.set()

    def _really_parse_kex_init(self, m: paramiko.Message, ignore_first_byte: bool = False) -> dict[str, Any]:
        parsed: dict[str, Any] = super()._really_parse_kex_init(m, ignore_first_byte)  # type: ignore[misc]
        kinds = {_kind(algorithm) for algorithm in parsed["server_key_algo_list"]}
        self.offered = tuple(kind for kind in HOST_KEY_KINDS if kind in kinds)
        return parsed

    def get_exception(self) -> Exception | None:
        """The cause that ended the connection: a fault of this host, or else the machine's message."""
        error: Exception | None = super().get_exception()
        if error is None or isinstance(error, OwnFault):
            return error
        if of_connection(error) is Party.OWN:
            return OwnFault("connect", words(error))
        return error if isinstance(error, ENDED) else paramiko.SSHException(f"it sends no valid SSH: {words(error)}")

    def ask_keepalive(self) -> None:
        """On the transport's own thread: ask for an answer, and do not wait for it."""
        message = paramiko.Message()
        message.add_byte(cMSG_GLOBAL_REQUEST)
        message.add_string("keepalive@nodepool-ocb")
        message.add_boolean(True)
        self._send_user_message(message)  # type: ignore[attr-defined]

    def prefer_keys(self, kinds: Sequence[str]) -> None:
        """Ask for host keys of these kinds alone: those that are pinned."""
        wanted = [kind for kind in self._preferred_keys if _kind(kind) in kinds]
        if wanted:
            self._preferred_keys = tuple(wanted)


def _kind(algorithm: str) -> str:
    return "ssh-rsa" if algorithm.startswith("rsa-sha2-") else algorithm


def _feed(channel: paramiko.Channel, message: Any) -> None:
    """Output for a channel, which is asked for; a packet that holds nothing is not."""
    _hold(channel)
    data = message.get_binary()
    paramiko.Channel._feed(channel, data)  # type: ignore[attr-defined]
    if data:
        transport: Any = channel.transport
        transport.allow(UNASKED_BYTES, UNASKED)


def _feed_extended(channel: paramiko.Channel, message: Any) -> None:
    _hold(channel)
    paramiko.Channel._feed_extended(channel, message)  # type: ignore[attr-defined]


def _hold(channel: paramiko.Channel) -> None:
    """Raises SSHException, which ends the connection, where the channel holds more than its window."""
    if len(channel.in_buffer) > WINDOW_BYTES:
        raise paramiko.SSHException(f"it sends more than the {WINDOW_BYTES} bytes that a channel takes unread")


def as_root(command: str, become: str) -> str:
    """A command line that runs a command as root: directly if the login is root, else through ``become``."""
    way = f'if [ "$(id -u)" = 0 ]; then exec sh -c "$1"; else exec {become} sh -c "$1"; fi'
    return f"exec sh -c {shlex.quote(way)} sh {shlex.quote(command)}"


def shut(channel: paramiko.Channel) -> None:
    """Close the channel; processes on the machine continue."""
    with suppress(*ENDED):
        channel.close()


class Link:
    """A connection that is logged in. Made by ``connect``; used by many threads, each on channels of its own."""

    def __init__(
        self, fqdn: str, node: Node, transport: MachineTransport, keepalive_seconds: float, become: str | None = None
    ) -> None:
        self.fqdn = fqdn
        self.login = (node.user, node.addresses)  # that it was made with
        self.users = 0  # that hold it now; guarded by the pool
        self.fresh = True  # made for the one that took it last
        self.used = time.monotonic()
        self.idle: list[Any] = []  # channels with a runner that waits for an order; append and pop are atomic
        self.round_trip_seconds = (
            0.0  # the shortest that was measured, with the start of a process in it; 0 before that
        )
        self._transport, self._become = transport, become
        self._key: paramiko.PKey | None = None  # that ``_key_text`` shows
        self._key_text = ""
        self._silence_seconds = 3 * keepalive_seconds

    @property
    def host_key(self) -> str:
        """The host key as in known_hosts, without the name."""
        key = self._transport.get_remote_server_key()  # another object after each exchange of keys
        if key is not self._key:
            self._key, self._key_text = key, _text(key)
        return self._key_text

    @property
    def alive(self) -> bool:
        """Whether it is open, and the other side has answered lately."""
        return self._transport.is_active() and time.monotonic() - self._transport.heard < self._silence_seconds

    @property
    def fault(self) -> str:
        """Why the connection ended, where it did not just end; empty while it is open."""
        error = self._transport.saved_exception
        return words(error) if error is not None and not isinstance(error, EOFError) else ""

    def broken(self, said: str, error: BaseException | None = None) -> Broken | OwnFault:
        """The exception to raise where the connection has ended; ``error``: the library's exception for it."""
        cause = self._transport.saved_exception or error
        silent = self._transport.is_active() and not self.alive
        party = Party.PATH if silent else of_connection(cause) if cause is not None else Party.MACHINE
        return OwnFault("run", said) if party is Party.OWN else Broken(said, party)

    def heard(self) -> None:
        """Something came on a channel: that is an answer too."""
        self._transport.heard = time.monotonic()

    def _answered_in(self, seconds: float) -> None:
        """Note the time of a question and its answer."""
        self.round_trip_seconds = min(self.round_trip_seconds or seconds, seconds)

    def answers(self, timeout_seconds: float) -> bool:
        """Whether the machine answers a keepalive that is sent now."""
        self._transport.answered.clear()
        try:
            self._transport.ask_keepalive()
        except ENDED:
            return False
        return self._transport.answered.wait(timeout_seconds) and self._transport.is_active()

    def channel(self, command: str, timeout_seconds: float) -> paramiko.Channel:
        """A new channel on which the command runs, stderr in stdout; raises Broken or OwnFault."""
        self._transport.allow(UNASKED_BYTES, UNASKED)
        try:
            channel = self._transport.open_session(timeout=timeout_seconds)
            channel.set_combine_stderr(True)
            channel.settimeout(timeout_seconds)
            asked = time.monotonic()
            channel.exec_command(as_root(command, self._become) if self._become else command)
            self._answered_in(time.monotonic() - asked)
        except ENDED as error:
            raise self.broken(f"no new channel: {words(error)}", error) from error
        return channel

    def close(self) -> None:
        """Close the connection without waiting; processes on the machine continue."""
        self._transport.sock.close()
        self._transport.close()


def connect(
    fqdn: str, node: Node, settings: SshSettings, keys: Sequence[paramiko.PKey], pinned: Sequence[str]
) -> Link | Unreachable:
    """Log in at the first of the node's addresses that lets us; else the error of the one that came furthest.

    The word of the machine counts before a fault of the path. Raises OwnFault where no address tells anything of the machine.
    """
    failures: list[Unreachable] = []
    own: OwnFault | None = None
    for address in node.addresses or (fqdn,):
        try:
            answer = _connect(fqdn, node, address, settings, keys, pinned)
        except OwnFault as fault:
            own = own or fault
            continue
        if isinstance(answer, Link):
            return answer
        failures.append(answer)
    if not failures:
        assert own is not None, "there is always an address"
        raise own
    return max(failures, key=lambda each: (each.party is Party.MACHINE, STEPS.index(each.step)))


def _connect(
    fqdn: str, node: Node, address: str, settings: SshSettings, keys: Sequence[paramiko.PKey], pinned: Sequence[str]
) -> Link | Unreachable:
    timeout = settings.connect_timeout_seconds
    try:
        addresses = socket.getaddrinfo(*parse(address), type=socket.SOCK_STREAM)
    except (ValueError, OSError) as error:
        return _failed("resolve", address, error, of_resolver(error, node.alive))
    sock = connected(addresses, timeout, BANNER_BYTES)
    if isinstance(sock, Unconnected):
        return _failed("connect", address, sock.error, sock.party)
    transport: MachineTransport | None = None
    try:
        transport = MachineTransport(sock)
        answer = _log_in(transport, node.user, address, settings, keys, pinned)
    except Exception as error:
        _close(sock, transport)
        party = of_connection(error)
        if isinstance(error, OwnFault) or not (isinstance(error, OSError) or party is Party.OWN):
            raise
        return _failed("connect", address, error, party)
    if answer is not None:
        _close(sock, transport)
        return answer
    sock.allow(UNASKED_BYTES, UNASKED)
    keepalive = min(KEEPALIVE_SECONDS, timeout / 2)
    transport.packetizer.set_keepalive(keepalive, transport.ask_keepalive)
    transport.sock.settimeout(min(1.0, keepalive / 2))
    transport.heard = time.monotonic()
    return Link(fqdn, node, transport, keepalive, settings.become)


def _close(sock: Socket, transport: MachineTransport | None) -> None:
    sock.close()
    if transport is not None:
        transport.close()


def _failed(step: str, address: str, error: BaseException, party: Party) -> Unreachable:
    """Raises OwnFault, in the same words for every address: each other sentence is written for all to read."""
    if party is Party.OWN:
        raise OwnFault(step, words(error)) from error
    return Unreachable(step, f"{address}: {words(error)}", party=party)


def _log_in(
    transport: MachineTransport,
    user: str,
    address: str,
    settings: SshSettings,
    keys: Sequence[paramiko.PKey],
    pinned: Sequence[str],
) -> Unreachable | None:
    timeout = settings.connect_timeout_seconds
    transport.banner_timeout = transport.handshake_timeout = transport.auth_timeout = timeout
    transport.prefer_keys([key.split(" ")[0] for key in pinned])
    try:
        transport.start_client(timeout=timeout)
        offered = _text(transport.get_remote_server_key())
    except ENDED as error:
        said = f"{address}: something listens, and does not speak SSH with us; see the machine's sshd: {_how_it_ended(error)}"
        return Unreachable("connect", said, party=_accused(error))
    if len(offered) > HOST_KEY_CHARACTERS:
        said = f"{address}: it offers a host key of {len(offered)} characters, and none has more than {HOST_KEY_CHARACTERS}"
        return Unreachable("host key", said)
    if not pinned and settings.first_contact == "refuse":
        return Unreachable("host key", f"{address}: no host key is pinned; it offers {offered}: compare and pin it")
    if pinned and offered not in {" ".join(key.split(" ")[:2]) for key in pinned}:
        return Unreachable("host key", f"{address}: it offers {offered}, which is not the pinned key")
    refusal = _authenticate(transport, user, keys)
    if refusal is None:
        return None
    offered = ", ".join(name for name in settings.key_files if Path(name).expanduser().exists())
    said = f"{address}: as {user}: {refusal.rstrip('.')}; offered: {offered}; see that user's authorized_keys"
    return Unreachable("authenticate", said)


def _authenticate(transport: MachineTransport, user: str, keys: Sequence[paramiko.PKey]) -> str | None:
    """Why it lets none of them in; None where it does."""
    reason = ""
    for key in keys:
        try:
            if not transport.auth_publickey(user, key):
                return None
            reason = "it wants more than a key"
        except ENDED as error:
            _accused(error)
            reason = words(error)
    return reason


def _accused(error: BaseException) -> Party:
    """The party at fault; raises OwnFault for this host."""
    party = of_connection(error)
    if party is Party.OWN:
        raise OwnFault("connect", words(error)) from error
    return party


def _text(key: paramiko.PKey) -> str:
    return f"{key.get_name()} {key.get_base64()}"


def _how_it_ended(error: BaseException) -> str:
    """The same words however the far side hangs up: a reason that changed with every probe would be written with each.

    >>> _how_it_ended(EOFError()), _how_it_ended(paramiko.SSHException(GLUED + "[Errno 104] Connection reset by peer"))
    ('it hangs up', 'it hangs up')
    >>> _how_it_ended(paramiko.SSHException(GLUED + "it sends more than 8192 bytes before SSH begins"))
    'Error reading SSH protocol banner: it sends more than 8192 bytes before SSH begins'
    """
    cause = str(error).removeprefix(GLUED)
    hung_up = isinstance(error, EOFError | ConnectionError) or not cause or cause.startswith(HUNG_UP)
    return "it hangs up" if hung_up else words(error)
