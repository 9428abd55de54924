"""Effective attributes: each value that a jig sees, its layer, and the values of weaker layers that it hides.

They come from the same layers that a run merges. Merging these values gives the attributes that the jig sees.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile
from typing import TypeAlias

import msgspec

from nodepool_ocb.engine.attributes import MISSING, differ
from nodepool_ocb.engine.inputs.layers import Brought
from nodepool_ocb.model.records import Json
from nodepool_ocb.model.secrecy import KEY

#: The value of one layer at a place, and the layer.
_Saying: TypeAlias = tuple[Json, Brought]


class Said(msgspec.Struct, frozen=True):
    """The value of a layer at a place; ``steps``: the keys that lead there."""

    steps: tuple[str, ...]
    value: Json
    brought: Brought

    @property
    def place(self) -> str:
        """The path as people write it: a/b/c."""
        return "/".join(self.steps)


class Effective(msgspec.Struct, frozen=True):
    """The value at a place: no map, or an empty one. ``hides``: the values of weaker layers there, the strongest first.

    A value hides a map, and a map a value, that a weaker layer has at a place above it.
    """

    said: Said
    hides: tuple[Said, ...] = ()

    @property
    def place(self) -> str:
        return self.said.place


class Unlike(msgspec.Struct, frozen=True):
    """A place at which two noderoles see different values; None if one sees nothing there."""

    place: str
    one: Said | None
    other: Said | None


def effective(brought: Iterable[Brought]) -> list[Effective]:
    """All that is seen, by place; ``brought``: the layers, the weakest first."""
    said = [(each.layer.values, each) for each in brought]
    return list(_seen((), said[::-1], ())) if said else []


def below(found: Iterable[Effective], places: Sequence[str]) -> list[Effective]:
    """The values at these places, and below them."""
    wanted = tuple(f"{place}/" for place in places)
    return [each for each in found if f"{each.place}/".startswith(wanted)]


def unlike(one: Iterable[Effective], other: Iterable[Effective]) -> list[Unlike]:
    """The places with different values, in order; a different layer alone makes no difference."""
    left, right = ({each.place: each.said for each in side} for side in (one, other))
    pairs = ((place, left.get(place), right.get(place)) for place in sorted(left.keys() | right.keys()))
    return [Unlike(place, a, b) for place, a, b in pairs if differ(_value(a), _value(b))]


def _value(said: Said | None) -> Json:
    return MISSING if said is None else said.value


def _seen(steps: tuple[str, ...], said: Sequence[_Saying], hidden: tuple[Said, ...]) -> Iterator[Effective]:
    """The values at a place and below; ``said``: the layers' values there, the strongest first; ``hidden``: hidden above."""
    maps = list(takewhile(lambda each: isinstance(each[0], dict) and KEY not in each[0], said))
    keys = sorted({key for values, _ in maps for key in values})
    if not keys:  # a value, or empty maps alone above the values that they hide
        if steps:
            strongest, *others = (Said(steps, *each) for each in said)
            yield Effective(strongest, (*others, *hidden))
        return
    covered = tuple(Said(steps, *each) for each in said[len(maps) :])
    for key in keys:
        yield from _seen(
            (*steps, key), [(values[key], by) for values, by in maps if key in values], (*covered, *hidden)
        )
