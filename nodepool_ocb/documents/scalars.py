"""Plain scalars of YAML 1.2 as JSON values: ``yes``, ``on``, ``1:30`` and dates are text, and so is ``0755``."""

from __future__ import annotations

import re
from typing import Final

from nodepool_ocb.model.records import Json

LONGEST_INT: Final = 300  # characters; about as large as the largest float
LARGEST_INT: Final = 10 ** (LONGEST_INT - 1)  # with a sign it is as long

_INT = re.compile(r"[-+]?(0|[1-9][0-9]*)|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|(0|[1-9][0-9]*)(\.[0-9]*)?)([eE][-+]?[0-9]{1,4})?")
_BEYOND_JSON = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_OF_NUMBERS: Final = frozenset("+-.0123456789")  # their first letters
_WORDS: Final = {"": None, "~": None, "null": None, "Null": None, "NULL": None} | {
    word: value for value in (True, False) for word in (str(value), str(value).lower(), str(value).upper())
}


class OddNumber(Exception):
    """A number that JSON does not have, or that is too large; ``value`` stands for it."""

    def __init__(self, text: str, value: Json) -> None:
        super().__init__(text)
        self.value = value


def plain(text: str) -> Json:
    """The value of a scalar without quotes. Raises OddNumber.

    >>> [plain(text) for text in ("yes", "true", "", "0755", "12", "0x1f", "1.5", "10.0.0.1")]
    ['yes', True, None, '0755', 12, 31, 1.5, '10.0.0.1']
    """
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in _OF_NUMBERS:
        return text
    if _INT.fullmatch(text):
        number = int(text, 0) if len(text) <= LONGEST_INT else LARGEST_INT
        if abs(number) >= LARGEST_INT:  # written again, a hexadecimal number is longer
            raise _too_large()
        return number
    if _BEYOND_JSON.fullmatch(text):
        raise OddNumber(f"{text} is not a number in JSON; quote it if it is text", text)
    if _FLOAT.fullmatch(text):
        fraction = float(text)
        if abs(fraction) == float("inf"):
            raise _too_large()
        return fraction
    return text


def _too_large() -> OddNumber:
    return OddNumber("is too large for a number; quote it", None)
