"""Outdated noderoles: ACTIVE ones with inputs that changed since their newest run, and the differences."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from nodepool_ocb.engine import unreadable
from nodepool_ocb.engine.attributes import MISSING, compared, differ, says
from nodepool_ocb.engine.inputs.alike import AlikeInputs
from nodepool_ocb.engine.inputs.given import UNKNOWN, Judged, judged, kept, of_instant
from nodepool_ocb.engine.inputs.layers import AttributeLayer, Blobs, Catalogue, layers, sources
from nodepool_ocb.engine.noderole import refreshable, renewing
from nodepool_ocb.engine.world import Vertex, World
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Given, Json, NodeRole


class InputChange(msgspec.Struct, frozen=True):
    """One input that changed: an attribute, or a property of the role.

    ``before`` and ``now`` are UNSET if there was, or is, no value; ``layer`` names the layer of the present value.
    """

    what: str  # the attribute's place, a/b/c; "jig", "script", or "parameters/..."
    before: Json | msgspec.UnsetType = msgspec.UNSET
    now: Json | msgspec.UnsetType = msgspec.UNSET
    layer: str | None = None


def outdated(record: NodeRole, now: Judged) -> bool:
    """Whether the inputs changed since its newest run; false if it will run anyway, or if the inputs of that run are not known.

    >>> from nodepool_ocb.model.records import State
    >>> record = NodeRole(state=State.ACTIVE, since=0.0, given=7)
    >>> outdated(record, Judged(7, Given(jig="script"))), outdated(record, Judged(8, Given(jig="script")))
    (False, True)
    """
    if not refreshable(record) or renewing(record):
        return False
    return record.given not in (0, now.number, of_instant(now.given.jig))


def all_outdated(world: World, vertices: Iterable[Vertex], blobs: Blobs) -> list[Vertex]:
    """The outdated noderoles, in order; the attributes of ``read_for`` must have been read."""
    catalogue, memo = Catalogue(world), dict[str, list[Mapping[str, Json]]]()
    alike, of_alike = AlikeInputs(catalogue, blobs), dict[Hashable, Judged]()

    def now(vertex: Vertex) -> Judged:
        key = alike.key(vertex)
        if key in of_alike:
            return of_alike[key]
        found = judged(sources(world, vertex, world.roles[vertex.role].record, catalogue), blobs, memo)
        if key is not None:
            of_alike[key] = found
        return found

    return [each for each in candidates(vertices) if outdated(each.record, now(each))]


def candidates(vertices: Iterable[Vertex]) -> list[Vertex]:
    """The noderoles that may be outdated by their own records alone."""
    return [
        each
        for each in vertices
        if each.record.given
        and refreshable(each.record)
        and not renewing(each.record)
        and not each.unreadable
        and (stored := each.node.world.roles.get(each.role)) is not None
        and each.record.given != of_instant(stored.record.jig)
    ]


def read_for(vertices: Iterable[Vertex]) -> list[str]:
    """The paths of the noderoles with attributes that the candidates among ``vertices`` see; each once, in order."""
    everyone = unreadable.seen_by_all(candidates(vertices))
    return sorted(paths.noderole(each.role, each.node.name) for each in everyone)


def differences(world: World, vertex: Vertex, blobs: Blobs, before: Given | None) -> list[InputChange]:
    """The differences of the present inputs from those of the newest run, stored as ``before``; by place.

    If the old or new inputs are not known, the result is one difference of everything. Without ``before``, the old inputs count
    as the present jig alone. If no difference is found then, the result is one difference of the jig.
    """
    record = vertex.record
    found = sources(world, vertex, world.roles[vertex.role].record)
    now = judged(found, blobs)
    if record.given == UNKNOWN or (before is not None and before.reason):
        return [InputChange("everything", before.reason if before else "not known")]
    new = kept(now.given) or Given(jig=now.given.jig)
    if new.reason:
        return [InputChange("everything", now=new.reason)]
    old = before or Given(jig=now.given.jig)
    only_jig = [InputChange("jig", "another", new.jig, "role")]  # no more of the old inputs is known
    return between(old, new, layers(found, blobs)) or only_jig


def between(old: Given, new: Given, of_layers: Sequence[AttributeLayer] = ()) -> list[InputChange]:
    """The differences from one to the other, by place; ``of_layers``: the layers that may hold the present values.

    If the inputs of one of them are not known, the result is one difference of everything.
    """
    if old.reason or new.reason:
        return [InputChange("everything", old.reason or msgspec.UNSET, new.reason or msgspec.UNSET)]
    changed = {key: (one, other) for key, one, other in compared(old.attributes, new.attributes)}
    for place in sorted(old.beside.keys() | new.beside.keys()):
        one, other = old.beside.get(place, MISSING), new.beside.get(place, MISSING)
        if differ(one, other):
            changed.setdefault(tuple(place.split("/")), (one, other))
    return [
        *_of_role(old, new),
        *(_attribute(key, one, other, of_layers) for key, (one, other) in sorted(changed.items())),
    ]


def _of_role(before: Given, now: Given) -> Iterator[InputChange]:
    for what in ("jig", "script"):
        one, other = getattr(before, what), getattr(now, what)
        if one != other:
            yield InputChange(what, one or msgspec.UNSET, other or msgspec.UNSET, "role")
    for key, one, other in compared(before.parameters, now.parameters):
        yield InputChange("/".join(("parameters", *key)), _or_unset(one), _or_unset(other), "role")


def _attribute(key: tuple[str, ...], before: Any, now: Any, of_layers: Sequence[AttributeLayer]) -> InputChange:
    origin = _origin(key, of_layers) if now is not MISSING else None
    return InputChange("/".join(key), _or_unset(before), _or_unset(now), origin)


def _origin(key: tuple[str, ...], of_layers: Sequence[AttributeLayer]) -> str | None:
    """The strongest layer with a value there."""
    return next((str(layer) for layer in reversed(of_layers) if says(layer.values, key)), None)


def _or_unset(value: Any) -> Any:
    return msgspec.UNSET if value is MISSING else value
