"""Sentences about an expression that cannot be read, with the place in its text; and the bounds of its size. Pure."""

from __future__ import annotations

from typing import Final

from nodepool_ocb.errors import Invalid

MOST_BYTES: Final = 1024  # of an expression
MOST_WORDS: Final = 200  # names, numbers, texts, operators and brackets together
MOST_NESTED: Final = 20  # brackets in brackets
_SHORTEN: Final = "shorten it, or write one task for each part of an `or`"


def at(position: int, sentence: str) -> Invalid:
    """The fault at a position of the text, which people count from 1."""
    return Invalid(f"at character {position + 1}: {sentence}")


def illegal(text: str, position: int) -> Invalid:
    """The fault of a letter that begins no word."""
    letter = text[position]
    if letter in "'\"":
        return at(position, f"the text that begins here has no end; close it with {letter}")
    if letter == "=":
        return at(position, "`=` is no operator; write `==`")
    return at(position, f"{letter!a} has no meaning here; leave it out")


def check_size(text: str, most_bytes: int = MOST_BYTES) -> None:
    """Raises Invalid for a text that is empty or too long."""
    if not text.strip():
        raise Invalid("the condition is empty; write an expression, or leave it out")
    if len(text.encode("utf-8", "surrogatepass")) > most_bytes:
        raise Invalid(f"a condition has at most {most_bytes} bytes, and this one has more; {_SHORTEN}")


def check_words(count: int, position: int) -> None:
    """Raises Invalid for an expression with too many words."""
    if count > MOST_WORDS:
        raise at(position, f"a condition has at most {MOST_WORDS} words, and this one has more; {_SHORTEN}")


def check_nesting(depth: int, position: int) -> None:
    """Raises Invalid if brackets are nested too deep."""
    if depth > MOST_NESTED:
        raise at(
            position,
            f"brackets are nested at most {MOST_NESTED} deep; {_SHORTEN}",
        )
