"""The part of the tree around some nodes, as a NearWorld: a command about a node or a noderole reads no more.

It has the nodes as a whole, and the ancestors of their noderoles. It has the nodes of ancestors that are not satisfied as a
whole, too, for the noderoles wait for these nodes. The children of a noderole may be on any node, and so may the members of a
cluster. They are found in the bytes of all noderoles; a record is made of those alone, and of other noderoles that may be
members. If one of these cannot be read, a part does not suffice.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Final

from nodepool_ocb.engine.noderole import satisfied
from nodepool_ocb.engine.world import Extent, NearWorld, World
from nodepool_ocb.errors import Invalid
from nodepool_ocb.model import paths
from nodepool_ocb.model.boot import Publication
from nodepool_ocb.model.records import Claim, Fence, Gate, Node, NodeRole, State, Structure
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.client.frames import Znode
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.world.load import WorldTree, undisturbed
from nodepool_ocb.store.world.paths import ROWS, Kind, Listing, listing, path_of

#: Noderoles that are read one by one; with more around it, a command reads all.
MOST: Final = 8000
#: The kinds of records of a node that decide whether it is busy; they are read of each node that an ancestor is on.
_OF_ANY: Final[tuple[Kind, ...]] = (Node, Fence, Claim)
_OF_NODE: Final = tuple(kind for kind, row in ROWS.items() if row.holes == ("node",) and kind not in _OF_ANY)
_UNREAD: Final[tuple[Kind, ...]] = (Publication,)  # some for each node
_APART: Final = (*_OF_ANY, *_OF_NODE, *_UNREAD, NodeRole, Structure)
#: The kinds that are read whole, the gates first.
_OF_ALL: Final[tuple[Kind, ...]] = (Gate, *(kind for kind in ROWS if kind not in _APART and kind is not Gate))
_SERVES: Final = b'"serves"'


def near_world(
    session: Session, nodes: Collection[str], families: Collection[str] = (), *, ancestors: bool = True
) -> World | None:
    """``families``: noderoles with all of their children. Without ``ancestors``, the world is to be shown alone: it has the
    parents of BLOCKED noderoles on ``nodes``, no others, and its counters of unsatisfied parents mean nothing.

    None if a part of it is not as expected, and all has to be read: an absent node, a record that cannot be read, or too many
    noderoles. Raises Unavailable or Denied.
    """
    part = _NearPart(session, nodes, ancestors)
    try:
        with undisturbed():
            whole = part.read_records() and part.read_nodes(families)
    except Invalid:
        return None
    return part.sealed() if whole and not part.world.unreadable else None


class _NearPart:
    """A near world while it is loaded."""

    def __init__(self, session: Session, nodes: Collection[str], ancestors: bool) -> None:
        self.world = NearWorld()
        self._session = session
        self._nodes = nodes
        self._ancestors = ancestors
        self._tree = WorldTree(self.world)
        self._begun: dict[str, None] = {}  # nodes with the records of ``_OF_ANY``
        self._whole: dict[str, None] = {}
        self._asked: set[str] = set()  # noderoles
        self._absent: set[str] = set()
        self._families: set[str] = set()
        self._members: dict[str, list[str]] | None = None  # by cluster, once they are looked up
        self._listed = Listing({})  # all noderoles; then, too
        self._named: set[str] = set()  # of these, those that name a cluster or a family; then, too
        self._unproved: set[str] = set()  # roles of noderoles of which the others may be unreadable

    def sealed(self) -> World:
        clusters = [] if self._members is None else [each.name for each in self.world.clusters.read()]
        self.world.seal(
            Extent(
                nodes=self._whole,
                absent=self._absent,
                of_nodes=_OF_NODE,
                unread=_UNREAD,
                families=self._families,
                clusters=clusters,
            )
        )
        return self.world

    def read_records(self) -> bool:
        """Those of no node; False if the structure changed meanwhile: a gate may then be newer than its members."""
        structure = self._session.get(paths.STRUCTURE)
        listed = listing(self._session, _OF_ALL)
        self._put(path_of(kind, *names) for kind in _OF_ALL for names in listed.names(kind))
        again = self._session.get(paths.STRUCTURE)
        if structure is None or again is None or structure.mzxid != again.mzxid:
            return False
        self._tree.put(paths.STRUCTURE, structure)
        return True

    def read_nodes(self, families: Collection[str]) -> bool:
        """The nodes, and all that they need; False for a node that is absent, and for too much."""
        self._read_whole(self._nodes)
        views = (self.world.nodes.get(name) for name in self._nodes)
        if any(view is None or view.record is None for view in views):
            return False
        if families:
            self._look_up(families)
        while wanted := list(self._wanted()):
            if len(self._asked) > MOST or self.world.unreadable:
                return False
            self._read_noderoles(wanted)
        return all(view.record is not None for view in self.world.nodes.read())

    def _wanted(self) -> Iterator[str]:
        """The noderoles that lack: parents, and all of a node with an ancestor that is not satisfied."""
        vertices = [each for view in self.world.nodes.read() for each in view.noderoles.values()]
        if self._ancestors:
            open_ = {each.node.name for each in vertices if not satisfied(each.record)}
            self._read_whole(open_ - self._whole.keys())
        else:
            blocked = (each for each in vertices if each.record.state is State.BLOCKED)
            vertices = [each for each in blocked if each.node.name in self._whole]
        for name in {name for each in vertices for name in each.record.parents}:
            if paths.split_cluster(name) is None:
                yield from (name,) if name not in self._asked else ()
                continue
            if self._members is None:
                self._look_up(())
            assert self._members is not None
            self._require_members(name)
            yield from (member for member in self._members.get(name, ()) if member not in self._asked)

    def _require_members(self, cluster: str) -> None:
        """Raises Invalid if the record of a noderole that may be a member cannot be read: its bytes may name no cluster."""
        served = cluster.partition("@")[0]
        roles = {role for role in self._unproved if self.world.may_serve(role, served)}
        if not roles:
            return
        self._unproved -= roles
        places = [(role, fqdn) for fqdn, role in self._listed.names(NodeRole) if role in roles]
        others = [paths.noderole(*place) for place in places if paths.noderole_name(*place) not in self._named]
        for znode in self._session.get_many(others):
            if znode is not None:
                codec.decode(NodeRole, znode)

    def _look_up(self, families: Collection[str]) -> None:
        """Find the children of ``families`` and the members of all clusters among all noderoles, and read those children."""
        clusters = {each.name for name in families if (vertex := self.world.vertex(name)) for each in vertex.clusters}
        self._families = {*families, *clusters}
        self._listed = listing(self._session, (NodeRole,))
        self._unproved = set[str]().union(*self._listed.bound.values())
        needles = [f'"{name}"'.encode() for name in self._families]
        children: list[str] = []
        self._members = {}
        for znode in self._session.mentioning(self._listed.noderoles, [_SERVES, *needles]):
            _, fqdn, _, role = znode.path.rsplit("/", 3)
            name = paths.noderole_name(role, fqdn)
            self._named.add(name)
            record = codec.decode(NodeRole, znode)
            if not self._families.isdisjoint(record.parents):
                children.append(name)
            for served in record.serves:
                self._members.setdefault(paths.cluster_name(served, record.deployment), []).append(name)
        self._read_noderoles(children)

    def _read_whole(self, nodes: Iterable[str]) -> None:
        new = [name for name in nodes if name not in self._whole]
        if not new:
            return
        self._whole |= dict.fromkeys(new)
        self._begin(new)
        self._put(path_of(kind, name) for name in new for kind in _OF_NODE)
        roles = self._session.children_many([paths.noderoles(name) for name in new])
        names = [paths.noderole_name(role, name) for name, own in zip(new, roles, strict=True) for role in own or ()]
        self._read_noderoles(names)

    def _begin(self, nodes: Iterable[str]) -> None:
        new = [name for name in dict.fromkeys(nodes) if name not in self._begun]
        self._begun |= dict.fromkeys(new)
        self._put(path_of(kind, name) for name in new for kind in _OF_ANY)

    def _read_noderoles(self, names: Iterable[str]) -> None:
        new = [name for name in dict.fromkeys(names) if name not in self._asked]
        self._asked.update(new)
        places = [paths.split_noderole(name) for name in new]
        self._begin(fqdn for _, fqdn in places)
        found = self._put(paths.noderole(*place) for place in places)
        self._absent.update(name for name, znode in zip(new, found, strict=True) if znode is None)

    def _put(self, wanted: Iterable[str]) -> list[Znode | None]:
        asked = list(wanted)
        found = self._session.get_many(asked)
        for path, znode in zip(asked, found, strict=True):
            if znode is not None:
                self._tree.put(path, znode)
        return found
