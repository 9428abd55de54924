"""Sets of positions as the bits of an int: intersected, joined and taken apart by the thousand. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import compress
from typing import Final, TypeVar

T = TypeVar("T")

_TO_DIGITS: Final = bytes.maketrans(b"\0\1", b"01")
_TO_FLAGS: Final = bytes.maketrans(b"01", b"\0\1")


def bits(positions: Iterable[int]) -> int:
    """The int in which these bits are set."""
    chosen = list(positions)
    text = bytearray(max(chosen, default=-1) // 8 + 1)
    for position in chosen:
        text[position >> 3] |= 1 << (position & 7)
    return int.from_bytes(text, "little")


def positions(mask: int) -> list[int]:
    """The bits that are set in an int.

    >>> positions(bits([0, 9, 3]))
    [0, 3, 9]
    """
    return list(compress(range(mask.bit_length()), flags(mask, mask.bit_length())))


def flagged(truths: Iterable[int]) -> int:
    """The int with the bits of the true values (or 1) set; the first value is the lowest bit.

    >>> flagged([True, False, True])
    5
    """
    return int(bytes(truths)[::-1].translate(_TO_DIGITS) or b"0", 2)


def flags(mask: int, length: int) -> bytes:
    """The lowest bits, the first first, each a byte: 0 or 1.

    >>> list(flags(5, 4))
    [1, 0, 1, 0]
    """
    return format(mask, f"0{length}b").encode()[::-1].translate(_TO_FLAGS) if length else b""


def chosen(things: Sequence[T], mask: int) -> list[T]:
    """The things with a set bit, in their order."""
    return list(compress(things, flags(mask, len(things))))
