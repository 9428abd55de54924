"""Secrets among attributes: a secret's value is the object ``{"$secret": TEXT}``, one leaf wherever layers are merged.

TEXT is ``enc:KEY:ID:TOKEN``, a value that was encrypted by the key of that id; or it is a reference that an annealer resolves
when a run needs it. References are ``file:PATH``, ``env:NAME`` (NAME begins with PREFIX) and ``vault:PATH#KEY``. ID is drawn
when the value is set, and stays when another key encrypts the value anew. So it distinguishes values without revealing them.
``hidden`` is the form that is shown. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Final

from nodepool_ocb.errors import Invalid
from nodepool_ocb.model.records import Json

KEY: Final = "$secret"
HIDDEN: Final = "(secret)"
PREFIX: Final = "NODEPOOL_OCB_SECRET_"  # of the variables that an annealer reads
LONGEST_NAMED: Final = 120  # characters of a reference in a message

_BLAME: Final = "secret "
_ENCRYPTED: Final = re.compile(r"enc:(?P<key>[0-9a-f]{8}):(?P<id>[0-9a-f]{16}):(?P<token>[A-Za-z0-9_=-]+)")
_REFERENCE: Final = re.compile(
    r"file:/[^\x00-\x1f\x7f]+|env:[A-Za-z_][A-Za-z0-9_]*|vault:[^\x00-\x20\x7f#]+#[^\x00-\x20\x7f#]+"
)

#: A replacement of a secret: its place (a/b/c) and the object's text → the new value.
Replace = Callable[[str, str], Json]


def text_of(value: Json) -> str | None:
    """The text of a secret's value; None where it is none.

    >>> text_of({"$secret": "env:NODEPOOL_OCB_SECRET_DB"}), text_of({"$secret": "x", "more": 1}), text_of("x")
    ('env:NODEPOOL_OCB_SECRET_DB', None, None)
    """
    if isinstance(value, dict) and len(value) == 1 and isinstance(text := value.get(KEY), str):
        return text
    return None


def is_secret(value: Json) -> bool:
    """Whether it stands for a secret."""
    return text_of(value) is not None


def holds(value: Json) -> bool:
    """Whether there is a secret anywhere in it."""
    return next(found(value), None) is not None


def encrypted(text: str) -> tuple[str, str, str] | None:
    """The key's id, the value's id and the token; None for a reference."""
    parts = _ENCRYPTED.fullmatch(text)
    return (parts["key"], parts["id"], parts["token"]) if parts else None


def reference(text: str) -> dict[str, Json]:
    """The value that refers to a secret which stands elsewhere; raises Invalid.

    >>> reference("vault:apps/shop#password")
    {'$secret': 'vault:apps/shop#password'}
    """
    if why := wrong(text):
        raise Invalid(f"{shown(text)} {why}")
    return {KEY: text}


def wrong(text: str) -> str | None:
    """Why no annealer can resolve a text as a reference, wherever it runs; None where one may.

    >>> wrong("env:DB_PASSWORD")
    'names a variable that no annealer reads: its name has to begin with NODEPOOL_OCB_SECRET_; rename it'
    """
    if not _REFERENCE.fullmatch(text):
        return "refers to no secret; write file:/PATH, env:NAME or vault:PATH#KEY"
    kind, _, rest = text.partition(":")
    if kind == "env" and not rest.startswith(PREFIX):
        return f"names a variable that no annealer reads: its name has to begin with {PREFIX}; rename it"
    if kind == "vault" and any(part in ("", ".", "..") for part in rest.partition("#")[0].split("/")):
        return "names no path in Vault: a part of it is empty, `.` or `..`; correct it"
    return None


def shown(text: str) -> str:
    """A reference as a message names it: in one line, and not longer than LONGEST_NAMED.

    >>> shown("env:A"), shown("file:/x" + chr(0))
    ('env:A', "'file:/x\\\\x00'")
    """
    short = text if len(text) <= LONGEST_NAMED else f"{text[:LONGEST_NAMED]}..."
    return short if short.isprintable() else repr(short)


def checked(value: Json, before: Json = None) -> None:
    """Raises Invalid where something in it looks like a secret's value, and is none.

    ``before``: the value that stood there; a text that it has is not refused again, so that other attributes can be set.
    """
    _check(value, frozenset(text for _, text in found(before)))


def _check(value: Json, known: Collection[str]) -> None:
    if isinstance(value, Mapping):
        if KEY in value and text_of(value) is None:
            raise Invalid(f'{KEY} stands alone in its object, with a text; write {{"{KEY}": TEXT}}')
        if (text := text_of(value)) is not None and text not in known and not encrypted(text):
            reference(text)
    for each in value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ():
        _check(each, known)


def named(value: Json, place: str = "") -> str | None:
    """The place of the first mapping with ``KEY``, which could be taken for a secret; None if there is none.

    >>> named({"db": {"password": {"$secret": "env:A"}}}), named({"$secret": 1}), named({"db": 1})
    ('db/password', '', None)
    """
    if isinstance(value, Mapping) and KEY in value:
        return place
    parts = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list | tuple) else ()
    found = (named(each, f"{place}/{key}" if place else str(key)) for key, each in parts)
    return next((each for each in found if each is not None), None)


def found(value: Json, place: str = "") -> Iterator[tuple[str, str]]:
    """The place and the text of each secret in it.

    >>> list(found({"db": {"password": {"$secret": "env:A"}, "hosts": [{"$secret": "env:B"}]}}))
    [('db/password', 'env:A'), ('db/hosts/0', 'env:B')]
    """
    if (text := text_of(value)) is not None:
        yield place, text
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield from found(each, f"{place}/{key}" if place else key)
    elif isinstance(value, list | tuple):
        for index, each in enumerate(value):
            yield from found(each, f"{place}/{index}")


def replaced(value: Any, replace: Replace, place: str = "") -> Any:
    """A copy with another value in place of each secret; parts without a secret are shared."""
    if (text := text_of(value)) is not None:
        return replace(place, text)
    if isinstance(value, Mapping):
        return {key: replaced(each, replace, f"{place}/{key}" if place else key) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [replaced(each, replace, f"{place}/{index}") for index, each in enumerate(value)]
    return value


def hidden(value: Any) -> Any:
    """The same as people may see it.

    >>> hidden({"db": {"password": {"$secret": "vault:db#password"}, "name": "shop"}})
    {'db': {'password': '(secret)', 'name': 'shop'}}
    """
    return replaced(value, lambda _, __: HIDDEN)


def noted(value: Any) -> Any:
    """A copy for comparisons: of an encrypted value its id, for any key."""
    return replaced(value, lambda _, text: {KEY: f"enc:{parts[1]}" if (parts := encrypted(text)) else text})


def blame(place: str) -> str:
    """How a reason begins that blames the secret at a place."""
    return f"{_BLAME}{place}"


def blamed(reason: str) -> bool:
    """Whether a reason blames a secret.

    >>> blamed(f"{blame('a/b')}: it cannot be read"), blamed("jig acme raised")
    (True, False)
    """
    return reason.startswith(_BLAME)
