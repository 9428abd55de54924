"""The world, and the parts of it that no world holds: attributes, and whole branches of the tree."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from nodepool_ocb.engine.world import World
from nodepool_ocb.errors import Conflict
from nodepool_ocb.model.records import Change, Delete, Given, Json
from nodepool_ocb.operations.operation import Lookup

if TYPE_CHECKING:
    from collections import Counter

    from nodepool_ocb.model.records import State
    from nodepool_ocb.operations.performer import Reader
    from nodepool_ocb.store.client.blobs import FoundBlobs
    from nodepool_ocb.store.client.frames import Znode
    from nodepool_ocb.store.client.session import Session


class ReadWorld(Lookup[World], frozen=True):
    """Everything below ``/ocb``, as it is now, or the part ``near`` the objects of the operation (``Operation.near``).

    A note names each record that cannot be read; where there is any, a part does not suffice.
    """

    records = "everything below /ocb"

    def answer(self, reader: Reader) -> World:
        reader.world = reader.performer.load_near(reader.session, reader.near)
        return reader.world


class ReadNodeStates(Lookup["tuple[World, Mapping[str, Counter[State]] | None]"], frozen=True):
    """Nodes and deployments, and for each node the number of noderoles in each state; None if the world has the noderoles."""

    records = "nodes, and the states of noderoles"

    def answer(self, reader: Reader) -> tuple[World, Mapping[str, Counter[State]] | None]:
        return reader.performer.load_states(reader.session)


class ReadWorldAgain(Lookup[World], frozen=True):
    """As ``ReadWorld``, without the notes: an earlier read of this call sent them."""

    records = "everything below /ocb"

    def answer(self, reader: Reader) -> World:
        from nodepool_ocb.store.world.load import load_world

        return _anew(reader, load_world)


class ReadCensus(Lookup[World], frozen=True):
    """As ``ReadWorldAgain``, to count in: of nodes with equal noderoles it has those of one (``CensusWorld``)."""

    records = "everything below /ocb"

    def answer(self, reader: Reader) -> World:
        from nodepool_ocb.store.world.census import census

        return _anew(reader, census)


def _anew(reader: Reader, load: Callable[[Session], World]) -> World:
    """The world that ``load`` reads, with all that was written before this call."""
    reader.session.sync()
    reader.world = load(reader.session)
    return reader.world


class ReadAttributes(Lookup["FoundBlobs"], frozen=True):
    """The attributes called ``names`` below the noderoles at the paths ``folders``."""

    records = "attributes of noderoles"

    folders: Sequence[str]
    names: Sequence[str]

    def answer(self, reader: Reader) -> FoundBlobs:
        from nodepool_ocb.store.client import blobs

        return blobs.read(reader.session, self.folders, self.names)


class ReadRunInputs(Lookup[Sequence[Given | None]], frozen=True):
    """The recorded inputs of the newest runs, by path; None where none are recorded."""

    records = "inputs of runs"

    places: Sequence[str]

    def answer(self, reader: Reader) -> Sequence[Given | None]:
        from nodepool_ocb.store.client import blobs

        return blobs.given(reader.session, self.places)


class ReadDeletions(Lookup[list[Change]], frozen=True):
    """The deletions of a path and all below it, at the versions of the world that was read last.

    Raises Stale if a record came or changed since that world was read, and Invalid for one that cannot be read.
    """

    records = "a branch of the tree"

    path: str

    def answer(self, reader: Reader) -> list[Change]:
        from nodepool_ocb.store.subtree import removal_as_judged

        return removal_as_judged(reader.session, reader.world, self.path)


class Branch(msgspec.Struct, frozen=True):
    """A path and all below it: the deletions, as ``ReadDeletions`` gives them, and the JSON of each znode."""

    deletions: list[Delete]
    contents: Mapping[str, Json]


class ReadBranch(Lookup[Branch], frozen=True):
    """A path and all below it; raises as ``ReadDeletions``, and Conflict for content that is not JSON."""

    records = "a branch of the tree"

    path: str

    def answer(self, reader: Reader) -> Branch:
        from nodepool_ocb.store.subtree import judged, subtree

        znodes = subtree(reader.session, self.path)
        contents = {znode.path: _content(znode) for znode in znodes}  # first: this error names the next step
        return Branch(judged(reader.world, znodes), contents)


def _content(znode: Znode) -> Json:
    from nodepool_ocb.store.client import codec

    try:
        return msgspec.json.decode(codec.unsigned(znode.data)) if znode.data else None
    except msgspec.DecodeError as wrong:
        raise Conflict(
            f"{znode.path} cannot be read, so it cannot move to the new name: {wrong}; see: nodepool-ocb record show {znode.path}"
        ) from wrong
