"""The znodes below a noderole that no World shows: its attributes, and the records of its runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from nodepool_ocb.engine.world import Vertex
from nodepool_ocb.errors import Invalid, Spoiled
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Change, Create, Json, Run, Set
from nodepool_ocb.operations.operation import Lookup
from nodepool_ocb.views.noderoles import NoderoleRow

if TYPE_CHECKING:
    from nodepool_ocb.operations.performer import Reader


class RowsOf(Lookup[list[NoderoleRow]], frozen=True):
    """The rows of these noderoles, by name; a performer may have made them before."""

    records = ""

    vertices: list[Vertex]

    def answer(self, reader: Reader) -> list[NoderoleRow]:
        return reader.performer.rows_of(self.vertices)


class ReadRuns(Lookup[list[tuple[str, Run]]], frozen=True):
    """The recorded runs of a noderole with their names, oldest first; records that cannot be decoded are left out."""

    records = "runs"

    role: str
    node: str

    def answer(self, reader: Reader) -> list[tuple[str, Run]]:
        names = reader.session.children(paths.runs(self.role, self.node)) or []
        found = _decoded(reader, [paths.run(self.role, self.node, name) for name in names])
        runs = [(name, run) for name, run in zip(names, found, strict=True) if run is not None]
        return sorted(runs, key=lambda each: (each[1].ended, each[0]))


class ReadNewestRuns(Lookup[list[list[tuple[str, Run]]]], frozen=True):
    """The newest recorded runs of noderoles, each a role and a node; so many of each, as ``ReadRuns`` gives them."""

    records = "runs"

    places: tuple[tuple[str, str], ...]
    each: int

    def answer(self, reader: Reader) -> list[list[tuple[str, Run]]]:
        children = reader.session.children_many([paths.runs(role, node) for role, node in self.places])
        named = [
            (place, name)
            for place, names in enumerate(children)
            for name in sorted(names or ())[-self.each :]  # a name begins with the number of the run
        ]
        found: list[list[tuple[str, Run]]] = [[] for _ in self.places]
        records = _decoded(reader, [paths.run(*self.places[place], name) for place, name in named])
        for (place, name), run in zip(named, records, strict=True):
            if run is not None:
                found[place].append((name, run))
        return found


class ReadRunsAt(Lookup[Sequence[Run | None]], frozen=True):
    """The records of runs at these paths; None for one that does not exist or cannot be decoded."""

    records = "runs"

    places: tuple[str, ...]

    def answer(self, reader: Reader) -> Sequence[Run | None]:
        return _decoded(reader, self.places)


def _decoded(reader: Reader, places: Sequence[str]) -> list[Run | None]:
    from nodepool_ocb.store.client import codec

    found: list[Run | None] = []
    for znode in reader.session.get_many(places):
        try:
            found.append(codec.decode(Run, znode) if znode is not None else None)
        except Invalid:
            found.append(None)
    return found


class ReadBlobs(Lookup[Mapping[str, Mapping[str, Any]]], frozen=True):
    """The attributes at these paths, without those that do not exist; raises Spoiled for one that cannot be read."""

    records = "attributes of noderoles"

    places: tuple[str, ...]

    def answer(self, reader: Reader) -> Mapping[str, Mapping[str, Any]]:
        from nodepool_ocb.store.client import blobs

        return blobs.attributes(reader.session, self.places)


class ReadSpoiled(Lookup[dict[str, str]], frozen=True):
    """The paths with attributes that cannot be read, each with the reason."""

    records = "attributes of noderoles"

    places: tuple[str, ...]

    def answer(self, reader: Reader) -> dict[str, str]:
        from nodepool_ocb.store.client import codec

        found: dict[str, str] = {}
        for path, znode in zip(self.places, reader.session.get_many(self.places), strict=True):
            try:
                codec.attributes(znode)
            except Invalid as wrong:
                found[path] = str(wrong)
        return found


class AttributesRead(msgspec.Struct, frozen=True):
    """Attributes as they were read; ``version`` is None if there is no znode."""

    path: str
    value: Mapping[str, Json]
    version: int | None

    def becoming(self, value: Mapping[str, Json]) -> Change:
        """The change to other attributes; it is refused if another writer changed them since."""
        return Create(self.path, value) if self.version is None else Set(self.path, value, self.version)


class ReadAttributesAt(Lookup[AttributesRead], frozen=True):
    """The attributes at one path, with their version; raises Invalid if they are not JSON."""

    records = "attributes of noderoles"

    path: str

    def answer(self, reader: Reader) -> AttributesRead:
        from nodepool_ocb.store.client import codec

        znode = reader.session.get(self.path)
        return AttributesRead(self.path, codec.attributes(znode), znode.version if znode else None)


class OwnedBlob(msgspec.Struct, frozen=True):
    """The attributes that a noderole keeps in a znode of their own."""

    name: str  # of the noderole and the layer
    role: str
    path: str
    value: Mapping[str, Json]
    version: int


class ReadOwnedBlobs(Lookup[list[OwnedBlob]], frozen=True):
    """Attributes that exist, of ``wanted``: name, role and path of each. A note names those that cannot be decoded."""

    records = "attributes of noderoles"

    wanted: tuple[tuple[str, str, str], ...]

    def answer(self, reader: Reader) -> list[OwnedBlob]:
        from nodepool_ocb.store.client import codec

        found: list[OwnedBlob] = []
        znodes = reader.session.get_many([path for *_, path in self.wanted])
        for (name, role, path), znode in zip(self.wanted, znodes, strict=True):
            try:
                if znode is not None:
                    found.append(OwnedBlob(name, role, path, codec.attributes(znode), znode.version))
            except Spoiled as wrong:
                reader.performer.caller.note(f"warning: {wrong}")
        return found


class ReadSkippedTasks(Lookup[list[tuple[str, str, str]]], frozen=True):
    """The skipped tasks of a run of tasks: task, node, reason."""

    records = "runs of tasks"

    deployment: str
    run: str

    def answer(self, reader: Reader) -> list[tuple[str, str, str]]:
        from nodepool_ocb.store.tasks import runs
        from nodepool_ocb.tasks.runs.records import Table

        return list(runs.table(reader.session, self.deployment, self.run, Table.SKIPPED))
