"""Pushes a directory of this host to the run on the machine that waits for it (receive.sh), beside that run's conversation.

This host's rsync talks through a channel of the connection that the order went over: there is no other SSH, and no
settings but ours. A push says its epoch; the machine ends it when a later one calls. Where a push breaks, the next one
begins with another token, as long as the conversation lasts.
"""

from __future__ import annotations

import logging
import os
import secrets
import shlex
import subprocess
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Final

from nodepool_ocb.jigs.jig import Order
from nodepool_ocb.jigs.ssh import protocol
from nodepool_ocb.jigs.ssh.asking import ask
from nodepool_ocb.jigs.ssh.faults import OwnFault
from nodepool_ocb.jigs.ssh.link import ENDED, Broken, Link, shut

log = logging.getLogger(__name__)

CALL_SECONDS: Final = 60.0  # until the run takes the call; then another one is made
AGAIN_SECONDS: Final = 0.5
VERDICT_SECONDS: Final = 10.0  # until the run has ended after it
CHUNK_BYTES: Final = 1 << 16
NOISE_BYTES: Final = 1 << 20  # that a login may print
SAID_BYTES: Final = 4096  # of rsync's output here, for the run's output
CARRY: Final = Path(__file__).with_name("carry.sh")

_WHERE: Final = (
    'exec 2>/dev/null; IFS= read -r d; IFS= read -r k; IFS= read -r t; case $d in "~/"*) d=$HOME/${d#"~/"};; esac; '
    "f=$d/runs/$k; p=$f.push.$t; umask 077; "
)
#: Reads the state directory, the run's key, a token, an epoch and a mark, each a line. Holds both ends of the pipes until
#: the run has opened its own, so that no end waits for an ended process. Then prints the mark, and carries.
CALL: Final = (
    f"exec sh -c '{_WHERE}"
    "IFS= read -r e; IFS= read -r m; n=0; "
    'until [ -e "$p.go" ]; do '
    '[ ! -s "$f.result" ] && [ $n -lt 600 ] || exit 1; n=$((n + 1)); '
    'if ! [ -p "$p.in" ]; then mkfifo "$p.in" "$p.out" && exec 3<>"$p.in" 4<>"$p.out" 5>"$p.in" 6<"$p.out" && '
    'echo "$e" >"$p.call" || exit 1; fi; '
    "sleep 0.1; done; "
    'exec 3>&- 4>&-; printf "\\n%s\\n" "$m"; cat <&6 5>&- 6<&- & exec cat >&5 6<&-'
    "'"
)
VERDICT: Final = f"exec sh -c '{_WHERE}" + 'cat >"$p.new" && mv -f "$p.new" "$p.verdict"' + "'"


