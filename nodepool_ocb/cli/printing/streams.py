"""The standard streams of a command: in every locale, where the disk is full, and where the reader has left."""

from __future__ import annotations

import codecs
import errno
import io
import os
import sys
from typing import Final

from nodepool_ocb.errors import OcbError

HANDLER: Final = "nodepool-ocb"  # of characters that the locale's encoding lacks
PLAIN: Final = {"←": "<-", "→": "->", "…": "...", "·": "*", "│": "|", "─": "-", "━": "-", "█": "#", "░": "."}
FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
ELSEWHERE: Final = "send it to another file or terminal"
CLOSED: Final = f"cannot write the output: standard output is closed; {ELSEWHERE}"


class Unwritable(OcbError):
    """The output of a command could not be written."""


def prepare() -> None:
    """Let every text be printed in the encoding of the locale. Raises Unwritable where there is no standard output."""
    codecs.register_error(HANDLER, _spelled)
    if sys.stdout is None:
        raise Unwritable(CLOSED)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=HANDLER)


def _spelled(error: UnicodeError) -> tuple[str | bytes, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    missing = error.object[error.start : error.end]
    text = "".join(PLAIN.get(each) or each.encode("ascii", "backslashreplace").decode() for each in missing)
    return text, error.end


def whole() -> bool:
    """Whether the encoding of standard output has every character."""
    return codecs.lookup(getattr(sys.stdout, "encoding", None) or "utf-8").name.startswith("utf")


def discard() -> None:
    """Write nothing more to standard output, also not at the interpreter's own flush."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, sys.stdout.fileno())
    except (OSError, ValueError):  # it is no file: in a test
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    os.close(nowhere)
