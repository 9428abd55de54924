"""Values that a role declares as secret and that are stored in plain text, for example because the declaration is newer.

Commands and pages show such a value as a secret, at each place that any role declares as secret, in any form. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final

from nodepool_ocb.engine.attributes import MISSING, at
from nodepool_ocb.engine.inputs.templates import secret
from nodepool_ocb.engine.world import World
from nodepool_ocb.model import secrecy
from nodepool_ocb.model.records import Json, Role

IN_PLACE: Final[Mapping[str, Json]] = {secrecy.KEY: "plain"}
LAYERS: Final = ("user", "system")  # of a deployment role, as the fields of its record are called


def places(roles: Iterable[Role]) -> frozenset[str]:
    """The places (a/b/c) that any of these roles declares as secret."""
    return frozenset(attrib.map for role in roles for attrib in role.attribs if attrib.secret)


def of_world(world: World) -> frozenset[str]:
    """The places that any role of the cluster declares as secret."""
    return places(stored.record for stored in world.roles.values())


def plain(catalogue: Mapping[str, Role], role: str, blob: Json) -> Iterator[tuple[str, Json]]:
    """The places at which a role's attributes are secret and a blob of them has plain text, with that."""
    for place in secret(catalogue, role) if role in catalogue else ():
        value = at(blob, place)
        if value is not MISSING and value is not None and not secrecy.is_secret(value):
            yield place, value


def wrapped(value: Any, declared: Collection[str], place: str = "") -> Any:
    """The value with a secret in place of each plain value at these places, so that nothing shows it.

    >>> wrapped({"db": {"password": "x", "name": "shop"}}, {"db/password"})
    {'db': {'password': {'$secret': 'plain'}, 'name': 'shop'}}
    """
    if place in declared:
        return value if value is None or secrecy.is_secret(value) else dict(IN_PLACE)
    if not declared or secrecy.is_secret(value):
        return value
    above = f"{place}/" if place else ""
    if isinstance(value, Mapping):
        return {key: wrapped(each, declared, f"{above}{key}") for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [wrapped(each, declared, f"{above}{index}") for index, each in enumerate(value)]
    return value


def covers(declared: Collection[str], field: str) -> bool:
    """Whether a field of a change or of a difference shows something of these places.

    >>> [covers({"db/password"}, each) for each in ("db/password", "user/db/password", "db/password/0", "db", "db/name")]
    [True, True, True, True, False]
    """
    layer, _, rest = field.partition("/")
    paths = [field, rest] if layer in LAYERS and rest else [field]
    return any(f"{path}/".startswith(f"{each}/") or each.startswith(f"{path}/") for path in paths for each in declared)
