"""What a run was given, as far as it is told from what is given now: a number in the noderole's record, and what it stands for.

Told apart are its role's jig, script and parameters; all attributes of its ancestors and its own, but for the wall that its
runs write; and whatever else is seen at the places that its role declares or wants. What a noderole beside it says
elsewhere was there or not as it happened to be ACTIVE before: a role that depends on it wants it (``wants-attribs``).
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, Final

import msgspec

from nodepool_ocb.engine.attributes import MISSING, at, merge
from nodepool_ocb.engine.inputs.layers import Blobs, Kind, Layer, Sources, around, visible
from nodepool_ocb.model import secrecy
from nodepool_ocb.model.records import Given, Json

UNKNOWN: Final = 1  # the number of what nobody can tell
LONGEST_TEXT: Final = 200  # characters of a text that is kept; of a longer one its digest is
MOST_BYTES: Final = 64 << 10  # of all that is kept

_SECRET: Final = f'"{secrecy.KEY}"'.encode()
_MODULO: Final = 10**15  # model.ranges.Count


class Judged(msgspec.Struct, frozen=True):
    """What a run is given: the number that stands for it, and all of it."""

    number: int
    given: Given


def judged(sources: Sources, blobs: Blobs, memo: dict[str, list[Mapping[str, Json]]] | None = None) -> Judged:
    """What a run of the noderole is given now; ``memo`` keeps, from one noderole to the next, what each ancestor says.

    Of a task nothing is noted: only a run of tasks runs it again.
    """
    if sources.facts:
        return Judged(0, Given(jig=sources.role.jig))
    memo = {} if memo is None else memo
    attributes: Mapping[str, Json] = {}
    for each in chain.from_iterable(sources.above):
        if each.name not in memo:
            memo[each.name] = _parts(each.layers(blobs))
        for part in memo[each.name]:
            attributes = merge(attributes, part)
    for layer in sources.own.layers(blobs):
        if layer.kind is not Kind.WALL:
            attributes = merge(attributes, layer.values)
    role = sources.role
    script = _digest(role.script.encode())[:16] if role.script else None
    beside = dict(_beside(sources, blobs, attributes))
    return _numbered(
        Given(jig=role.jig, script=script, parameters=role.parameters, attributes=attributes, beside=beside)
    )


def _numbered(given: Given) -> Judged:
    """A secret stands in it as it is told from others: by its id, which a new key does not change, or by its reference."""
    data = _encoded(given)
    if _SECRET in data:
        given = msgspec.structs.replace(
            given, attributes=secrecy.noted(given.attributes), beside=secrecy.noted(given.beside)
        )
        data = _encoded(given)
    return Judged(_number(data), given)


@functools.cache
def of_instant(jig: str) -> int:
    """The number of a run of which there was nothing to run: only another jig would make of it something else."""
    return _number(_encoded(Given(jig=jig, reason="there was nothing to run")))


def of_nothing(jig: str) -> Judged:
    """What a run is given of which there is nothing to tell but its jig."""
    return _numbered(Given(jig=jig))


def kept(given: Given) -> Given | None:
    """What is stored of it: long texts by their digest, and nothing of what is too large; None where there is nothing to tell."""
    short = msgspec.structs.replace(given, attributes=_short(given.attributes), beside=_short(given.beside))
    if len(msgspec.json.encode(short)) > MOST_BYTES:
        return Given(jig=given.jig, script=given.script, reason="it was too large to be kept")
    return short if short != Given(jig=given.jig) else None


def _parts(layers: Iterable[Layer]) -> list[Mapping[str, Json]]:
    """The layers, as far merged as is the same on top of anything: not where a map stands above what is none."""
    parts: list[Mapping[str, Json]] = []
    for layer in layers:
        if parts and not _replaces(parts[-1], layer.values):
            parts[-1] = merge(parts[-1], layer.values)
        else:
            parts.append(layer.values)
    return parts


def _replaces(below: Mapping[str, Json], above: Mapping[str, Json]) -> bool:
    both = ((below[key], value) for key, value in above.items() if key in below and isinstance(value, dict))
    leaf = secrecy.KEY
    return any(
        not isinstance(one, dict) or leaf in one or leaf in other or _replaces(one, other) for one, other in both
    )


def _beside(sources: Sources, blobs: Blobs, attributes: Mapping[str, Json]) -> Iterator[tuple[str, Json]]:
    """What is seen at the places that the role declares or wants, where that is not the same already."""
    if not sources.watched or not (sources.beside or sources.hints):
        return
    seen = around(sources, blobs)
    for place in sources.watched:
        saying = [layer for layer in seen if at(layer.values, place) is not MISSING]
        if saying:
            known = at(attributes, place)
            value = at(merge(visible(saying), attributes), place)
            if value is not MISSING and (known is MISSING or value != known):
                yield place, value


def _encoded(given: Given) -> bytes:
    return msgspec.json.encode(given, order="sorted")


def _number(data: bytes) -> int:
    return 2 + int.from_bytes(hashlib.sha256(data).digest()[:8], "big") % (_MODULO - 2)


def _short(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _short(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_short(each) for each in value]
    if isinstance(value, str) and len(value) > LONGEST_TEXT:
        return f"{len(value)} characters, sha256 {_digest(value.encode('utf-8', 'surrogatepass'))[:16]}"
    return value


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
