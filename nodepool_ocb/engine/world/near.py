"""A World of a few nodes that says where it ends: a decision that asks for more gets Unread, never a wrong answer.

It has the nodes that it was made for as a whole, with all ancestors of their noderoles, and the records that belong to no node.
It has these parts of other nodes: the record, the claim, the fence, and the noderoles among those ancestors. It has no children
of a noderole but those of the noderoles for which they were looked up.

``seal`` ends its loading. From then on each question about another record raises Unread: by name, by kind, and by iteration.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, NoReturn, TypeVar, overload

import msgspec

from nodepool_ocb.engine.world.edges import Edges
from nodepool_ocb.engine.world.vertex import ClusterView, NodeView, Vertex
from nodepool_ocb.engine.world.world import World
from nodepool_ocb.errors import Unread
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Record

K = TypeVar("K")
V = TypeVar("V")


class _ReadPart(dict[K, V]):
    """A part of a mapping. After ``seal``, a key that is neither here nor in ``absent`` raises Unread, and so does all of it."""

    def __init__(self) -> None:
        super().__init__()
        self.absent: set[Any] = set()
        self.sealed = False

    def seal(self, absent: Iterable[K] = ()) -> None:
        self.absent.update(absent)
        self.sealed = True

    def _require(self, key: object) -> None:
        if self.sealed and key not in self.absent and not super().__contains__(key):
            raise Unread(f"{key} was not read")

    def _require_all(self) -> None:
        if self.sealed:
            raise Unread("a part was read")

    def get(self, key: K, default: Any = None) -> Any:
        self._require(key)
        return super().get(key, default)

    def __getitem__(self, key: K) -> V:
        self._require(key)
        return super().__getitem__(key)

    def __contains__(self, key: object) -> bool:
        self._require(key)
        return super().__contains__(key)

    def __iter__(self) -> Iterator[K]:
        self._require_all()
        return super().__iter__()

    def __len__(self) -> int:
        self._require_all()
        return super().__len__()

    def keys(self) -> Any:
        self._require_all()
        return super().keys()

    def values(self) -> Any:
        self._require_all()
        return super().values()

    def items(self) -> Any:
        self._require_all()
        return super().items()

    def copy(self) -> NoReturn:
        raise Unread("a part was read")

    def read(self) -> list[V]:
        """The values that are here, for the loading."""
        return list(super().values())


class _KnownClusters(_ReadPart[str, ClusterView]):
    """Each parent of a noderole is asked for here, too: the name of a noderole is no cluster's."""

    def _require(self, key: object) -> None:
        if paths.split_cluster(str(key)) is not None:
            super()._require(key)


class UnreadSet(set[K]):
    """A set of which no part is known."""

    def __iter__(self) -> Iterator[K]:
        raise Unread("a part was read")

    def __len__(self) -> int:
        raise Unread("a part was read")

    def __contains__(self, key: object) -> bool:
        raise Unread("a part was read")


class _UnreadChildren(Sequence[Vertex]):
    """The children of a noderole that were not looked up."""

    def __init__(self, name: str) -> None:
        self._name = name

    def _unread(self) -> NoReturn:
        raise Unread(f"the children of {self._name} were not read", self._name)

    def __iter__(self) -> Iterator[Vertex]:
        self._unread()

    def __len__(self) -> int:
        self._unread()

    def __contains__(self, value: object) -> bool:
        self._unread()

    @overload
    def __getitem__(self, index: int) -> Vertex: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Vertex]: ...
    def __getitem__(self, index: int | slice) -> Vertex | Sequence[Vertex]:
        self._unread()


class Extent(msgspec.Struct, frozen=True, kw_only=True):
    """All that a near world has.

    ``nodes``: read as a whole. ``absent``: nodes and noderoles that were asked for and do not exist. ``of_nodes``: the kinds of
    records that were read of ``nodes`` alone, ``unread`` of nothing. ``families``: noderoles and clusters with all of their
    children; ``clusters``: with all of their members.
    """

    nodes: Collection[str]
    absent: Collection[str]
    of_nodes: Collection[type[Record]]
    unread: Collection[type[Record]]
    families: Collection[str]
    clusters: Collection[str]


class NearWorld(World):
    """Loaded as any other, then sealed."""

    nodes: _ReadPart[str, NodeView]
    clusters: _KnownClusters

    def __init__(self) -> None:
        super().__init__()
        self.nodes, self.clusters = _ReadPart(), _KnownClusters()
        self.edges = Edges(self.nodes)
        self.edges.clusters = self.clusters

    def below(self, name: str) -> Sequence[Vertex]:
        vertex = self.vertex(name)
        if vertex is None:
            raise Unread(f"the children of {name} were not read", name)
        return vertex.children

    def seal(self, extent: Extent) -> None:
        """End the loading."""
        for kind in extent.of_nodes:
            self._kept[kind] = sealed(self.of(kind), absent=extent.nodes)
        for kind in extent.unread:
            self._kept[kind] = sealed(self.of(kind))
        absent: dict[str, list[str]] = {}
        for name in extent.absent:
            role, _, fqdn = name.rpartition("@")
            absent.setdefault(fqdn, []).append(role)
        for view in self.nodes.read():
            for vertex in view.noderoles.values():
                if vertex.name not in extent.families:
                    vertex.below = _UnreadChildren(vertex.name)
            if view.name not in extent.nodes:
                view.noderoles = sealed(view.noderoles, absent.get(view.name, ()))
                view.ready, view.failed = UnreadSet(), UnreadSet()
        for cluster in self.clusters.read():
            if cluster.name not in extent.families:
                cluster.below = _UnreadChildren(cluster.name)  # type: ignore[assignment]
            if cluster.name not in extent.clusters:
                cluster.members = sealed(cluster.members)
        self.clusters.seal()
        self.nodes.seal([*absent, *(f"*{each}" for each in self.deployments)])  # a cluster's name is no node's


def sealed(read: dict[Any, Any], absent: Iterable[Any] = ()) -> _ReadPart[Any, Any]:
    """A mapping that has these alone; a question for another key but the ``absent``, and for all keys, raises Unread."""
    known: _ReadPart[Any, Any] = _ReadPart()
    known.update(read)
    known.seal(absent)
    return known
