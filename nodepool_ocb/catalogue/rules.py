"""The catalogue of roles: the rules among roles, and the attributes of each (seeds 000 and 001).

A catalogue maps names to roles. A role may name others that are imported later: a loose end, not a problem. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from nodepool_ocb.documents.counting import some
from nodepool_ocb.documents.cycles import components
from nodepool_ocb.documents.schema import faults_in_value
from nodepool_ocb.documents.suggest import did_you_mean
from nodepool_ocb.engine import attributes as blobs
from nodepool_ocb.engine.inputs import templates
from nodepool_ocb.errors import Invalid, NotFound
from nodepool_ocb.model import secrecy
from nodepool_ocb.model.records import Attrib, Json, Role

#: The flags of seeds 000 and 001.
FLAGS: Final = ("implicit", "bootstrap", "discovery", "cluster", "destructive", "abstract", "milestone", "library")
#: Flags of OpenCrowbar that change nothing here, and are kept.
LEGACY_FLAGS: Final = ("service", "powersave", "server", "leader", "cohort")


class RoleFinding(msgspec.Struct, frozen=True):
    """A fact about a role that its author should know; ``field`` and ``item`` are its place in the barclamp."""

    role: str
    field: str
    item: str
    text: str
    others: frozenset[str] = frozenset()  # roles that are as much to blame

    def __str__(self) -> str:
        return f"role {self.role}: {self.text}"


def check(catalogue: Mapping[str, Role]) -> list[str]:
    """Every problem of a catalogue, as a sentence."""
    return [str(finding) for finding in problems(catalogue)]


def problems(catalogue: Mapping[str, Role]) -> Iterator[RoleFinding]:
    """Faults that make roles meaningless: such a role can never be bound, after any import of other roles."""
    for knot in components({name: role.requires for name, role in catalogue.items()}):
        first, needed = knot.circle[:2]
        text = f"roles require each other in a circle: {knot}; take one of these requirements away"
        yield RoleFinding(first, "requires", needed, text, knot.names)
    for name, role in sorted(catalogue.items()):
        for field, others in (("conflicts", role.conflicts), ("provides", role.provides)):
            if name in others:
                yield RoleFinding(name, field, name, f"a role that {field} itself says nothing; take it away")


def loose_ends(catalogue: Mapping[str, Role]) -> Iterator[RoleFinding]:
    """References that another import may repair, and those that prevent some binds: each is worth a warning."""
    declared = {attrib.name for role in catalogue.values() for attrib in role.attribs}
    for name, role in sorted(catalogue.items()):
        for need in role.requires:
            if need not in catalogue:
                hint = (
                    did_you_mean(need, catalogue, present=role.requires)
                    or "; until its barclamp is imported, this role cannot be bound"
                )
                yield RoleFinding(name, "requires", need, f"requires {need}, which is not known{hint}")
        for below in role.attaches:
            if below not in catalogue:
                hint = (
                    did_you_mean(below, catalogue, present=role.attaches)
                    or "; it depends on this role as soon as its barclamp is imported"
                )
                yield RoleFinding(name, "attaches", below, f"attaches to {below}, which is not known{hint}")
        for wanted in role.wants_attribs:
            if wanted not in declared:
                hint = (
                    did_you_mean(wanted, declared, present=role.wants_attribs)
                    or "; until one does, it is not there to be seen"
                )
                yield RoleFinding(
                    name, "wants-attribs", wanted, f"wants attribute {wanted}, which no known role declares{hint}"
                )
        yield from _beside_ancestors(catalogue, name, role)


def _beside_ancestors(catalogue: Mapping[str, Role], name: str, role: Role) -> Iterator[RoleFinding]:
    """Roles that this one depends on, and may not share a node with."""
    for other in sorted(ancestry(catalogue, name)):
        above = catalogue[other]
        if other in role.provides or name in above.provides:
            text = f"depends on {other}, and one of them stands in for the other, which forbids just that (seed 001)"
            yield RoleFinding(name, "provides", other, text)
        elif other in role.conflicts or name in above.conflicts:
            text = f"depends on {other} and conflicts with it: it can be bound only where {other} is on another node"
            yield RoleFinding(name, "requires" if other in role.requires else "conflicts", other, text)
        elif set(role.provides).intersection(above.provides):
            third = min(set(role.provides).intersection(above.provides))
            text = f"depends on {other}, and both stand in for {third}: it can be bound only where {other} is on another node"
            yield RoleFinding(name, "provides", third, text)


def ancestry(catalogue: Mapping[str, Role], name: str) -> set[str]:
    """The known roles that a role depends on, directly or not; itself only in a circle."""
    found: set[str] = set()
    queue = [name]
    while queue:
        for need in catalogue[queue.pop()].requires:
            if need in catalogue and need not in found:
                found.add(need)
                queue.append(need)
    return found


# -- attributes --


def attributes(catalogue: Mapping[str, Role], name: str) -> dict[str, Attrib]:
    """The attributes of a role by name, with those of the roles that it provides, as if it declared them (seed 001).

    Raises NotFound if the role is not known.
    """
    return {attrib.name: attrib for each in reversed(_provided(catalogue, name)) for attrib in each.attribs}


def secret_places(catalogue: Mapping[str, Role], name: str) -> tuple[str, ...]:
    """The paths of the attributes of a role that are secret; raises NotFound if the role is not known."""
    _provided(catalogue, name)
    return templates.secret(catalogue, name)


def template(catalogue: Mapping[str, Role], name: str) -> dict[str, Json]:
    """The defaults of all attributes that a role has, its own before those of the roles that it provides.

    Raises NotFound if the role is not known.
    """
    _provided(catalogue, name)
    return templates.template(catalogue, name)


def _provided(catalogue: Mapping[str, Role], name: str) -> list[Role]:
    """The role, then those that it provides, the nearest first."""
    if name not in catalogue:
        raise NotFound(f"role {name} is not known{did_you_mean(name, catalogue)}; see: nodepool-ocb role list")
    return templates.provided(catalogue, name)


def attribute(catalogue: Mapping[str, Role], role: str, name: str) -> Attrib:
    """The attribute of this name; raises NotFound, saying which was probably meant."""
    known = attributes(catalogue, role)
    if name not in known:
        hint = did_you_mean(name, known) or f"; it has: {', '.join(sorted(known)) or 'none'}"
        raise NotFound(f"role {role} has no attribute {name}{hint}")
    return known[name]


def attribute_path(catalogue: Mapping[str, Role], role: str, key: str) -> str:
    """Where a key of ``set`` points: an attribute's name means its path, anything with a ``/`` is a path.

    Raises NotFound for a name that is neither, and for a path that no declared attribute contains: most likely a slip.
    """
    key = key.strip("/")
    if "/" not in key:
        return attribute(catalogue, role, key).map
    declared = [attrib.map for attrib in attributes(catalogue, role).values()]
    beside = [each for each in declared if each.partition("/")[0] == key.partition("/")[0]]
    if beside and not any(f"{key}/".startswith(f"{each}/") or each.startswith(f"{key}/") for each in beside):
        raise NotFound(
            f"role {role} declares nothing at {key}{did_you_mean(key, beside)}; see: nodepool-ocb role show {role}"
        )
    return key


def slips(
    catalogue: Mapping[str, Role], role: str, blob: Mapping[str, Json], before: Mapping[str, Json] | None = None
) -> list[str]:
    """A sentence for each value of a blob at a path that ``attribute_path`` refuses; a value of ``before`` there is no slip.

    Raises NotFound if the role is not known.
    """
    declared = sorted({attrib.map for attrib in attributes(catalogue, role).values()})
    return [
        f"role {role} declares nothing at {path}{did_you_mean(path, near) or _known(declared)}"
        for path, near in _undeclared(declared, blob, "")
        if blobs.at(before or {}, path) is blobs.MISSING
    ]


def _known(declared: Sequence[str]) -> str:
    return f"; it has: {some(declared)}" if declared else "; it has no attribute"


def _undeclared(declared: Collection[str], value: Mapping[str, Json], above: str) -> Iterator[tuple[str, list[str]]]:
    """The paths of the values that no attribute has, and that lie beside one, or are no map at the top."""
    for key, each in value.items():
        path = f"{above}{key}"
        beside = [place for place in declared if place.partition("/")[0] == path.partition("/")[0]]
        if any(f"{path}/".startswith(f"{place}/") for place in declared):
            continue
        deeper = isinstance(each, Mapping) and not secrecy.is_secret(each)
        if deeper and (not beside or any(place.startswith(f"{path}/") for place in declared)):
            yield from _undeclared(declared, each, f"{path}/") if beside else ()
        else:
            yield path, beside or list(declared)


def place(catalogue: Mapping[str, Role], role: str, key: str) -> str:
    """The path that a key of ``unset`` means: as for ``set``, and also one that nothing declares any more."""
    known = attributes(catalogue, role)
    return known[key].map if key in known else key.strip("/")


def faults(
    catalogue: Mapping[str, Role], role: str, blob: Mapping[str, Json], below: Mapping[str, Json] | None = None
) -> list[str]:
    """The faults of the values in a blob: one sentence for each fault, by attribute.

    Checks the attributes that the blob sets (or sets a part of), with the blob laid over ``below``. Checks also the attributes
    for which it leaves no room.
    """
    seen = blobs.merge(below or {}, blob)
    declared = sorted(attributes(catalogue, role).values(), key=lambda attrib: attrib.name)
    sentences = [f"role {role}: {fault}" for fault in _without_room(declared, blob, seen)]
    for attrib in declared:
        if attrib.schema is not None and blobs.at(blob, attrib.map) is not blobs.MISSING:
            value = blobs.read(seen, attrib.map)
            if secrecy.holds(value):  # it was looked at before it was encrypted
                continue
            found = faults_in_value(attrib.schema, value)
            if attrib.secret and found:
                found = [f"it does not fit its schema, and is secret; see: nodepool-ocb role show {role}"]
            sentences += [f"role {role}: attribute {attrib.name} ({attrib.map}): {fault}" for fault in found]
    return sentences


def checked(
    catalogue: Mapping[str, Role], role: str, blob: Mapping[str, Json], below: Mapping[str, Json] | None = None
) -> None:
    """Raises Invalid with every fault of the values in a blob."""
    found = faults(catalogue, role, blob, below)
    if found:
        raise Invalid(found)


def no_worse(
    catalogue: Mapping[str, Role],
    role: str,
    before: Mapping[str, Json],
    after: Mapping[str, Json],
    below: Mapping[str, Json],
) -> None:
    """Raises Invalid with every fault that a blob has after a change and had not before."""
    old = faults(catalogue, role, before, below)
    found = [fault for fault in faults(catalogue, role, after, below) if fault not in old]
    if found:
        raise Invalid(found)


def _without_room(declared: Iterable[Attrib], blob: Mapping[str, Json], seen: Mapping[str, Json]) -> Iterator[str]:
    """Each path at which the blob has a plain value or a list, though attributes lie inside it."""
    inside: dict[str, list[str]] = {}
    for attrib in declared:
        steps = attrib.map.split("/")
        for length in range(1, len(steps)):
            above = "/".join(steps[:length])
            if blobs.at(blob, above) is not blobs.MISSING:
                value = blobs.read(seen, above)
                if not isinstance(value, dict) and not (isinstance(value, list) and steps[length].isdecimal()):
                    inside.setdefault(above, []).append(attrib.name)
                    break
    for above, names in sorted(inside.items()):
        fault = faults_in_value({"type": "object"}, blobs.read(seen, above))[0]
        yield f"{above}: {fault}; inside it: {some(names)}"
