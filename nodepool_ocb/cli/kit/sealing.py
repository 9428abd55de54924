"""Secrets on command lines: the places from which their values are read."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import Final

import click

from nodepool_ocb.documents import files
from nodepool_ocb.errors import Invalid
from nodepool_ocb.model import secrecy
from nodepool_ocb.operations.assignments import pairs

reveal_option = click.option(
    "--reveal", is_flag=True, help="Show encrypted secrets in plain text: the key file is needed; references stay."
)

REFERENCE: Final = "secret:"
MOST_BYTES: Final = 1 << 20


def read(assignments: Iterable[str]) -> list[str]:
    """Assignments with JSON in place of ``-``, ``@FILE`` and ``secret:REFERENCE``; raises Invalid.

    ``-`` is asked for without echo on a terminal, and else all of stdin; both are text, without a newline at the end.
    """
    given = pairs(assignments)
    if sum(text == "-" for _, text in given) > 1 and not sys.stdin.isatty():
        raise Invalid("stdin can be read for one attribute only; give the others by PATH=@FILE")
    return [f"{key}={_value(key, text)}" for key, text in given]


def _value(key: str, text: str) -> str:
    if text == "-":
        return json.dumps(_asked(key))
    if text.startswith("@"):
        return json.dumps(_file(key, text[1:]))
    if text.startswith(REFERENCE):
        return json.dumps(secrecy.reference(text.removeprefix(REFERENCE)))
    return text


def _asked(key: str) -> str:
    if sys.stdin.isatty():
        answer: str = click.prompt(f"{key}", hide_input=True, confirmation_prompt=True, err=True)
        return answer
    return sys.stdin.read(MOST_BYTES).removesuffix("\n")


def _file(key: str, name: str) -> str:
    try:
        return files.text(name, MOST_BYTES).removesuffix("\n")
    except OSError as error:
        raise Invalid(f"{key}: {name} cannot be read: {error.strerror}; check the path and the mode") from None
