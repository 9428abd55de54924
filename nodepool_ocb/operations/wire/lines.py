"""The body of a call, and the lines of its answer: one JSON object a line, each with one key.

The last line is ``done`` or ``error``. A line of another kind may follow in a later version; a reader passes it over.
"""

from __future__ import annotations

from typing import Final

import msgspec

from nodepool_ocb.operations.plans.saved import SavedPlan
from nodepool_ocb.operations.wire.problems import Problem
from nodepool_ocb.views.changes import ChangeRow


class CallBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The request to perform an operation."""

    fields: msgspec.Raw = msgspec.Raw(b"{}")
    reason: str | None = None
    dry_run: bool = False
    agreed: bool = False  # to the irreversible change that it asks agreement for
    save: bool = False  # answer the dry run with a plan
    plan: SavedPlan | None = None  # that is carried out: its fields count, and there are no others
    deadline_seconds: float | None = None


class Question(msgspec.Struct, frozen=True):
    """The agreement that an operation asks for. Nothing was written: the caller agrees, and calls again."""

    text: str  # continues "This will ..."
    details: tuple[str, ...] = ()  # lines that are shown before


class CallEnd(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The end of a call that succeeded."""

    dry_run: bool
    zxid: int  # of the newest state that it has read or written
    plan: str | None = None  # of a dry run: the digest of its changes, for If-Match of the call that carries it out


class AnswerLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line; one field is set."""

    note: str | msgspec.UnsetType = msgspec.UNSET
    agree: Question | msgspec.UnsetType = msgspec.UNSET
    answer: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET  # of one round
    rows: tuple[ChangeRow, ...] | msgspec.UnsetType = msgspec.UNSET
    plan: SavedPlan | msgspec.UnsetType = msgspec.UNSET
    error: Problem | msgspec.UnsetType = msgspec.UNSET
    done: CallEnd | msgspec.UnsetType = msgspec.UNSET


MEDIA_TYPE: Final = "application/x-ndjson"

_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(AnswerLine).decode


def encode_line(line: AnswerLine) -> bytes:
    r"""With its newline.

    >>> encode_line(AnswerLine(note="n1 is held")), encode_line(AnswerLine(answer=msgspec.Raw(b"null")))
    (b'{"note":"n1 is held"}\n', b'{"answer":null}\n')
    """
    return _encode(line) + b"\n"


def decode_line(data: bytes) -> AnswerLine:
    r"""Raises DecodeError.

    >>> bytes(decode_line(b'{"answer": [1]}\n').answer)
    b'[1]'
    """
    return _decode(data)
