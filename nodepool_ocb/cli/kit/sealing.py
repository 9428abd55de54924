"""Secrets on command lines: where their values are read from, and how they are encrypted before anything else sees them."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

import click

from nodepool_ocb.cli.kit import output, session
from nodepool_ocb.documents import files
from nodepool_ocb.documents.counting import counted
from nodepool_ocb.engine import attributes
from nodepool_ocb.errors import Invalid
from nodepool_ocb.model import secrecy
from nodepool_ocb.model.records import Json, Role
from nodepool_ocb.operations.assignments import pairs
from nodepool_ocb.views.noderoles import Layers

if TYPE_CHECKING:
    from nodepool_ocb.secrecy.opening import Secrets

reveal_option = click.option(
    "--reveal", is_flag=True, help="Show encrypted secrets in plain text: the key file is needed; references stay."
)

REFERENCE: Final = "secret:"
MOST_BYTES: Final = 1 << 20
NOT_HIDDEN: Final = "less than 4 characters: they are not hidden where a run prints them alone"


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
        raise Invalid(f"{key}: {name} cannot be read: {error.strerror}") from None


def sealed(
    known: Mapping[str, Role], role: str, after: Mapping[str, Json], before: Mapping[str, Json]
) -> Mapping[str, Json]:
    """A role's attributes as they may be written: each secret of the role encrypted; raises Sealed without a key.

    ``before``: what stands there. A value that stays the same is left as it was encrypted.
    """
    from nodepool_ocb.catalogue import rules

    secrecy.checked(after, before)
    for place in rules.secret_places(known, role):
        value = attributes.at(after, place)
        if value is not attributes.MISSING and value is not None and not secrecy.is_secret(value):
            after = attributes.write(after, place, _sealed(place, value, attributes.at(before, place, None)))
    return after


def _sealed(place: str, value: Json, before: Json) -> dict[str, Json]:
    from nodepool_ocb.secrecy.errors import Sealed
    from nodepool_ocb.secrecy.opening import SHORT, hideable, resealed, unhidden

    if secrecy.holds(value):
        raise Invalid(f"{place} is secret as a whole: give all of it, or refer to it")
    if not hideable(value):
        raise Invalid(f"{place} is secret: {SHORT}")
    if count := unhidden(value):
        _say_once(f"warning: {place} has {counted(count, 'line or part', 'lines or parts')} of {NOT_HIDDEN}")
    try:
        return resealed(secrets(), place, value, before)
    except Sealed as sealed:
        raise Sealed(f"{place} is secret, and cannot be encrypted here: {sealed}", own=True) from None


def _say_once(sentence: str) -> None:
    """A decision is made for each noderole, and may be made again."""
    ctx = click.get_current_context(silent=True)
    said: set[str] = set() if ctx is None else ctx.meta.setdefault(f"{__name__}.said", set())
    if sentence not in said:
        said.add(sentence)
        output.say(sentence)


def secrets() -> Secrets:
    """What this host can open."""
    from nodepool_ocb.secrecy.opening import Secrets

    return Secrets(session.settings().secrets)


def shown(layers: Layers) -> Layers:
    """A noderole's attributes for ``--reveal``; raises Sealed."""
    return Layers(user=revealed(layers.user), system=revealed(layers.system), wall=revealed(layers.wall))


def revealed(blob: Mapping[str, Json]) -> dict[str, Json]:
    """Attributes with what is encrypted in plain text, for ``--reveal``; references stay. Raises Sealed without the key."""
    keys = secrets().keys()

    def plain(place: str, text: str) -> Json:
        return keys.decrypt(place, text) if secrecy.encrypted(text) else text

    made: dict[str, Json] = secrecy.replaced(blob, plain)
    return made
