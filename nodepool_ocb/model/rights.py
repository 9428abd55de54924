"""The rights of each kind of client in ZooKeeper, if each kind has a user of its own: one table. Pure.

The table comes from the rows of record kinds (kinds.py). A row is for the znodes that its path names, with ``*`` for any one
name, and for all znodes below them that no longer path names. Rights are ZooKeeper's: c(reate) and d(elete) znodes below a
znode, r(ead) it, w(rite) it, and a: change its rights. ZooKeeper inherits none of them, so the client that makes a znode
gives it the rights of its path.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

from nodepool_ocb.model.kinds import Access, granted

ALL: Final = "cdrwa"


class ClientKind(StrEnum):
    """The kinds of clients, each with a user of its own."""

    ANNEALER = "annealer"
    BUILDER = "builder"
    LAUNCHER = "launcher"
    API = "api"
    REQUESTER = "requester"  # asks for nodes and uses them
    PEOPLE = "people"  # by the command line


class PathRights(Access, frozen=True, kw_only=True):
    """The rights of each kind of daemon, and of people, at one path."""

    path: str
    people: str = ALL

    def of(self, kind: ClientKind) -> str:
        """Its rights, in the order of ``ALL``; empty for none."""
        rights: str = getattr(self, kind)
        return rights


#: From the table of record kinds, parents before children.
TABLE: Final = tuple(PathRights(path=path, **msgspec.structs.asdict(access)) for path, access in granted())

#: The subtrees that are ours alone; the rest below ``/nodepool`` may be Nodepool's own.
OURS: Final = (
    "/ocb", "/nodepool/image", "/nodepool/daemons", "/nodepool/clock", "/nodepool/requests", "/nodepool/requests-lock",
    "/nodepool/nodes", "/nodepool/components",
)  # fmt: skip
#: Above them, ours without the rest below.
ABOVE: Final = ("/", "/nodepool")


class _RightsBranch(msgspec.Struct):
    row: PathRights | None = None
    below: dict[str, _RightsBranch] = {}


def row(path: str) -> PathRights:
    """The row for a znode; the path is one without the chroot.

    >>> row("/ocb/nodes/n1.example.com/noderoles/ntp/runs/4").path
    '/ocb/nodes/*/noderoles/*'
    >>> row("/ocb/roles/ntp").of(ClientKind.ANNEALER), row("/ocb/roles/ntp").of(ClientKind.PEOPLE)
    ('r', 'cdrwa')
    """
    here, found = _ROOT, TABLE[0]
    for name in path.split("/")[1:]:
        below = here.below.get(name) or here.below.get("*")
        if below is None:
            break
        here, found = below, below.row or found
    return found


def replaces(kind: ClientKind, path: str) -> bool:
    """Whether it may put something else in the place of a znode that has none below it: write it, or delete and create it.

    >>> replaces(ClientKind.ANNEALER, "/ocb/nodes/n1/noderoles/ntp/user"), replaces(ClientKind.ANNEALER, "/ocb/roles/ntp")
    (True, False)
    """
    above = row(path.rpartition("/")[0] or "/").of(kind)
    return "w" in row(path).of(kind) or (path != "/" and {"c", "d"} <= {*above})


def _rooted() -> _RightsBranch:
    root = _RightsBranch()
    for each in TABLE[1:]:
        here = root
        for name in each.path.split("/")[1:]:
            here = here.below.setdefault(name, _RightsBranch())
        here.row = each
    return root


_ROOT: Final = _rooted()