class Push:
    """A context manager: pushes, again where need be, until it is left; nothing of it lives then."""

    def __init__(self, order: Order, link: Link, state_dir: str, timeout_seconds: float, words: Sequence[str]) -> None:
        """``words``: the arguments of rsync before the destination, which is the run's own directory."""
        self._order, self._link, self._words = order, link, words
        self._state_dir, self._timeout_seconds = state_dir, timeout_seconds
        self._over = threading.Event()
        self._lock = threading.Lock()  # of the channel and process that ``__exit__`` ends
        self._channel: Any = None
        self._process: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._work, name=f"push to {order.node}", daemon=True)

    def __enter__(self) -> Push:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._over.set()
            self._end()
        self._thread.join()

    def _end(self) -> None:
        if self._channel is not None:
            shut(self._channel)
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, 9)

    def _work(self) -> None:
        while not self._over.is_set():
            pause = AGAIN_SECONDS
            try:
                if self._push(secrets.token_hex(8)):
                    pause = VERDICT_SECONDS
            except (Broken, OwnFault, *ENDED) as error:
                log.debug("push to %s: %s", self._order.node, error)
            self._over.wait(pause)

    def _push(self, token: str) -> bool:
        """Whether the run got the result of rsync; raises Broken, or the exception of a connection that is over."""
        channel = self._link.channel(CALL, self._timeout_seconds)
        with ExitStack() as stack:
            stack.callback(shut, channel)
            with self._lock:
                self._channel = channel
            if self._over.is_set():
                return False
            mark = secrets.token_hex(8)
            channel.sendall(self._where(token) + f"{self._order.epoch}\n{mark}\n".encode())
            early = self._called(channel, mark)
            code, said = self._transferred(channel, early)
        if self._over.is_set():
            return False
        verdict = self._where(token) + f"{code}\n".encode() + said
        ask(self._link, VERDICT, self._timeout_seconds, verdict)
        return True

    def _where(self, token: str) -> bytes:
        return f"{self._state_dir}\n{protocol.name(self._order)}\n{token}\n".encode()

    def _called(self, channel: Any, mark: str) -> bytes:
        """Wait until the run takes the call; gives the bytes after the mark."""
        heard, wanted = b"", f"\n{mark}\n".encode()
        deadline = time.monotonic() + CALL_SECONDS
        while wanted not in heard:
            left = deadline - time.monotonic()
            if left <= 0 or len(heard) > NOISE_BYTES:
                raise Broken("the run did not take the call")
            channel.settimeout(left)
            data = channel.recv(CHUNK_BYTES)
            if not data:
                raise Broken("the call ended")
            heard += data
        channel.settimeout(None)
        return heard.partition(wanted)[2]

    def _transferred(self, channel: Any, early: bytes) -> tuple[int, bytes]:
        """Exit code and last output of this host's rsync, which talks over the channel."""
        with ExitStack() as ours, ExitStack() as its:
            from_rsync, to_jig = _pipe(ours, its)
            from_jig, to_rsync = _pipe(its, ours)
            with self._lock:
                if self._over.is_set():
                    return 1, b""
                process = self._process = self._started(to_jig.fileno(), from_jig.fileno())
            its.close()
            said: list[bytes] = []
            threads = [
                threading.Thread(target=_send, args=(from_rsync, channel), daemon=True),
                threading.Thread(target=_receive, args=(channel, to_rsync, early), daemon=True),
                threading.Thread(target=_collect, args=(process, said), daemon=True),
            ]
            for thread in threads:
                thread.start()
            code = process.wait()
            with self._lock:
                self._process = None
            shut(channel)  # this ends the other holders of the pipes, rsync's remote shell first
            for thread in threads:
                thread.join()
        return (code if code >= 0 else 128 - code), _short(b"".join(said))

    def _started(self, to_jig: int, from_jig: int) -> subprocess.Popen[bytes]:
        shell = f"sh {shlex.quote(str(CARRY))} {to_jig} {from_jig}"
        return subprocess.Popen(
            ["rsync", "-e", shell, *self._words, "machine:."],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=(to_jig, from_jig),
            start_new_session=True,
            env={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"},
        )


def _pipe(reader: ExitStack, writer: ExitStack) -> tuple[BinaryIO, BinaryIO]:
    """A pipe's ends, to read from and to write to; each is closed with its stack."""
    read, write = os.pipe()
    return (
        reader.enter_context(open(read, "rb", buffering=0)),
        writer.enter_context(open(write, "wb", buffering=0)),
    )


def _send(from_rsync: BinaryIO, channel: Any) -> None:
    """Send rsync's bytes to the channel. If the channel is over, close the pipe, so that its writer ends."""
    with from_rsync, suppress(*ENDED):
        while data := from_rsync.read(CHUNK_BYTES):
            channel.sendall(data)
        channel.shutdown_write()


def _receive(channel: Any, to_rsync: BinaryIO, early: bytes) -> None:
    """Write the channel's bytes to the pipe. At their end, rsync's remote shell ends, and rsync waits for that."""
    with to_rsync, suppress(*ENDED):
        data = early
        while data or (data := channel.recv(CHUNK_BYTES)):
            while data:
                data = data[to_rsync.write(data) :]


def _collect(process: subprocess.Popen[bytes], said: list[bytes]) -> None:
    assert process.stdout is not None, "it is a pipe"
    with process.stdout:
        said.append(process.stdout.read())


def _short(said: bytes) -> bytes:
    """Its begin and its end, where it is long."""
    return said if len(said) <= SAID_BYTES else said[: SAID_BYTES // 2] + b"\n...\n" + said[-SAID_BYTES // 2 :]
