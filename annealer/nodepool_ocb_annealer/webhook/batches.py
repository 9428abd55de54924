"""The content of one request, its signature, and the time of its retry. Pure.

A request has entries in the shape of ``history -o json``, in their order. Missing numbers in its range
are counted as missed: entries that were deleted before, and unreadable entries.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from nodepool_ocb.model.journal import Entry
from nodepool_ocb.views.history.entries import EntryRow
from nodepool_ocb.views.view import public

MOST_ENTRIES: Final = 100
MOST_BYTES: Final = 256 * 1024  # of entries, unless a single one is larger
FIRST_SECONDS: Final = 1.0  # from a failure to the next attempt
LONGEST_SECONDS: Final = 300.0
JITTER: Final = 0.1  # of the wait, at most, more or less
SIGNATURE: Final = "X-Nodepool-Ocb-Signature-256"

_encode = msgspec.json.Encoder().encode


class EntryBatch(msgspec.Struct, frozen=True):
    """The range of one request: ``entries`` in JSON, all up to the number ``last``."""

    entries: tuple[bytes, ...]
    last: int
    missed: int
    problems: tuple[str, ...] = ()  # of entries that cannot be read
    pool: bool = False  # entries of launchers


def batch(
    delivered: int, numbers: Sequence[int], found: Iterable[tuple[int, Entry | None, str]], pool: bool = False
) -> EntryBatch:
    """The first entries that fit. ``pool``: these are entries of launchers.

    ``numbers`` are the requested ones after ``delivered``; ``found`` has the existing ones, in their order: number, entry,
    and the reason of a missing entry. If all fit, the batch ends with the last number.
    """
    entries: list[bytes] = []
    problems: list[str] = []
    size, last = 0, numbers[-1]
    at = delivered
    for number, entry, problem in found:
        if entry is None:
            problems.append(problem)
        else:
            encoded = _encode(public(EntryRow(number=number, record=entry, pool=pool or msgspec.UNSET)))
            if entries and size + len(encoded) > MOST_BYTES:
                last = at
                break
            size += len(encoded) + 1
            entries.append(encoded)
        at = number
    return EntryBatch(tuple(entries), last, last - delivered - len(entries), tuple(problems), pool)


def body(cluster: str, sent: EntryBatch) -> bytes:
    """The request's.

    >>> body("c", EntryBatch((b'{"number":7}', b'{"number":8}'), last=8, missed=1))
    b'{"cluster":"c","missed":1,"entries":[{"number":7},{"number":8}]}'
    >>> body("c", EntryBatch((b'{"number":7}',), last=7, missed=1, pool=True))
    b'{"cluster":"c","missed":0,"entries":[],"pool_missed":1,"pool":[{"number":7}]}'
    """
    found = _encode(cluster), sent.missed, b",".join(sent.entries)
    if sent.pool:
        return b'{"cluster":%s,"missed":0,"entries":[],"pool_missed":%d,"pool":[%s]}' % found
    return b'{"cluster":%s,"missed":%d,"entries":[%s]}' % found


def headers(body: bytes, key: bytes | None, authorization: str | None = None) -> Mapping[str, str]:
    """The headers, with the HMAC-SHA256 of the body if there is a key.

    >>> headers(b"{}", b"key")[SIGNATURE]
    'sha256=a777724d943eb48dc69bca8a4a6d57a04db3f9ec7e1de4e581e860265bdf3032'
    """
    made = {"Content-Type": "application/json", "User-Agent": "nodepool-ocb"}
    if authorization is not None:
        made["Authorization"] = authorization
    if key is not None:
        made[SIGNATURE] = f"sha256={hmac.new(key, body, hashlib.sha256).hexdigest()}"
    return made


def wait_seconds(failures: int, chance: float) -> float:
    """Until the next attempt after so many failures in a row; ``chance`` is 0 to 1.

    >>> [wait_seconds(failures, 0.5) for failures in (1, 2, 3, 9, 10, 1000)]
    [1.0, 2.0, 4.0, 256.0, 300.0, 300.0]
    >>> wait_seconds(2, 0.0), wait_seconds(2, 1.0)
    (1.8, 2.2)
    """
    wait = min(FIRST_SECONDS * 2.0 ** min(failures - 1, 30), LONGEST_SECONDS)
    return wait * (1.0 + JITTER * (2.0 * chance - 1.0))


def missed_words(sent: EntryBatch) -> str:
    """For the log.

    >>> missed_words(EntryBatch((), last=8, missed=3))
    'up to entry 8, 3 were not sent: they are not kept any more, or cannot be read'
    """
    of = " of launchers" if sent.pool else ""
    return f"up to entry {sent.last}{of}, {sent.missed} were not sent: they are not kept any more, or cannot be read"
