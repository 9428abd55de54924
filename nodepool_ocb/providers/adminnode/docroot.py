"""The SSH side of an admin node: docroot.sh runs there, once for each question.

Each question has a deadline. The host key is pinned: a foreign machine at the address gets no image, and gives none.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.resources import files
from typing import Any, Final

import msgspec

from nodepool_ocb.config import SshSettings
from nodepool_ocb.jigs.jig import Unreachable
from nodepool_ocb.jigs.ssh.faults import OwnFault
from nodepool_ocb.jigs.ssh.keys import load_keys
from nodepool_ocb.jigs.ssh.link import ENDED, Broken, Link, connect, shut
from nodepool_ocb.model.records import Node
from nodepool_ocb.providers.provider import Refused
from nodepool_ocb.providers.transfer import BLOCK_BYTES, LOOK_SECONDS

ANSWER_SECONDS: Final = 60.0
STALL_SECONDS: Final = 30.0  # in which the admin node must take a block
ANSWER_BYTES: Final = 1 << 24
PREFIX: Final = "ocb "  # of the lines of docroot.sh: a login may print others


class NoAnswer(Exception):
    """The admin node was not reached, or its answer did not come; the message says which host is at fault."""


class DocrootSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The way to an admin node, and its directory."""

    address: str
    user: str
    key_file: str
    host_keys: tuple[str, ...]
    directory: str


class DocrootAnswer(msgspec.Struct, frozen=True):
    """All lines of an answer, with those of a login."""

    all: tuple[str, ...]

    @property
    def lines(self) -> tuple[str, ...]:
        """The lines of docroot.sh but the last."""
        return tuple(line for line in self.all if line.startswith(PREFIX))[:-1]

    @property
    def word(self) -> str:
        """The first word of the last line of docroot.sh; empty without one."""
        own = [line for line in self.all if line.startswith(PREFIX)]
        return own[-1].split(" ")[1] if own else ""

    @property
    def reason(self) -> str:
        """Why it did not act, in one line."""
        own = [line for line in self.all if line.startswith(PREFIX)]
        if own and self.word == "refused":
            return own[-1].removeprefix(f"{PREFIX}refused ")
        return " ".join(self.all[-2:])[:300] or "the admin node gave no answer"


class Docroot:
    """One connection for each call."""

    def __init__(self, settings: DocrootSettings) -> None:
        self._settings = settings
        self._ssh = SshSettings(key_files=(settings.key_file,), first_contact="refuse")

    def ask(self, words: Sequence[str], question: bytes = b"", seconds: float | None = None) -> DocrootAnswer:
        """Raises NoAnswer."""
        deadline = time.monotonic() + (seconds or ANSWER_SECONDS)
        blocks = iter([question] if question else [])
        answer = self.send(words, lambda: next(blocks, b""), lambda: _late(deadline))
        if isinstance(answer, Refused):
            raise NoAnswer(answer.reason)
        return answer

    def send(
        self, words: Sequence[str], read: Callable[[], bytes], give_up: Callable[[], Refused | None]
    ) -> DocrootAnswer | Refused:
        """Give all blocks of ``read`` to docroot.sh, and take its answer. Raises NoAnswer, and the exceptions of ``read``."""
        with self._link() as link:
            channel = link.channel(_command(self._settings.directory, words), STALL_SECONDS)
            try:
                while block := read():
                    channel.sendall(block)
                channel.shutdown_write()
                return _answer(channel, give_up)
            except ENDED as error:
                raise NoAnswer(
                    f"the connection ended: {link.fault or error or 'no block was taken in time'}"
                ) from error
            finally:
                shut(channel)

    @contextmanager
    def _link(self) -> Iterator[Link]:
        settings = self._settings
        node = Node(addresses=(settings.address,), user=settings.user)
        try:
            link = connect(settings.address, node, self._ssh, load_keys(self._ssh), settings.host_keys)
        except OwnFault as fault:
            raise NoAnswer(f"this builder cannot log in: {fault}") from fault
        if isinstance(link, Unreachable):
            raise NoAnswer(f"{link.step}: {link.reason}")
        try:
            yield link
        except (Broken, OwnFault) as error:
            raise NoAnswer(str(error)) from error
        finally:
            link.close()


def _late(deadline: float) -> Refused | None:
    return Refused("no answer in time") if time.monotonic() > deadline else None


def _answer(channel: Any, give_up: Callable[[], Refused | None]) -> DocrootAnswer | Refused:
    said = b""
    channel.settimeout(LOOK_SECONDS)
    while len(said) < ANSWER_BYTES:
        try:
            data = channel.recv(BLOCK_BYTES)
        except TimeoutError:
            refused = give_up()
            if refused is not None:
                return refused
            continue
        if not data:
            break
        said += data
    return DocrootAnswer(tuple(said.decode("utf-8", "replace").splitlines()))


def _command(directory: str, words: Sequence[str]) -> str:
    return shlex.join(["/bin/sh", "-c", _script(), "docroot", directory, *words])


@cache
def _script() -> str:
    return (files("nodepool_ocb.providers.adminnode") / "docroot.sh").read_text(encoding="utf-8")
