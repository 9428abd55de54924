"""The tree as a CensusWorld: hundreds of nodes that are made alike are counted, and the noderoles of one are made records.

All noderoles are read and checked. A node is left out only if another stands for it. That one has the same roles, in the same
states and deployments, with the same edges within the node, and with the same inputs of their newest runs. Counts and
inputs may depend on more of a node: on a claim, an error, an edge to another node, or attributes. Such a node is shown.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from operator import attrgetter
from typing import Final, TypeAlias

import msgspec

from nodepool_ocb.engine.inputs import Catalogue
from nodepool_ocb.engine.inputs.layers import BLOBS
from nodepool_ocb.engine.world import CensusWorld
from nodepool_ocb.model import paths
from nodepool_ocb.model.boot import Publisher
from nodepool_ocb.model.ranges import is_name, is_node
from nodepool_ocb.model.records import RARE, State
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.client.frames import Znode
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.world.load import WorldTree
from nodepool_ocb.store.world.paths import Listing

#: Fields that are equal on alike nodes, beside the parents and the result of the check.
_often: Final = attrgetter("state", "deployment", "given", "once", "task_run")
#: Fields that no noderole of such a node has. The rank of one is neither counted nor an input.
_SELDOM: Final = sorted(RARE - {"once", "task_run", "checked", "rank"})
_seldom: Final = attrgetter(*_SELDOM)

Bound: TypeAlias = Sequence[tuple[str, Znode | None]]


def census(session: Session) -> CensusWorld:
    """As ``load.load_world``; each node that is not shown has one that stands for it. Raises Unavailable or Denied."""
    tree = _CensusTree(world := CensusWorld())
    tree.read(session, session.get(paths.STRUCTURE))
    for first, *rest in tree.alike:
        world.leave_out(first, rest)
    return world


class _CensusTree(WorldTree):
    """A tree that is read one time, into an empty world."""

    alike: Sequence[Sequence[str]] = ()  # nodes of which the first stands for the others

    def _read_noderoles(self, session: Session, listed: Listing) -> None:
        nodes = listed.bound
        znodes = session.stream_folders(listed.noderoles)
        bound = {fqdn: list(zip(roles, islice(znodes, len(roles)), strict=True)) for fqdn, roles in nodes.items()}
        self.alike = self._alike(session, bound)
        others = {name for names in self.alike for name in names[1:]}
        shown = {fqdn: roles for fqdn, roles in nodes.items() if fqdn not in others}
        self._put_noderoles(shown, chain.from_iterable(_znodes(bound[fqdn]) for fqdn in shown))

    def _alike(self, session: Session, bound: Mapping[str, Bound]) -> list[list[str]]:
        """Nodes of which one may stand for the others. None, where a record cannot be read: the reader of all finds it."""
        groups: dict[Hashable, list[str]] = {}
        apart, outlines = self._apart(bound), _Outlines()
        try:
            for fqdn, own in bound.items():
                form = outlines.of_node(fqdn, own)
                if form is not None and fqdn not in apart:
                    groups.setdefault(form, []).append(fqdn)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return []
        found = _several([each for each in names if each not in outlines.reached] for names in groups.values())
        folders = {
            f"{paths.noderoles(each)}/{role}": each for names in found for each in names for role, _ in bound[each]
        }
        with_own = {folders[path] for path in session.naming(folders, BLOBS.values())}
        return _several([each for each in names if each not in with_own] for names in found)

    def _apart(self, bound: Mapping[str, Bound]) -> set[str]:
        """The nodes with records, beside their noderoles, on which an answer may depend."""
        world, catalogue = self.world, Catalogue(self.world)
        apart = {name.rpartition("@")[2] for name in world.of(Publisher)}
        for fqdn, own in bound.items():
            view = world.nodes.get(fqdn)
            node = view.record if view is not None and is_node(fqdn) and view.claim is None else None
            facts = node is not None and (node.hints or (view is not None and catalogue.machine(view)))
            if node is None or (facts and any(catalogue.watched(role) for role, _ in own)):
                apart.add(fqdn)
        return apart


class _Outlines:
    """The forms of nodes: nodes of equal forms are counted alike, and have noderoles with equal inputs."""

    def __init__(self) -> None:
        self.reached: set[str] = set()  # nodes with parents of noderoles of other nodes
        self._roles: dict[str, bool] = {}  # whether such a name is possible

    def of_node(self, fqdn: str, own: Bound) -> Hashable | None:
        """None for a node that no other is like. Raises as ``codec.flat``."""
        end = f"@{fqdn}"
        form: list[Hashable] = []
        for role, znode in own:
            if znode is None or not self._possible(role):
                continue
            flat = codec.flat(znode.data)
            parents = []
            for name in flat.parents or ():
                if name.endswith(end):
                    parents.append(name[: -len(end)])
                else:
                    self.reached.add(name.partition("@")[2])
            if flat.state is State.ERROR or any(_seldom(flat)) or len(parents) != len(flat.parents or ()):
                continue
            checked = flat.checked and (flat.checked.drift, flat.checked.unmended)
            form.append((role, *_often(flat), tuple(parents), checked))
        return frozenset(form) if len(form) == len(own) else None

    def _possible(self, role: str) -> bool:
        if role not in self._roles:
            self._roles[role] = is_name(role)
        return self._roles[role]


def _znodes(own: Bound) -> Iterator[Znode | None]:
    return (znode for _, znode in own)


def _several(groups: Iterable[list[str]]) -> list[list[str]]:
    return [names for names in groups if len(names) > 1]
