"""What lies below a noderole and no World shows: its attributes, and the records of its runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from nodepool_ocb.engine import drift, unreadable
from nodepool_ocb.engine.inputs import concealing
from nodepool_ocb.engine.world import Vertex
from nodepool_ocb.errors import Invalid
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Change, Create, Json, Run, Set
from nodepool_ocb.views.noderoles import Layers

if TYPE_CHECKING:
    from nodepool_ocb.store.client.session import Session


def recorded(opened: Session, vertex: Vertex) -> list[tuple[str, Run]]:
    """The runs that are kept, oldest first; what cannot be decoded is left out."""
    from nodepool_ocb.store.client import codec

    role, fqdn = vertex.role, vertex.node.name
    names = opened.children(paths.runs(role, fqdn)) or []
    found: list[tuple[str, Run]] = []
    for name, znode in zip(names, opened.get_many([paths.run(role, fqdn, name) for name in names]), strict=True):
        try:
            if znode is not None:
                found.append((name, codec.decode(Run, znode)))
        except Invalid:
            continue
    return sorted(found, key=lambda each: (each[1].ended, each[0]))


def checks(opened: Session, vertices: Sequence[Vertex]) -> list[Run | None]:
    """The record of each one's newest check; None where there is none, or it cannot be decoded."""
    from nodepool_ocb.store.client import codec

    checked = {vertex.name: vertex.record.checked for vertex in vertices}
    wanted = {
        vertex.name: paths.run(vertex.role, vertex.node.name, found.run)
        for vertex in vertices
        if (found := checked[vertex.name]) is not None
    }
    znodes = dict(zip(wanted, opened.get_many(list(wanted.values())), strict=True))

    def decoded(name: str) -> Run | None:
        znode = znodes.get(name)
        try:
            return codec.decode(Run, znode) if znode is not None else None
        except Invalid:
            return None

    return [decoded(vertex.name) for vertex in vertices]


def newest_check(opened: Session, vertex: Vertex, above: int) -> tuple[str, Run] | None:
    """The newest check that ended and was claimed under an epoch above this one."""
    found = [each for each in recorded(opened, vertex) if each[0].endswith(drift.CHECK) and each[1].epoch > above]
    return found[-1] if found else None


def attributes(opened: Session, vertex: Vertex, *, reveal: bool = False) -> Layers:
    """The noderole's own layers; with secret values in plain text only to ``reveal`` them."""
    from nodepool_ocb.store.client import codec

    role, fqdn = vertex.role, vertex.node.name
    layers = {"user": paths.user(role, fqdn), "system": paths.system(role, fqdn), "wall": paths.wall(role, fqdn)}
    znodes = opened.get_many(list(layers.values()))
    declared = frozenset() if reveal else concealing.of_world(vertex.node.world)
    found = {layer: codec.attributes(znode) for layer, znode in zip(layers, znodes, strict=True)}
    return Layers(**{layer: concealing.wrapped(blob, declared) for layer, blob in found.items()})


def spoiled(opened: Session, vertex: Vertex) -> dict[str, str]:
    """The attributes that its jig would see and that cannot be read: their paths, and why."""
    from nodepool_ocb.store.client import codec

    wanted = sorted({path for each in unreadable.seen_by(vertex) for path in unreadable.blobs(each)})
    found: dict[str, str] = {}
    for path, znode in zip(wanted, opened.get_many(wanted), strict=True):
        try:
            codec.attributes(znode)
        except Invalid as wrong:
            found[path] = str(wrong)
    return found


class Layer(msgspec.Struct, frozen=True):
    """Attributes as they were read; ``version`` is None where nobody has set any."""

    path: str
    value: Json
    version: int | None

    def becoming(self, value: Json) -> Change:
        """The change that puts other attributes in their place, unless somebody did meanwhile."""
        return Create(self.path, value) if self.version is None else Set(self.path, value, self.version)


def layer(opened: Session, path: str) -> Layer:
    """One layer of a noderole's attributes; raises Invalid where it is no JSON."""
    from nodepool_ocb.store.client import codec

    znode = opened.get(path)
    return Layer(path, codec.attributes(znode), znode.version if znode else None)
