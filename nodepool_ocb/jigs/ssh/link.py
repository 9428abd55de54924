"""One authenticated connection to one machine, and the steps to it: resolve, connect, host key, authenticate.

Nothing here waits for ever: a link is dead when no answer has come to three keepalives in a row. A stopped sshd gives
none, although its kernel acknowledges every packet.
"""

from __future__ import annotations

import errno
import logging
import socket
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
from nodepool_ocb.documents import files
from nodepool_ocb.jigs.jig import Unreachable
from nodepool_ocb.jigs.ssh.addresses import parse
from nodepool_ocb.model.records import Node

KEEPALIVE_SECONDS: Final = 5.0
BANNER_BYTES: Final = 1 << 13  # up to and with the line in which SSH begins
BEFORE_LOGIN_BYTES: Final = 1 << 18  # from there to the login
PACKET_BYTES: Final = 1 << 20
UNASKED: Final = "that nobody asked for"
UNASKED_BYTES: Final = 1 << 23  # after the login: between two packets of output that a channel takes
WINDOW_BYTES: Final = 1 << 21  # that a channel may hold unread: what we tell the machine
WORDS_CHARACTERS: Final = 500  # of what the machine or a library says of a failure
OURS: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS})  # no fault of a machine
ENDED: Final = (paramiko.SSHException, EOFError, OSError)  # what paramiko raises when a connection is over
GLUED: Final = "Error reading SSH protocol banner"  # paramiko says this and the cause with nothing in between
HUNG_UP: Final = tuple(f"[Errno {number}]" for number in (errno.ECONNRESET, errno.EPIPE, errno.ECONNABORTED))
PUBLIC: Final = (
    b"ssh-",
    b"ecdsa-sha2-",
    b"sk-",
    b"---- BEGIN SSH2 PUBLIC",
    b"-----BEGIN PUBLIC",
)  # how such files begin
PUBLIC_BYTES: Final = 100
STEPS: Final = ("resolve", "connect", "host key", "authenticate", "run")

logging.getLogger("paramiko").setLevel(logging.CRITICAL)  # what it has to say is in our answers


class Broken(Exception):
    """The link or the channel ended under us: what was asked on it may have happened."""


class Lied(Broken):
    """The machine said what no runner says: asked again at once, it would again."""


class NoKey(Exception):
    """This host has no private key to log in with: that says nothing about any machine."""


class _Socket(socket.socket):
    """Acknowledges at once: sshd holds a second small packet back until the first is, which would take 40 ms.

    What it takes is bounded: paramiko's is not, neither the lines before SSH begins nor a packet, nor packets of no use.
    """

    def allow(self, size: int, what: str) -> None:
        """So many bytes may come from here on, before the next call."""
        self._allowance = self._left = size
        self._what = what

    def recv(self, size: int, flags: int = 0, /) -> bytes:
        if size > PACKET_BYTES:
            raise paramiko.SSHException(f"it sends a packet of {size} bytes, which is no SSH")
        data = super().recv(size, flags)
        self._left -= len(data)
        if self._left < 0:
            raise paramiko.SSHException(f"it sends more than {self._allowance} bytes {self._what}, which is no SSH")
        self.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)  # it wears off
        return data


