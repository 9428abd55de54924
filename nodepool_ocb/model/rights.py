"""The rights of each kind of client in ZooKeeper, for clients with users of their own: one table. Pure.

A row is for the znodes that its path names, where ``*`` stands for any one name, and for all below them that no longer path
names. Rights are ZooKeeper's: c(reate) and d(elete) children of a znode, r(ead) it, w(rite) it, and a, change its rights.
ZooKeeper inherits none of them, so the maker of a znode gives it those of its path.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

ALL: Final = "cdrwa"


class Kind(StrEnum):
    """The kinds of clients with a user of their own."""

    ANNEALER = "annealer"
    BUILDER = "builder"
    LAUNCHER = "launcher"
    API = "api"
    PEOPLE = "people"  # by the command line


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """The rights of each kind of daemon, and of people, at one path."""

    path: str
    annealer: str = ""
    builder: str = ""
    launcher: str = ""
    api: str = ""
    people: str = ALL

    def of(self, kind: Kind) -> str:
        """Its rights, in the order of ``ALL``; empty for none."""
        rights: str = getattr(self, kind)
        return rights


TABLE: Final = (
    Row(path="/", annealer="r", builder="r", launcher="r", api="r"),
    Row(path="/ocb", annealer="r", launcher="r", api="r"),
    Row(path="/ocb/cluster", annealer="r", builder="r", launcher="r", api="r"),
    Row(path="/ocb/clock", annealer="rw", launcher="rw", api="rw"),
    Row(path="/ocb/structure", annealer="rw", launcher="rw", api="rw"),
    Row(path="/ocb/daemons/annealer", annealer="cdrw", launcher="r", api="r"),
    Row(path="/ocb/roles", annealer="r", launcher="r", api="cdrw"),
    Row(path="/ocb/deployments", annealer="r", launcher="r", api="cdrw"),
    Row(path="/ocb/deployments/*", annealer="r", launcher="cr", api="cdrw"),
    Row(path="/ocb/deployments/*/roles", annealer="drw", launcher="cdrw", api="cdrw"),
    Row(path="/ocb/deployments/*/clusters", annealer="rw", launcher="cdrw", api="cdrw"),
    Row(path="/ocb/nodes", annealer="dr", launcher="cdrw", api="cdrw"),
    Row(path="/ocb/nodes/*", annealer="cdrw", launcher="cdrw", api="cdrw"),
    Row(path="/ocb/nodes/*/noderoles", annealer="dr", launcher="cdrw", api="cdrw"),
    Row(path="/ocb/nodes/*/noderoles/*", annealer="cdrw", launcher="cdrw", api="cdrw"),
    Row(path="/ocb/nodes/*/noderoles/*/user", annealer="r", launcher="cdrw", api="cdrw"),
    Row(path="/ocb/journal", annealer="r", launcher="r", api="r"),
    Row(path="/ocb/journal/entries", annealer="cr", launcher="cdr", api="cdr"),
    Row(path="/ocb/journal/webhook", annealer="cdrw", launcher="r", api="r"),
    Row(path="/ocb/rollouts", annealer="r", launcher="r", api="cdrw"),
    Row(path="/ocb/rollouts/*", annealer="rw", launcher="r", api="cdrw"),
    Row(path="/ocb/rollouts/*/*", annealer="cdrw", launcher="r", api="cdrw"),
    Row(path="/ocb/tasks", annealer="r", launcher="r", api="cdrw"),
    Row(path="/ocb/tasks/runs/*", annealer="rw", launcher="r", api="cdrw"),
    Row(path="/ocb/tasks/runs/*/*", annealer="cdrw", launcher="r", api="cdrw"),
    Row(path="/nodepool", annealer="r", builder="cdrw", launcher="cdrw", api="cdrw"),
    Row(path="/nodepool/image", annealer="r", builder="cdrw", launcher="r", api="cdrw"),
)

#: The subtrees that are ours alone; other znodes below ``/nodepool`` may be Nodepool's own.
OURS: Final = ("/ocb", "/nodepool/image", "/nodepool/daemons", "/nodepool/clock")
#: Above them, ours without their other children.
ABOVE: Final = ("/", "/nodepool")


class _Branch(msgspec.Struct):
    row: Row | None = None
    below: dict[str, _Branch] = {}


def row(path: str) -> Row:
    """The row for a znode; the path is one without the chroot.

    >>> row("/ocb/nodes/n1.example.com/noderoles/ntp/runs/4").path
    '/ocb/nodes/*/noderoles/*'
    >>> row("/ocb/roles/ntp").of(Kind.ANNEALER), row("/ocb/roles/ntp").of(Kind.PEOPLE)
    ('r', 'cdrwa')
    """
    here, found = _ROOT, TABLE[0]
    for name in path.split("/")[1:]:
        below = here.below.get(name) or here.below.get("*")
        if below is None:
            break
        here, found = below, below.row or found
    return found


def replaces(kind: Kind, path: str) -> bool:
    """Whether it may put something else in the place of a znode that has none below it: write it, or delete and create it.

    >>> replaces(Kind.ANNEALER, "/ocb/nodes/n1/noderoles/ntp/user"), replaces(Kind.ANNEALER, "/ocb/roles/ntp")
    (True, False)
    """
    above = row(path.rpartition("/")[0] or "/").of(kind)
    return "w" in row(path).of(kind) or (path != "/" and {"c", "d"} <= {*above})


def _rooted() -> _Branch:
    root = _Branch()
    for each in TABLE[1:]:
        here = root
        for name in each.path.split("/")[1:]:
            here = here.below.setdefault(name, _Branch())
        here.row = each
    return root


_ROOT: Final = _rooted()
