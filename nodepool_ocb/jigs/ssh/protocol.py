"""The messages to the machine's runner, and its answers: bytes and values only.

An order is a line of words. The order of a run is followed by the script, the attributes as JSON, their tree, and the
token: without it, the runner runs nothing. Answers are frames, ``\\nTOKEN WORD ARGUMENT ...\\n``. The last argument of
an OUTPUT or WRITTEN frame is the number of bytes of data behind it, and all bytes after FOLLOWING are data.

The token is a random number that the machine draws for each channel, and that its first frame tells. The output and the
attributes of a script are never taken for a frame, even if the script knows the token. A script may still open the channel
of a runner of its own user, as that user may do anything there.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import shlex
from collections.abc import Iterator, Mapping
from functools import lru_cache
from importlib.resources import files
from typing import Final, TypeAlias

import msgspec

from nodepool_ocb.engine.drift import HONOURED
from nodepool_ocb.jigs.jig import Order
from nodepool_ocb.jigs.ssh.attributes import tree

#: The ways out for a login that may not write to the state directory.
LOGIN_WAYS: Final = "log in as root, set ssh.become (sudo -n -H), or set ssh.state_dir"
#: The first command on a channel, without its arguments: see ``command``. Says SEND where this runner is not installed yet.
BOOTSTRAP: Final = (
    "exec sh -c '"
    "d=$1 h=$2 n=$3; umask 077; "
    "IFS= read -r t </proc/sys/kernel/random/uuid; "
    'case $d in "~/"*) d=$HOME/${d#"~/"};; esac; '
    'no() { echo "ssh.state_dir $d $1: choose another one, or remove it" >&2; exit 77; }; '
    '[ -d "$d/runs" ] || mkdir -p "$d/runs" || '
    f'{{ [ "$(id -u)" = 0 ] || echo "{LOGIN_WAYS}" >&2; exit 71; }}; '
    '[ -L "${d%/}" ] && no "is a link"; '
    '[ -O "$d" ] && [ -O "$d/runs" ] || no "belongs to another user"; '
    'if ! [ -d "$d/runner-$h" ]; then '
    'case $(ls -ld "$d") in ?????w*|????????w*) no "may be written by others";; esac; '
    'printf "\\n%s SEND\\n" "$t"; '
    "w=; "
    'while IFS= read -r l && [ "$l" != "$h" ]; do printf "%s\\n" "$l" || w=1; done >"$d/install.$$" 2>/dev/null; '
    '[ -n "$w" ] || [ "$l" != "$h" ] || (cd "$d" && sh "install.$$" "$$"); rm -f "$d/install.$$"; '
    '[ -d "$d/runner-$h" ] || { set -- $(df -P "$d" | tail -n 1); '
    'echo "cannot install the runner in $d: ${6-its disk} is ${5-?} full" >&2; exit 74; }; '
    "fi; "
    '[ -O "$d/runner-$h" ] && [ -O "$d/runner-$h/runner" ] || no "has a runner of another user"; '
    'OCB_TOKEN=$t OCB_NOW=$n exec sh "$d/runner-$h/runner" "$d"'
    "'"
)
PROGRAMS: Final[Mapping[str, str]] = {
    "runner": "runner.sh",
    "library.sh": "library.sh",
    "files.sh": "files.sh",
    "bin/read_attribute": "read_attribute.sh",
    "bin/write_attribute": "write_attribute.sh",
}
EXIT_CODE: Final = 255  # the highest that a machine knows
ENDINGS: Final = ("finished", "timeout", "flooded")  # how a run ends by itself
FRAME_BYTES: Final = 4096  # of one frame; no runner says more
OUTPUT_BYTES: Final = 1 << 26  # of a run's output: the machine ends one that prints more
WRITTEN_BYTES: Final = 1 << 20  # of attributes given back: twice the room of a noderole
LINES_BYTES: Final = 4096  # a shell reads byte by byte: beyond this a program is the cheaper reader
MOST: Final = 10**15  # of numbers that only rise, as in records
SIZE_OF: Final = {"OUTPUT": 1, "WRITTEN": 0}  # which argument of a frame says how many bytes of data come
MOST_OF: Final = {"OUTPUT": OUTPUT_BYTES, "WRITTEN": WRITTEN_BYTES}
_END: Final = "end of this file"
_READY: Final = (b" READY\n", b" SEND\n")
_FIRST: Final = re.compile(rb"\n([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}) (?:READY|SEND)\n")
_BEGIN: Final = re.compile(rb"\n[0-9a-f-]{0,36}(?: [A-Z]{0,5})?\Z")  # of such a frame
FIRST_BYTES: Final = 64  # more than such a frame has
_WORD: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,252}")


class Frame(msgspec.Struct, frozen=True):
    """A frame of the runner."""

    word: str
    arguments: tuple[str, ...] = ()


class Data(msgspec.Struct, frozen=True):
    """Bytes of the section that the frame ``word`` began; of the noise before any frame where it is empty."""

    word: str
    data: bytes


Heard: TypeAlias = Frame | Data


class Nonsense(ValueError):
    """An answer that no runner sends."""

    def __init__(self, what: str) -> None:
        super().__init__(f"the machine sends an answer that its runner never sends: {what}; inspect the machine")


class OutOfRange(Nonsense):
    """A value in an answer that no runner gives: it fails the run, and nothing else."""


class Ear:
    """Takes bytes as they come, gives frames and data; data is held back only where it may be the begin of a frame.

    It holds back FRAME_BYTES at most, and raises Nonsense where a frame is longer. Without a token, the first frame of a runner
    tells it: all before that is noise.
    """

    def __init__(self, token: str = "") -> None:
        self.token = token
        self._mark = _mark(token)
        self._buffer = b""
        self._section = ""
        self._owed: int | None = None  # bytes of data that are still to come; None where a frame ends the data

    @property
    def owed(self) -> int:
        """The number of bytes of data that the runner announced, and did not send yet."""
        return self._owed or 0

    def hear(self, data: bytes) -> Iterator[Heard]:
        """The frames and data in these bytes, after all bytes before them."""
        if self._section == "FOLLOWING":
            yield Data(self._section, data)
            return
        if not self.token:
            data, self._buffer = self._buffer + data, b""
            first = _FIRST.search(data) if any(word in data for word in _READY) else None
            if first is None:
                found = _BEGIN.search(data, max(0, len(data) - FIRST_BYTES))
                begin = found.start() if found else len(data)
                self._buffer = data[begin:]
                if begin:
                    yield Data("", data[:begin])
                return
            self.token = first[1].decode()
            self._mark = _mark(self.token)
        heard, self._buffer = self._buffer + data, b""
        begin = 0  # the bytes before it have been given
        while self._section != "FOLLOWING":
            if self._owed is not None:
                taken = heard[begin : begin + self._owed]
                begin, self._owed = begin + len(taken), self._owed - len(taken)
                if taken:
                    yield Data(self._section, taken)
                if self._owed:
                    return
                self._owed, self._section = None, ""
            if (position := heard.find(self._mark, begin)) < 0:
                break
            end = heard.find(b"\n", position + len(self._mark))
            if position > begin:
                yield Data(self._section, heard[begin:position])
            if (len(heard) if end < 0 else end) - position > FRAME_BYTES:
                raise Nonsense(f"a frame of more than {FRAME_BYTES} bytes")
            if end < 0:
                self._buffer = heard[position:]
                return
            word, *arguments = heard[position + len(self._mark) : end].decode("utf-8", "replace").split(" ")
            begin = end + 1
            self._section = word if word in ("OUTPUT", "WRITTEN", "FOLLOWING") else ""
            self._owed = _size(word, arguments)
            yield Frame(word, tuple(arguments))
        ready = len(heard) - (0 if self._section == "FOLLOWING" else self._held(heard, begin))
        self._buffer = heard[ready:]
        if ready > begin:
            yield Data(self._section, heard[begin:ready])

    def _held(self, heard: bytes, begin: int) -> int:
        """The number of bytes at the end, from ``begin`` on, that may be the begin of a mark."""
        first = max(begin, len(heard) - len(self._mark))
        position = heard.rfind(b"\n", first)
        while position >= 0:
            if self._mark.startswith(heard[position:]):
                return len(heard) - position
            position = heard.rfind(b"\n", first, position)
        return 0


def _mark(token: str) -> bytes:
    return b"\n" + token.encode() + b" "


def _size(word: str, arguments: list[str]) -> int | None:
    """The number of bytes of data that a frame announces; None if it announces none. Raises OutOfRange."""
    place = SIZE_OF.get(word, len(arguments))
    return number(arguments[place], MOST_OF[word]) if place < len(arguments) else None


def number(text: str, most: int = MOST) -> int:
    """A count in a frame, up to ``most``; raises OutOfRange.

    >>> number("12")
    12
    """
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise OutOfRange(f"{text[:20]!r} where a number belongs")
    if int(text) > most:
        raise OutOfRange(f"the number {text}, which is above {most}")
    return int(text)


def command(state_dir: str, now: float) -> str:
    """The first command on a channel. ``now``: seconds since 1970, for the machine's history."""
    return f"{BOOTSTRAP} sh {shlex.quote(state_dir)} {installer()[1]} {int(now)}"


