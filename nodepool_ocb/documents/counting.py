"""Numbers of things, as a sentence has them."""

from __future__ import annotations


def counted(count: int, one: str, many: str | None = None) -> str:
    """The number with what it counts; ``many`` where that is not the same with an ``s``.

    >>> counted(1, "node"), counted(0, "node"), counted(2, "node stays", "nodes stay")
    ('1 node', '0 nodes', '2 nodes stay')
    """
    return f"{count} {one if count == 1 else many or f'{one}s'}"
