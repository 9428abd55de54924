"""Rendezvous hashing: all launchers give a piece of work to the same launcher, without a word between them. Pure.

The hash avoids contention only. Locks and versions make the work safe.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import TypeVar

T = TypeVar("T", int, str)


def weight(work: str, candidate: object) -> bytes:
    """The weight of a candidate for a piece of work: the lowest wins."""
    return blake2b(f"{work}/{candidate}".encode(), digest_size=8).digest()


def ranked(work: str, candidates: Iterable[T]) -> list[T]:
    """The candidates for the work, the owner first.

    >>> ranked("100-0000000007", [17, 4]) == ranked("100-0000000007", [4, 17])
    True
    """
    return sorted(candidates, key=lambda each: weight(work, each))


def owner(work: str, candidates: Iterable[T]) -> T | None:
    """The first of ``ranked``; None without candidates."""
    return min(candidates, key=lambda each: weight(work, each), default=None)
