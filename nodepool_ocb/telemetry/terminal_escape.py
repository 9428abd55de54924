"""Texts of machines, files and people for a terminal: characters that would act on the terminal are escaped.

Escaped, as in a Python string, are control characters (C0, DEL, C1), line ends of Unicode, marks of the writing direction,
invisible characters and lone surrogates. Of combining marks on one letter, those beyond the sixteenth are escaped. Line feed
and tab stay, and so do the joiners of scripts and of pictures. Pure.
"""

from __future__ import annotations

import json
import re
from typing import Final

_ODD: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\ud800-\udfff]|[\U000e0000-\U000e007f]"
    "|(?<=[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]{16})"
    "[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]"
)


def visible(text: str) -> str:
    r"""The text, with nothing left in it that moves a cursor, changes a colour or hides a word.

    >>> visible("a" + chr(0x1B) + "[2J" + chr(0x9B) + "b" + chr(0x202E) + "c\td")
    'a\\x1b[2J\\x9bb\\u202ec\td'
    """
    return _ODD.sub(lambda odd: odd[0].encode("unicode_escape").decode(), text)


def line(text: str) -> str:
    r"""The same, with line feeds escaped, for a text that must stay one line.

    >>> line("a" + chr(10) + "b")
    'a\\nb'
    """
    return visible(text).replace("\n", "\\n")


def exact(document: str) -> str:
    r"""A JSON document that says the same with such characters escaped: they can stand within its strings only.

    >>> exact('{"a": "' + chr(0x9B) + '"}')
    '{"a": "\\u009b"}'
    """
    return _ODD.sub(lambda odd: json.dumps(odd[0])[1:-1], document)


def odd(text: str) -> bool:
    """Whether ``visible`` would change it."""
    return _ODD.search(text) is not None