class _Transport(paramiko.Transport):
    """Paramiko's, with the cheap algorithms first, the dear ones out, and an ear for answers to keepalives.

    What a channel holds is bounded by the window that the machine was told, whether it keeps to it or not.
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

    def __init__(self, sock: _Socket) -> None:
        super().__init__(sock, default_window_size=WINDOW_BYTES)
        self._channel_handler_table = self._channel_handler_table | {  # type: ignore[has-type]
            MSG_CHANNEL_DATA: _feed,
            MSG_CHANNEL_EXTENDED_DATA: _feed_extended,
        }
        self.allow = sock.allow
        self.heard = time.monotonic()
        for answer in (MSG_REQUEST_SUCCESS, MSG_REQUEST_FAILURE):
            self._handler_table[answer] = self._hear  # type: ignore[attr-defined]

    def _check_banner(self) -> None:
        super()._check_banner()  # type: ignore[misc]
        self.allow(BEFORE_LOGIN_BYTES, "before the login")

    def _hear(self, _: paramiko.Message) -> None:
        self.heard = time.monotonic()

    def get_exception(self) -> Exception | None:
        """What ended the connection: whatever its thread stumbles over comes of what the machine sent."""
        error: Exception | None = super().get_exception()
        if error is None or isinstance(error, (*ENDED, MemoryError)):
            return error
        return paramiko.SSHException(f"it sends what is no SSH: {_words(error)}")

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


def shut(channel: paramiko.Channel) -> None:
    """Close it; what runs on the machine goes on."""
    with suppress(*ENDED):
        channel.close()


class Link:
    """A connection that is logged in. Made by ``connect``; used by many threads, each on channels of its own."""

    def __init__(self, fqdn: str, node: Node, transport: _Transport, keepalive_seconds: float) -> None:
        self.fqdn = fqdn
        self.login = (node.user, node.addresses)  # that it was made with
        self.users = 0  # who hold it now; guarded by the pool
        self.used = time.monotonic()
        self.idle: list[Any] = []  # channels with a runner that waits for an order; append and pop are atomic
        self._transport = transport
        self._silence_seconds = 3 * keepalive_seconds

    @property
    def host_key(self) -> str:
        """As in known_hosts, without the name."""
        return _text(self._transport.get_remote_server_key())

    @property
    def alive(self) -> bool:
        """Whether it is open, and the other side has answered lately."""
        return self._transport.is_active() and time.monotonic() - self._transport.heard < self._silence_seconds

    @property
    def fault(self) -> str:
        """Why the connection ended, where it did not just end; empty while it is open."""
        error = self._transport.saved_exception
        return _words(error) if error is not None and not isinstance(error, EOFError) else ""

    def heard(self) -> None:
        """Something came on a channel: that is an answer too."""
        self._transport.heard = time.monotonic()

    def channel(self, command: str, timeout_seconds: float) -> paramiko.Channel:
        """A new channel on which the command runs, stderr in stdout; raises Broken."""
        self._transport.allow(UNASKED_BYTES, UNASKED)
        try:
            channel = self._transport.open_session(timeout=timeout_seconds)
            channel.set_combine_stderr(True)
            channel.settimeout(timeout_seconds)
            channel.exec_command(command)
        except ENDED as error:
            raise Broken(f"no new channel: {_words(error)}") from error
        return channel

    def close(self) -> None:
        """At once; what it started on the machine goes on."""
        self._transport.sock.close()
        self._transport.close()


def connect(
    fqdn: str, node: Node, settings: SshSettings, keys: Sequence[paramiko.PKey], pinned: Sequence[str]
) -> Link | Unreachable:
    """Log in at the first of the node's addresses that lets us; else what went wrong at the one that came furthest.

    Raises OSError for what this host lacks: open files, memory.
    """
    worst: Unreachable | None = None
    for address in node.addresses or (fqdn,):
        answer = _connect(fqdn, node, address, settings, keys, pinned)
        if isinstance(answer, Link):
            return answer
        if worst is None or STEPS.index(answer.step) > STEPS.index(worst.step):
            worst = answer
    assert worst is not None, "there is always an address"
    return worst


def _connect(
    fqdn: str, node: Node, address: str, settings: SshSettings, keys: Sequence[paramiko.PKey], pinned: Sequence[str]
) -> Link | Unreachable:
    timeout = settings.connect_timeout_seconds
    try:
        addresses = socket.getaddrinfo(*parse(address), type=socket.SOCK_STREAM)
    except (ValueError, OSError) as error:
        return Unreachable("resolve", f"{address}: {_words(error)}")
    try:
        sock = _socket(addresses, timeout)
        transport = _Transport(sock)
    except OSError as error:
        if error.errno in OURS:
            raise
        return Unreachable("connect", f"{address}: {_words(error)}")
    answer = _log_in(transport, node.user, address, settings, keys, pinned)
    if answer is not None:
        transport.sock.close()
        transport.close()
        return answer
    sock.allow(UNASKED_BYTES, UNASKED)
    keepalive = min(KEEPALIVE_SECONDS, timeout / 2)
    transport.packetizer.set_keepalive(keepalive, transport.ask_keepalive)
    transport.sock.settimeout(min(1.0, keepalive / 2))
    transport.heard = time.monotonic()
    return Link(fqdn, node, transport, keepalive)


def _socket(addresses: Sequence[tuple[Any, ...]], timeout_seconds: float) -> _Socket:
    """Connected to the first address that takes us; raises the last OSError."""
    failure: OSError | None = None
    for family, kind, protocol, _, address in addresses:
        sock = _Socket(family, kind, protocol)
        try:
            sock.settimeout(timeout_seconds)
            sock.allow(BANNER_BYTES, "before SSH begins")
            sock.connect(address)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            dead_ms = int(3000 * min(KEEPALIVE_SECONDS, timeout_seconds))
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, dead_ms)
            return sock
        except OSError as error:
            sock.close()
            failure = error
    raise failure or OSError("no address")


def _log_in(
    transport: _Transport,
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
        return Unreachable("connect", said)
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


def _authenticate(transport: _Transport, user: str, keys: Sequence[paramiko.PKey]) -> str | None:
    """Why it lets none of them in; None where it does."""
    reason = ""
    for key in keys:
        try:
            if not transport.auth_publickey(user, key):
                return None
            reason = "it wants more than a key"
        except ENDED as error:
            reason = _words(error)
    return reason


def load_keys(settings: SshSettings) -> list[paramiko.PKey]:
    """The private keys of the files that exist; raises NoKey where none does, or one cannot be read."""
    found = []
    for name in settings.key_files:
        path = Path(name).expanduser()
        try:
            if path.exists():
                files.require(path)
                found.append(paramiko.PKey.from_path(path))
        except (paramiko.SSHException, ValueError, TypeError, OSError) as error:
            raise NoKey(f"ssh.key_files: key file {name} {_no_key(path, error)}") from error
    if not found:
        raise NoKey(f"ssh.key_files: none of the key files exists: {', '.join(settings.key_files)}")
    return found


def _no_key(path: Path, error: Exception) -> str:
    """Why a file is no key to log in with, and what to do."""
    if isinstance(error, IsADirectoryError):
        return "is a folder; name a private key in it"
    if isinstance(error, TypeError | paramiko.PasswordRequiredException):  # cryptography raises the first
        return "has a passphrase, and nobody is there to type it: use a key without one"
    if isinstance(error, OSError):
        return f"cannot be read: {_words(error)}"
    with suppress(OSError):  # it was there a moment ago
        if files.read(path, PUBLIC_BYTES).lstrip().startswith(PUBLIC):
            other = f"without .pub, {path.with_suffix('')}" if path.suffix == ".pub" else "with the private half"
            return f"is the public half: name the file {other}"
    return f"holds no private key that can be used: {_words(error)}"


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
    return "it hangs up" if hung_up else _words(error)


def _words(error: BaseException) -> str:
    said = str(getattr(error, "strerror", None) or str(error) or type(error).__name__)
    if said.startswith(GLUED) and said != GLUED:
        said = f"{GLUED}: {said.removeprefix(GLUED)}"
    return said[:WORDS_CHARACTERS]
