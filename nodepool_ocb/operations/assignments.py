"""``KEY=VALUE`` of command lines, and the fields of a node among them. Pure.

Words that are not KEY=VALUE are refused together, before the values are judged. Faults of values are reported together, too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from ipaddress import IPv4Interface
from typing import Any, Final

from nodepool_ocb.documents.assigned import claim
from nodepool_ocb.documents.assigned import words as words_of
from nodepool_ocb.documents.suggest import did_you_mean
from nodepool_ocb.errors import Invalid
from nodepool_ocb.model.ranges import is_login
from nodepool_ocb.model.records import Json, Node
from nodepool_ocb.operations.values import strict_json
from nodepool_ocb.provisioning.addressing import macs


def pairs(assignments: Iterable[str]) -> list[tuple[str, str]]:
    """Split each at its first ``=``; raises Invalid.

    >>> pairs(["a/b=1=2"])
    [('a/b', '1=2')]
    """
    wrong = [each for each in assignments if not each.partition("=")[0] or "=" not in each]
    if wrong:
        raise Invalid([f"{each!r} is not KEY=VALUE; write a key, = and a value" for each in wrong])
    return [(key, value) for key, _, value in (each.partition("=") for each in assignments)]


# -- fields of a node --

_MAC: Final = re.compile("[0-9A-Fa-f]{2}(:[0-9A-Fa-f]{2}){5}")
_HOST_KEY: Final = re.compile(r"[a-z][a-z0-9@.-]* AAAA[A-Za-z0-9+/]*={0,2}")


def tags(text: str) -> tuple[str, ...]:
    """Words with commas between, or a list as JSON; raises ValueError for text that would only look like a list.

    >>> tags("web, db"), tags('["web", "db"]'), tags("")
    (('web', 'db'), ('web', 'db'), ())
    """
    words = words_of(text)
    if text.lstrip().startswith("["):
        try:
            given = strict_json(text)
        except ValueError:
            given = None
        if not isinstance(given, list) or not all(isinstance(each, str) for each in given):
            raise ValueError('this is no list of texts; write A,B, or ["A", "B"]')
        words = tuple(word for word in (each.strip() for each in given) if word)
    return checked_tags(words)


def checked_tags(words: Iterable[str]) -> tuple[str, ...]:
    """The same; raises ValueError where one is a piece of a list as JSON or YAML has it."""
    found = tuple(words)
    if odd := next((word for word in found if set(word) & set('[]"')), None):
        raise ValueError(f"{odd!r} can be no tag; write A,B without brackets and quotation marks")
    return found


def _text(text: str) -> str:
    if not text:
        raise ValueError("cannot be empty")
    return text


def login(text: str) -> str:
    """The name of a login; raises ValueError for any other text.

    >>> login("debian")
    'debian'
    """
    if not is_login(text):
        raise ValueError(f"{text!r} is no login: it is one word, and begins with no -")
    return text


def host_keys(texts: Iterable[str]) -> tuple[str, ...]:
    """``TYPE KEY`` each, as ``ssh-keyscan`` prints them; raises ValueError for any other text.

    >>> host_keys(["ssh-ed25519 AAAAC3Nz"])
    ('ssh-ed25519 AAAAC3Nz',)
    """
    keys = tuple(texts)
    for key in keys:
        if not _HOST_KEY.fullmatch(key):
            raise ValueError(
                f"{key!r} is no host key; write 'TYPE KEY', as in 'ssh-ed25519 AAAAC3Nz...', from ssh-keyscan HOST"
            )
    return keys


def _macs(text: str) -> tuple[str, ...]:
    return tuple(map(macs.canonical, words_of(text)))


FIELDS: Final[Mapping[str, Callable[[str], Any]]] = {
    "alive": claim,
    "available": claim,
    "admin": claim,
    "bootenv": _text,
    "allow_install": claim,
    "user": login,
    "rack": lambda text: text or None,
    "tags": tags,
    "addresses": words_of,
    "host_keys": lambda text: host_keys(words_of(text)),
    "macs": _macs,
}


def node_fields(node: Node, assignments: Iterable[str]) -> dict[str, Any]:
    """The fields that change: those of ``FIELDS``, ``labels.NAME=TEXT`` and ``hints.NAME=JSON`` (or bare text).

    An empty value takes a label or a hint away. Raises Invalid.
    """
    changed: dict[str, Any] = {}
    problems: list[str] = []
    for key, value in pairs(assignments):
        section, dot, name = key.partition(".")
        if dot and name and section in ("labels", "hints"):
            before = changed.get(section, getattr(node, section))
            rest = {each: kept for each, kept in before.items() if each != name}
            given = value if section == "labels" else _lenient(value)
            if problem := wrong_hint(name, given) if section == "hints" and value else None:
                problems.append(problem)
            changed[section] = {**rest, name: given} if value else rest
        elif key in FIELDS:
            try:
                changed[key] = FIELDS[key](value)
            except ValueError as wrong:
                problems.append(f"{key}={value}: {wrong}")
        else:
            known = [*FIELDS, "labels.NAME", "hints.NAME"]
            problems.append(
                f"a node has no field {key!r}{did_you_mean(key, known) or '; known are ' + ', '.join(known)}"
            )
    if problems:
        raise Invalid(problems)
    return changed


def _lenient(text: str) -> Json:
    try:
        return strict_json(text)
    except ValueError:
        return text


def labels(assignments: Iterable[str]) -> dict[str, str]:
    """``K=V`` each; raises Invalid."""
    return dict(pairs(assignments))


def hints(assignments: Iterable[str]) -> dict[str, Json]:
    """``K=JSON`` each, or bare text; raises Invalid."""
    found = {key: _lenient(value) for key, value in pairs(assignments)}
    if problems := [problem for key, value in found.items() if (problem := wrong_hint(key, value))]:
        raise Invalid(problems)
    return found


def wrong_hint(name: str, value: Json) -> str | None:
    """The fault of a hint that seed 000 names, else None; other hints may have any value.

    >>> wrong_hint("admin-mac", "52:54:00:12:34:56"), wrong_hint("admin-v4addr", "192.0.2.7/24"), wrong_hint("x", "")
    (None, None, None)
    """
    text = value if isinstance(value, str) else ""
    if name == "admin-mac" and not _MAC.fullmatch(text):
        return f"hint admin-mac={value}: write a MAC address, as 52:54:00:12:34:56"
    if name == "admin-v4addr":
        try:
            IPv4Interface(text)
        except ValueError:
            return f"hint admin-v4addr={value}: write an IPv4 address, as 192.0.2.7 or 192.0.2.7/24"
    return None
