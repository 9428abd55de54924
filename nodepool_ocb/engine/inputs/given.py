"""The inputs of a run that count for comparison: a number in the noderole's record, and the inputs that it stands for.

These inputs are compared:

- the jig, script and parameters of its role;
- the attributes of its ancestors and its own, without the wall that its runs write;
- every other attribute that it sees at the places that its role declares or wants.

Attributes of a noderole beside it at other places depend on the moment when that became ACTIVE, so they do not count. A role
that depends on such an attribute must want it (``wants-attribs``).
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, Final

import msgspec

from nodepool_ocb.engine.attributes import MISSING, at, merge
from nodepool_ocb.engine.inputs.layers import AttributeLayer, Blobs, InputSources, LayerKind, around, visible
from nodepool_ocb.model import secrecy
from nodepool_ocb.model.records import Given, Json

UNKNOWN: Final = 1  # the number of inputs that are not known
LONGEST_TEXT: Final = 200  # characters of a text that is stored; a longer one is stored as its digest
MOST_BYTES: Final = 64 << 10  # of all inputs as stored

_SECRET: Final = f'"{secrecy.KEY}"'.encode()
_MODULO: Final = 10**15  # model.ranges.Count


class Judged(msgspec.Struct, frozen=True):
    """The inputs of a run: the number that stands for them, and the inputs."""

    number: int
    given: Given


def judged(sources: InputSources, blobs: Blobs, memo: dict[str, list[Mapping[str, Json]]] | None = None) -> Judged:
    """The inputs of a run of the noderole now; ``memo`` keeps the attributes of each ancestor from one noderole to the next.

    The inputs of a task are not recorded (number 0): only a run of tasks runs it again.
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
        if layer.kind is not LayerKind.WALL:
            attributes = merge(attributes, layer.values)
    role = sources.role
    script = _digest(role.script.encode())[:16] if role.script else None
    beside = dict(_beside(sources, blobs, attributes))
    return _numbered(
        Given(jig=role.jig, script=script, parameters=role.parameters, attributes=attributes, beside=beside)
    )


def _numbered(given: Given) -> Judged:
    """The number of these inputs. A secret is replaced by its id, which a new key does not change, or by its reference."""
    data = _encoded(given)
    if _SECRET in data:
        given = msgspec.structs.replace(
            given, attributes=secrecy.noted(given.attributes), beside=secrecy.noted(given.beside)
        )
        data = _encoded(given)
    return Judged(_number(data), given)


@functools.cache
def of_instant(jig: str) -> int:
    """The number of the inputs of an inline run: they differ only if the jig differs."""
    return _number(_encoded(Given(jig=jig, reason="there was nothing to run")))


def of_nothing(jig: str) -> Judged:
    """The inputs of a run that has no other input than its jig."""
    return _numbered(Given(jig=jig))


def kept(given: Given) -> Given | None:
    """The inputs as stored: long texts as digests. Too large: a reason instead of attributes. None if there is only the jig."""
    short = msgspec.structs.replace(given, attributes=_short(given.attributes), beside=_short(given.beside))
    if len(msgspec.json.encode(short)) > MOST_BYTES:
        return Given(jig=given.jig, script=given.script, reason="it was too large to be kept")
    return short if short != Given(jig=given.jig) else None


def _parts(layers: Iterable[AttributeLayer]) -> list[Mapping[str, Json]]:
    """Merge neighbouring layers, unless that changes the result on top of other layers: a map above a value that is no map."""
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


def _beside(sources: InputSources, blobs: Blobs, attributes: Mapping[str, Json]) -> Iterator[tuple[str, Json]]:
    """The values at the places that the role declares or wants, if they are not the same in ``attributes``."""
    if not sources.watched or not (sources.beside or sources.hints or sources.machine):
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
    return 2 + int.from_bytes(_sha256(data)[:8], "big") % (_MODULO - 2)


def _short(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _short(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_short(each) for each in value]
    if isinstance(value, str) and len(value) > LONGEST_TEXT:
        return f"{len(value)} characters, sha256 {_digest(value.encode('utf-8', 'surrogatepass'))[:16]}"
    return value


def _digest(data: bytes) -> str:
    return _sha256(data).hex()


def _sha256(data: bytes) -> bytes:
    import hashlib  # here, so that the help of a noun does not load it

    return hashlib.sha256(data).digest()
