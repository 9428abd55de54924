"""Numbers and names of things, as a sentence has them."""

from __future__ import annotations

from collections.abc import Sequence


def counted(count: int, one: str, many: str | None = None) -> str:
    """The number with its noun; ``many`` if the plural is not the noun with an ``s``.

    >>> counted(1, "node"), counted(0, "node"), counted(2, "node stays", "nodes stay")
    ('1 node', '0 nodes', '2 nodes stay')
    """
    return f"{count} {one if count == 1 else many or f'{one}s'}"


def some(names: Sequence[str], most: int = 3) -> str:
    """The first names, and how many more.

    >>> some(["a", "b", "c", "d", "e"]), some(["a", "b"])
    ('a, b, c and 2 more', 'a, b')
    """
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")
