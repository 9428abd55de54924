"""The paths below ``/ocb`` that a World shows, and the names that ZooKeeper lists there now.

Both come from the table of record kinds: a World shows the kinds with a wake-up. It shows no attributes and no runs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import lru_cache
from sys import intern
from typing import Final, NamedTuple, TypeAlias

from nodepool_ocb.model import kinds
from nodepool_ocb.model import paths as model_paths
from nodepool_ocb.model.kinds import RecordKind
from nodepool_ocb.model.ranges import is_name, is_node
from nodepool_ocb.model.records import NodeRole, Record, Structure
from nodepool_ocb.store.client.folders import Folders
from nodepool_ocb.store.client.reading import SessionReads

Kind: TypeAlias = type[Record]

#: The kinds of records that a World shows.
ROWS: Final[Mapping[Kind, RecordKind]] = {
    row.record: row for row in kinds.KINDS if row.record is not None and row.wakes is not None
}
#: The most slashes in a path of a World: a path with more belongs to a run or to attributes.
MOST_SLASHES: Final = max(path.count("/") for row in ROWS.values() for path in row.paths)
#: The levels of paths below ``paths.ROOT`` that a World may show.
LEVELS: Final = MOST_SLASHES - model_paths.ROOT.count("/")
_NODEROLE_SLASHES: Final = model_paths.noderole("", "").count("/")
_TREE: Final = kinds.PathTree(ROWS.values())
_FORMATS: Final = {kind: re.sub(r"\{\w+\}", "{}", row.paths[0]) for kind, row in ROWS.items()}
#: For each name in the path of a kind, the folder that lists it; ``{}`` stands for the name before.
_FOLDERS: Final = {
    kind: tuple(pattern[: hole.start() - 1] for hole in re.finditer(r"\{\}", pattern))
    for kind, pattern in _FORMATS.items()
}


class WorldPath(NamedTuple):
    """A path of the world, taken apart: the kind of record that is there, and the names that lead to it."""

    kind: Kind
    name: str = ""  # the first name in the path: of a role, a deployment, a node, a kind of daemon
    below: str = ""  # the second name: of a role, of a daemon

    @property
    def names(self) -> tuple[str, ...]:
        """As many as the path of this kind has."""
        return (self.name, self.below)[: len(_FOLDERS[self.kind])]


def parse(path: str) -> WorldPath | None:
    """None for paths that no world shows.

    >>> parse("/ocb/nodes/n1.example.com/noderoles/ntp")
    WorldPath(kind=<class 'nodepool_ocb.model.records.NodeRole'>, name='n1.example.com', below='ntp')
    >>> parse("/ocb/nodes/n1.example.com/noderoles/ntp/wall")
    """
    if path.count("/") > MOST_SLASHES:  # each run has another path, and a World shows none
        return None
    return _parsed(path)


@lru_cache(maxsize=8192)  # a path that is written is looked at some six times
def _parsed(path: str) -> WorldPath | None:
    if (noderole := noderole_of(path)) is not None:  # nearly all paths of a large cluster
        return WorldPath(NodeRole, *noderole)
    found = _TREE.find(path)
    return None if found is None or found.kind.record is None else WorldPath(found.kind.record, *found.names)


def noderole_of(path: str) -> tuple[str, str] | None:
    """Node and role, if it is the path of a noderole; as ``parse``, without a cache: of most paths each is seen twice.

    >>> noderole_of("/ocb/nodes/n1.example.com/noderoles/ntp"), noderole_of("/ocb/nodes/n1.example.com/fence")
    (('n1.example.com', 'ntp'), None)
    """
    match path.split("/"):
        case ["", "ocb", "nodes", fqdn, "noderoles", role]:
            return fqdn, role
    return None


def is_noderole(path: str) -> bool:
    """As ``noderole_of``, for a path of which no name is needed.

    >>> is_noderole("/ocb/nodes/n1.example.com/noderoles/ntp"), is_noderole("/ocb/deployments/noderoles/clusters/dns")
    (True, False)
    """
    return path.count("/") == _NODEROLE_SLASHES and path.startswith("/ocb/nodes/") and "/noderoles/" in path


def path_of(kind: Kind, *names: str) -> str:
    """The path of a record; the inverse of ``parse``.

    >>> from nodepool_ocb.model.records import Fence
    >>> path_of(Fence, "n1.example.com")
    '/ocb/nodes/n1.example.com/fence'
    """
    return _FORMATS[kind].format(*names)


_NAME_RULE: Final = "small letters, digits, '-', '_' and '.', at most 63"
_RULES: Final[Mapping[str, tuple[Callable[[str], bool], str]]] = {
    "node": (is_node, "labels of small letters, digits and '-', with '.' between them"),
    "role": (is_name, _NAME_RULE),
    "deployment": (is_name, _NAME_RULE),
    "network": (is_name, _NAME_RULE),
    "bootenv": (is_name, _NAME_RULE),
}
#: For each kind: the position of each name with a rule, and the rule.
_RULED: Final = {
    kind: [(position, hole, *_RULES[hole]) for position, hole in enumerate(row.holes) if hole in _RULES]
    for kind, row in ROWS.items()
}


def misnamed(at: WorldPath) -> str | None:
    """The reason if no object can have this name; None for a possible name.

    A record with an impossible name counts as unreadable: such a name would be two words of an order.

    >>> from nodepool_ocb.model.records import NodeRole
    >>> misnamed(WorldPath(NodeRole, "n1.example.com", "a@b"))
    "'a@b' can be no name of a role: small letters, digits, '-', '_' and '.', at most 63"
    """
    for position, hole, possible, rule in _RULED[at.kind]:
        if not possible(name := (at.name, at.below)[position]):
            return f"{name!r} can be no name of a {hole}: {rule}"
    return None


class Listing:
    """The names in each folder of the records that a World shows. Folders with the same names share them."""

    def __init__(self, folders: Mapping[str, Mapping[str, None]]) -> None:
        self.folders = folders

    def names(self, kind: Kind) -> Iterator[tuple[str, ...]]:
        """The names that lead to each record; for a record with a fixed name below a node, each node."""
        match _FOLDERS[kind]:
            case ():
                yield ()
            case (folder,):
                yield from ((name,) for name in self.folders[folder])
            case (folder, second):
                for name in self.folders[folder]:
                    yield from ((name, below) for below in self.folders[second.format(name)])

    @property
    def bound(self) -> Mapping[str, Mapping[str, None]]:
        """Node → the roles of its noderoles."""
        return {fqdn: self.folders[model_paths.noderoles(fqdn)] for fqdn in self.folders[model_paths.NODES]}

    @property
    def noderoles(self) -> Folders:
        """The folders of the noderoles, in the order of ``bound``."""
        return {model_paths.noderoles(fqdn): roles for fqdn, roles in self.bound.items()}

    def has(self, at: WorldPath) -> bool:
        """Whether the record was listed; for a record with a fixed name below a node, whether the node was.

        False for the structure: it is read apart from the listing.
        """
        folders = [folder.format(at.name) for folder in _FOLDERS[at.kind]]
        listed = (name in self.folders.get(folder, ()) for folder, name in zip(folders, at.names, strict=True))
        return at.kind is not Structure and all(listed)


def listing(session: SessionReads, kinds: Collection[Kind] = tuple(_FOLDERS)) -> Listing:
    """List the tree, or these kinds: one request, and one for some hundred nodes; raises Unavailable or Denied."""
    wanted_folders = [_FOLDERS[kind] for kind in kinds]
    first = dict.fromkeys(folders[0] for folders in wanted_folders if folders)
    listed = _listed(session, list(first))
    deeper = {folders[1]: listed[folders[0]] for folders in wanted_folders if len(folders) > 1}
    wanted = [folder.format(name) for folder, names in deeper.items() for name in names]
    return Listing(listed | _listed(session, wanted))


def _listed(session: SessionReads, folders: list[str]) -> dict[str, Mapping[str, None]]:
    listed: dict[str, Mapping[str, None]] = {}
    last: list[str] | None = None
    for folder, found in zip(folders, session.children_many(folders), strict=True):
        names = found or []
        if names != last:  # thousands of nodes have the same noderoles
            last, shared = names, dict.fromkeys(map(intern, names))
        listed[folder] = shared
    return listed
