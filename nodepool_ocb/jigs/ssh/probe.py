"""Whether a machine answers: to a ping if that is configured, by a connection, and by printing a word that we send.

A shell may print more before that, as a runner's may.
"""

from __future__ import annotations

import logging
import secrets
import shlex
import time
from contextlib import suppress
from typing import Final

import msgspec
import paramiko

from nodepool_ocb.config import SshSettings
from nodepool_ocb.jigs.jig import Party, Unreachable
from nodepool_ocb.jigs.ssh import addresses, ping
from nodepool_ocb.jigs.ssh.faults import WORDS_CHARACTERS, OwnFault
from nodepool_ocb.jigs.ssh.keys import NoKey, load_keys
from nodepool_ocb.jigs.ssh.link import ENDED, Broken, Link, shut
from nodepool_ocb.jigs.ssh.pool import pool
from nodepool_ocb.jigs.ssh.protocol import LOGIN_WAYS
from nodepool_ocb.model.records import Node

log = logging.getLogger(__name__)

SAID_BYTES: Final = 1 << 16
UNWRITABLE: Final = 71
#: Ends with UNWRITABLE where the runner could not keep its state in the directory $1. It makes nothing.
WRITABLE: Final = (
    "sh -c '"
    'p=$1/runs; case $p in "~/"*) p=$HOME/${p#"~/"};; esac; '
    'while ! [ -e "$p" ] && [ -n "$p" ]; do p=${p%/*}; done; p=${p:-/}; '
    f'[ -d "$p" ] && [ -w "$p" ] && [ -x "$p" ] || exit {UNWRITABLE}'
    "' sh"
)

__all__ = ["Alive", "NoKey", "OwnFault", "Prober", "Unreachable"]


class Alive(msgspec.Struct, frozen=True):
    """The machine accepted the login. ``host_key``: the key to pin, if none was pinned; else None.

    ``fresh``: over a connection that was made for this probe.
    """

    host_key: str | None = None
    fresh: bool = True


class Prober:
    """Probes machines, through the same connections that the jigs use."""

    def __init__(self, settings: SshSettings) -> None:
        self._pool = pool(settings)
        self._warned = False  # that this host may not ping

    @property
    def has_keys(self) -> bool:
        """Whether private keys have been read."""
        return self._pool.has_keys

    def load_keys(self, settings: SshSettings) -> None:
        """Raises NoKey where none of the key files can be used now."""
        load_keys(settings)

    def configure(self, settings: SshSettings) -> None:
        """Use these settings and the present key files for probes from now on."""
        self._pool.configure(settings)

    def lacks(self) -> str | None:
        """The reason why this host cannot connect to any machine; None if it has a key."""
        try:
            load_keys(self._pool.settings)
        except NoKey as lacking:
            return str(lacking)
        return None

    def forget_keys(self) -> None:
        """Read the key files anew before the next connection is made."""
        self._pool.forget_keys()

    def probe(self, fqdn: str, node: Node, anew: bool = False) -> Alive | Unreachable:
        """Takes at most some three times the connection's time-out for each address; ``anew``: over a new connection.

        Raises OwnFault where this host fails.
        """
        if self._pool.settings.ping and not self._pinged(node):
            return Unreachable("ping", f"no answer within {ping.TIMEOUT_SECONDS:g} s", begun=False, party=Party.PATH)
        answer = self._pool.take(fqdn, node, anew)
        if isinstance(answer, Unreachable):
            return answer
        fresh = answer.fresh
        try:
            failure = self._word(answer)
        finally:
            self._pool.give_back(answer)
        if failure is not None:
            return failure
        return Alive(None if node.host_keys else answer.host_key, fresh)

    def _pinged(self, node: Node) -> bool:
        """Whether it answers; as if it did where this host cannot ask, and that is logged once."""
        try:
            return ping.answers([addresses.parse(each)[0] for each in node.addresses])
        except ping.NotAllowed as lacking:
            if not self._warned:
                self._warned = True
                log.warning("machines are not pinged, the connection alone tells whether they are there: %s", lacking)
            return True
        except (ping.NotAsked, ValueError):
            return True  # the connection says it better

    def _word(self, link: Link) -> Unreachable | None:
        """Have a new word printed. A login with a forced command prints another text than the command that it gets."""
        timeout = self._pool.settings.connect_timeout_seconds
        halves = secrets.token_hex(8), secrets.token_hex(8)  # an echo of the command does not contain the word
        try:
            state_dir = shlex.quote(self._pool.settings.state_dir)
            channel = link.channel(f"printf '\\n%s%s\\n' {' '.join(halves)}; {WRITABLE} {state_dir}", timeout)
        except Broken as broken:
            self._pool.discard(link)
            return broken.unreachable
        except OwnFault:
            self._pool.discard(link)
            raise
        deadline = time.monotonic() + timeout
        while not channel.status_event.wait(min(0.5, max(0.0, deadline - time.monotonic()))):
            if time.monotonic() >= deadline or not link.alive:
                self._pool.discard(link)
                return _ended(link, f"the command printf did not end within {timeout:g} s")
        code = channel.recv_exit_status()
        word = "".join(halves)
        said = _said(channel, word.encode(), deadline) if code >= 0 else ""
        shut(channel)
        link.heard()
        if code < 0:
            return _ended(link, "the command printf ended without an exit code")
        if code in (0, UNWRITABLE) and word in said.splitlines():
            return None if code == 0 else _unwritable(link, self._pool.settings)
        output = f": {words[:WORDS_CHARACTERS]}" if (words := " ".join(said.split())) else ""
        if code > 0:
            return Unreachable("run", f"the command printf ended with exit code {code}{output}")
        return Unreachable("run", f"the login does not run the command that it is sent{output}")

    def close(self) -> None:
        """Close all connections; the jigs share them."""
        self._pool.close()


def _unwritable(link: Link, settings: SshSettings) -> Unreachable:
    return Unreachable(
        "run", f"login {link.login[0]} cannot write to {settings.state_dir} on the machine: {LOGIN_WAYS}"
    )


def _ended(link: Link, said: str) -> Unreachable:
    """Raises OwnFault where the connection ended by a fault of this host."""
    broken = link.broken(link.fault or said)
    if isinstance(broken, OwnFault):
        raise broken
    return broken.unreachable


def _said(channel: paramiko.Channel, word: bytes, deadline: float) -> str:
    """The output of the ended command, up to the line of the word; its end if it is longer than SAID_BYTES."""
    said = b""
    with suppress(*ENDED):
        while word + b"\n" not in said and (left := deadline - time.monotonic()) > 0:
            channel.settimeout(left)
            data = channel.recv(SAID_BYTES)
            if not data:
                break
            said = (said + data)[-SAID_BYTES:]
    return said.decode(errors="replace")
