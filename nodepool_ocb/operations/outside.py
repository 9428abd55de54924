"""Sentences about the noderoles outside the limits of a caller: their number alone. Pure."""

from __future__ import annotations

from nodepool_ocb.documents.counting import counted


def left_alone(number: int, one: str = "stays as it is", several: str = "stay as they are") -> tuple[str, ...]:
    """The sentence about so many noderoles; empty for none.

    >>> left_alone(2), left_alone(0)
    (('2 noderoles outside the limits of this token stay as they are',), ())
    """
    if not number:
        return ()
    return (f"{counted(number, 'noderole')} outside the limits of this token {one if number == 1 else several}",)
