"""The exception of a role's Python: the traceback into the log of the run, its last line into the record."""

from __future__ import annotations

import traceback
from pathlib import Path

from nodepool_ocb.errors import OcbError
from nodepool_ocb.jigs.jig import REASON_CHARACTERS, Failed
from nodepool_ocb.jigs.output import Output
from nodepool_ocb.telemetry.redaction import Mask


def sentence(error: BaseException) -> str:
    """The exception as a traceback ends with it, one of ours without its type; of bounded length, never raises.

    >>> sentence(ValueError("no such zone"))
    'ValueError: no such zone'
    """
    try:
        said = str(error)
    except Exception:
        said = "it cannot be shown as text"
    if isinstance(error, OcbError):
        return said
    return f"{type(error).__name__}: {said[:REASON_CHARACTERS]}" if said else type(error).__name__


def failed(
    error: BaseException,
    log: Path | None,
    log_bytes: int,
    before: str = "",
    mask: Mask = Mask(),  # noqa: B008
) -> Failed:
    """The failure of a run; ``before`` begins its reason."""
    with Output(log, log_bytes, mask) as output:
        output.take(0, "".join(traceback.format_exception(error)).encode(errors="backslashreplace"))
    return Failed(before + sentence(error), tail=output.tail, log=output.file)
