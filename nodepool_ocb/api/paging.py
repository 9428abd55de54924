"""Pages of lists: the rows after a cursor, in the order of their keys, with the fields that the client wants. Pure.

A cursor is the key of the last row of a page. So a row that stays during all requests is on exactly one page, however others
come and go.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from typing import Annotated, Any, Final

import msgspec
from msgspec.structs import replace

from nodepool_ocb.errors import Invalid
from nodepool_ocb.views.view import View, public

MOST_ROWS: Final = 100_000


class PageOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a list that a request asks for."""

    limit: Annotated[int, msgspec.Meta(ge=1, le=MOST_ROWS)] | None = None  # rows of a page
    cursor: str | None = None  # `next` of the page before
    fields: str | None = None  # of a row, with commas between them

    @property
    def paged(self) -> bool:
        return self.limit is not None or self.cursor is not None


class ListPage(msgspec.Struct, frozen=True):
    """The answer with the rows of one page; ``next`` is None for the last one."""

    answer: Any
    next: str | None


def page(answer: Any, key: Sequence[str], options: PageOptions) -> ListPage:
    """The page of an answer: a list of rows, or a struct with ``rows``. Raises Invalid for a text that is no cursor.

    ``key``: the fields that name a row.
    """
    rows: Sequence[Any] = getattr(answer, "rows", answer)
    after = None if options.cursor is None else _decoded(options.cursor, len(key))
    keyed = sorted(((_key(row, key), number) for number, row in enumerate(rows)))
    left = [each for each in keyed if after is None or each[0] > after]
    taken = left if options.limit is None else left[: options.limit]
    found = [rows[number] for _, number in taken]
    following = _encoded(taken[-1][0]) if len(taken) < len(left) else None
    return ListPage(replace(answer, rows=found) if isinstance(answer, msgspec.Struct) else found, following)


def chosen(answer: Any, wanted: str | None) -> Any:
    """The answer of a list with only these fields of each row. Raises Invalid for a field that no row has."""
    if wanted is None:
        return answer
    names = [name.strip() for name in wanted.split(",")]
    if isinstance(answer, msgspec.Struct):
        fields = {name: getattr(answer, name) for name in answer.__struct_fields__}
        return {**fields, "rows": _rows(fields["rows"], names)}
    return _rows(answer, names)


def _rows(views: Sequence[View], names: Sequence[str]) -> list[dict[str, Any]]:
    rows = [public(view) for view in views]
    known = {name for row in rows for name in row}
    for name in names:
        if rows and name not in known:
            raise Invalid(f"fields: a row has no field {name[:100]!r}; it has: {', '.join(sorted(known))}")
    return [{name: row[name] for name in names if name in row} for row in rows]


def _key(row: Any, key: Sequence[str]) -> list[str]:
    return [str(getattr(row, name)) for name in key]


def _encoded(key: Sequence[str]) -> str:
    """
    >>> _decoded(_encoded(["ntp@n1"]), 1)
    ['ntp@n1']
    """
    return base64.urlsafe_b64encode(msgspec.json.encode(key)).decode().rstrip("=")


def _decoded(cursor: str, parts: int) -> list[str]:
    try:
        found = msgspec.json.decode(
            base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True), type=list[str]
        )
    except (binascii.Error, ValueError, msgspec.DecodeError, RecursionError) as wrong:
        raise _no_cursor(cursor) from wrong
    if len(found) != parts:
        raise _no_cursor(cursor)
    return found


def _no_cursor(cursor: str) -> Invalid:
    return Invalid(f"cursor {cursor[:100]!r} is not of this list; take `next` of the page before, or leave it out")
