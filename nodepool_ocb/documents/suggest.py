"""The word that was probably meant, for messages about one that is not known."""

from __future__ import annotations

import re
from collections.abc import Iterable


def nearest(word: str, words: Iterable[str], present: Iterable[str] = ()) -> str | None:
    """The word that was probably meant, if any is like it; words that are ``present`` beside it were not meant.

    >>> nearest("wants-atribs", ["wants-attribs", "attribs"])
    'wants-attribs'
    >>> nearest("api_version_accepts", ["api_version", "name"], present=["api_version", "api_version_accepts"])

    A number that ZooKeeper gave, such as the id of a deleted node, is like no other number:

    >>> nearest("0000000004", ["0000000005"])
    >>> nearest("5", ["0000000005"])
    '0000000005'
    """
    absent = set(words).difference(present)
    if same := [each for each in sorted(absent) if each != word and _numbers(each) == _numbers(word)]:
        return same[0]
    if not any(map(str.isalpha, word)):
        return None
    import difflib  # here, so that a start of the command does not load it

    return next(iter(difflib.get_close_matches(word, sorted(absent), n=1, cutoff=0.65)), None)


def _numbers(word: str) -> str:
    """The word without zeros at the beginning of its numbers.

    >>> nearest("web1.example.com", ["web01.example.com", "web10.example.com", "web16.example.com"])
    'web01.example.com'
    """
    return re.sub(r"(?<!\d)0+(?=\d)", "", word)


def did_you_mean(word: str, words: Iterable[str], present: Iterable[str] = ()) -> str:
    """The end of a sentence about an unknown word; empty when nothing is like it."""
    found = nearest(word, words, present)
    return f"; did you mean `{found}`?" if found else ""