def installation() -> bytes:
    """The answer to SEND."""
    text, digest = installer()
    return f"{text}{digest}\n".encode()


def run_name(text: str) -> str:
    """The name of a run in a frame; raises OutOfRange."""
    if not _WORD.fullmatch(text):
        raise OutOfRange(f"{text[:20]!r} where the name of a run belongs")
    return text


def misnamed(order: Order) -> str | None:
    """Why an order cannot be given: a name in it would be two words, or a path; None where all are well."""
    for what, word in (("role", order.role), ("node", order.node), ("run", order.run)):
        if not _WORD.fullmatch(word):
            return f"{word!r} can be no name of a {what}: only letters, digits, '-', '_' and '.'"
    return None


def name(order: Order) -> str:
    """The name of a run on the machine: its role and generation, independent of the annealer."""
    return f"{order.role}@{order.generation}"


def run(order: Order, token: str, before: int | None, offset: int | None) -> bytes:
    """The order to run.

    ``before``: the lowest epoch of an earlier order of the same, None if there can be none. ``offset``: the number of
    known bytes of its output. It is None for the first order: then the runner does not report that it is started.
    """
    script = (order.definition.script or "").encode()
    texts = script, json.dumps(order.attributes).encode() + b"\n", tree(order.attributes)
    end = token.encode() + b"\n"  # without it the order is none
    words = [
        "run",
        str(order.epoch),
        name(order),
        order.run,
        order.node,
        str(max(1, math.ceil(order.timeout_seconds))),
        "1" if order.destructive else "0",
        "-" if before is None else str(before),
        "-" if offset is None else str(offset),
        _argument(order),
    ]
    if sum(map(len, texts)) <= LINES_BYTES and all(text.isascii() and b"\0" not in text for text in texts):
        body = b"".join(text + (b"" if text.endswith(b"\n") or not text else b"\n") + end for text in texts)
        return " ".join([*words, "lines\n"]).encode() + body
    sizes = [str(len(text)) for text in texts]
    return " ".join([*words, "bytes", *sizes]).encode() + b"\n" + b"".join(texts) + end


