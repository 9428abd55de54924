"""Attributes on the command line: set by ``KEY=JSON``, and unset by ``KEY``; a key is an attribute's name, or a path a/b/c.

Pure.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final

from nodepool_ocb.documents.counting import some
from nodepool_ocb.engine import attributes
from nodepool_ocb.errors import Invalid, NotFound
from nodepool_ocb.model.records import Json
from nodepool_ocb.model.secrecy import hidden
from nodepool_ocb.operations.assignments import pairs
from nodepool_ocb.operations.values import strict_json

SHOWN: Final = 60  # letters of a value in a sentence
NAMED: Final = 12  # paths in a sentence


def assigned(
    blob: Mapping[str, Json],
    assignments: Iterable[str],
    path_of: Callable[[str], str],
    below: Mapping[str, Json] | None = None,
    quiet: Collection[str] = (),
) -> dict[str, Json]:
    """The blob with the value of each ``KEY=JSON`` at its path; it lies over ``below``.

    No message repeats a value at a path of ``quiet``. Raises Invalid, also for a path inside a list or a plain value, and the
    errors of ``path_of``.
    """
    changed = dict(blob)
    problems: list[str] = []
    for key, text in pairs(assignments):
        where = path_of(key)
        above = _no_mapping(attributes.merge(below or {}, changed), where)
        if not all(where.split("/")):
            problems.append(f"{key}: a path is written a/b/c")
        elif above is not None:
            problems.append(f"{key}: {above} is no mapping, and can only be set as a whole")
        else:
            try:
                changed = attributes.write(changed, where, strict_json(text))
            except ValueError as wrong:
                said = "TEXT" if where in quiet else text
                problems.append(f"{key}: {said} is not JSON ({wrong}); {_mended(key, text, said)}")
    if problems:
        raise Invalid(problems)
    return changed


def _mended(key: str, text: str, said: str) -> str:
    """The next step after a value that is not JSON; ``said`` stands for the value."""
    if text.lstrip().startswith(("[", "{")):
        return "close each bracket, quote each text, and put the whole argument in single quotes"
    return f"text needs quotes: '{key}=\"{said}\"'"


def _no_mapping(blob: Mapping[str, Json], path: str) -> str | None:
    """The part of a path at which the blob has something that is no mapping."""
    steps = path.split("/")
    for length in range(1, len(steps)):
        part = "/".join(steps[:length])
        if not isinstance(attributes.at(blob, part, {}), dict):
            return part
    return None


def unset(blob: Mapping[str, Json], places: Iterable[str]) -> dict[str, Json]:
    """The blob without the values at these paths, and without the mappings that are empty then.

    Raises NotFound for a path without a value; the message names the paths that have one.

    >>> unset({"a": {"b": 1}, "c": {"d": 2, "e": 3}}, ["a/b", "c/d"])
    {'c': {'e': 3}}
    """
    left = dict(blob)
    for place in dict.fromkeys(places):
        if not attributes.says(blob, place.split("/")):
            known = sorted(path for path, _ in attributes.leaves(blob))
            raise NotFound(f"{place} is not set here; set here: {some(known, NAMED) or 'nothing'}")
        left = _without(left, place.split("/"))
    return left


def _without(blob: Mapping[str, Json], steps: Sequence[str]) -> dict[str, Json]:
    """The same where the path went already, with a mapping that held it."""
    rest = {step: value for step, value in blob.items() if step != steps[0]}
    below = blob.get(steps[0])
    if len(steps) == 1 or not isinstance(below, dict):
        return rest
    left = _without(below, steps[1:])
    return {**blob, steps[0]: left} if left else rest


def counting(layers: Mapping[str, Mapping[str, Json]], place: str) -> str:
    """A sentence with the value that counts at a path. ``layers``: the lowest first, by their origin.

    >>> counting({"by default": {"a": {"b": 1}}, "from hooks": {"a": {"c": 2}}}, "a/b")
    'a/b is 1 now, by default'
    """
    giver = next((who for who, blob in reversed([*layers.items()]) if attributes.says(blob, place.split("/"))), None)
    if giver is None:
        return f"{place} is set nowhere now"
    merged: Mapping[str, Json] = {}
    for blob in layers.values():
        merged = attributes.merge(merged, blob)
    text = json.dumps(hidden(attributes.read(merged, place)), ensure_ascii=False)
    return f"{place} is {text if len(text) <= SHOWN else text[: SHOWN - 3] + '...'} now, {giver}"
