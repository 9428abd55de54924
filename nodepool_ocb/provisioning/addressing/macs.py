"""MAC addresses of machines: one spelling, and no address of many machines. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from nodepool_ocb.errors import Invalid

MOST: Final = 16  # of one node

_MAC: Final = re.compile(r"[0-9a-f]{2}([:-])[0-9a-f]{2}(\1[0-9a-f]{2}){4}")


def canonical(text: str) -> str:
    """In small letters, with colons. Raises ValueError with a sentence.

    >>> canonical("52-54-00-AB-CD-EF")
    '52:54:00:ab:cd:ef'
    """
    lower = text.lower()
    if not _MAC.fullmatch(lower):
        raise ValueError(f"{text!r} is no MAC address; write one as 52:54:00:12:34:56")
    if int(lower[:2], 16) & 1 or not int(re.sub("[:-]", "", lower), 16):
        raise ValueError(f"{text} is not the MAC address of one machine (zero, or a group); write that of its NIC")
    return lower.replace("-", ":")


def fault(text: str) -> str | None:
    """Why it is no MAC of a machine; None if it is one."""
    try:
        canonical(text)
    except ValueError as wrong:
        return str(wrong)
    return None


def spelled(hint: object, texts: Iterable[str]) -> tuple[str, ...]:
    """As a node has them, that of the hint first; a text that is none stays as it is.

    >>> spelled("52:54:00:00:00:01", ["52:54:00:00:00:0A", "x", "52:54:00:00:00:01"])
    ('52:54:00:00:00:01', '52:54:00:00:00:0a', 'x')
    """
    every = [*([hint] if isinstance(hint, str) else []), *texts]
    lower = (text.lower().replace("-", ":") for text in every)
    return tuple(dict.fromkeys(each if _MAC.fullmatch(each) else text for each, text in zip(lower, every, strict=True)))


def checked(texts: Iterable[str]) -> tuple[str, ...]:
    """Each one time, in this order. Raises Invalid for one that is none, and for more than ``MOST``."""
    try:
        found = tuple(dict.fromkeys(map(canonical, texts)))
    except ValueError as wrong:
        raise Invalid(f"macs: {wrong}") from None
    if len(found) > MOST:
        raise Invalid(f"macs: {len(found)} are more than a node may have ({MOST}); give those that it boots from")
    return found