def _argument(order: Order) -> str:
    """The last word of the order: whether it is a check, and which script comes then."""
    if not order.check:
        return "-"
    return HONOURED if order.definition.check == HONOURED else "check"


def end(order: Order) -> bytes:
    """The order to end the runs of this noderole and generation."""
    return f"end {order.epoch} {name(order)} {order.run}\n".encode()


def follow(order: Order, run: str, offset: int) -> bytes:
    """The order to send this run's output from this byte on, as it grows; there is no other use of the channel after it."""
    return f"follow {name(order)} {run} {offset}\n".encode()


@lru_cache(maxsize=1)
def installer() -> tuple[str, str]:
    """The script that installs the runner in a state directory, and the name of the installed runner.

    Under that name stands a whole runner or none, also if the disk fills up or the power fails during the installation.
    """
    texts = {program: files("nodepool_ocb.jigs.ssh").joinpath(file).read_text() for program, file in PROGRAMS.items()}
    digest = hashlib.sha256("".join(texts.values()).encode()).hexdigest()[:16]
    folder = f"new-{digest}.$1"  # $1: the process that installs
    lines = ["set -e", f'trap \'rm -rf "{folder}" "runner-{digest}/{folder}"\' 0', f'mkdir -p "{folder}/bin"']
    for program, text in texts.items():
        lines.append(f"cat >\"{folder}/{program}\" <<'{_END}'\n{text}{_END}")
    lines.append(f'chmod 700 "{folder}"/bin/*')
    lines.append(f'timeout --version 2>/dev/null | grep -q GNU || : >"{folder}/apart"')
    lines.append(f'sync "{folder}"/* "{folder}"/bin/* 2>/dev/null || sync')
    # Two may install at once: the first to rename wins, and mv -T is not everywhere.
    lines.append(f'[ -d "runner-{digest}" ] || mv "{folder}" "runner-{digest}"')
    return "\n".join(lines) + "\n", digest
