"""Single znodes as they are, and the records that cannot be read."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from nodepool_ocb.errors import Invalid
from nodepool_ocb.model.records import Run
from nodepool_ocb.operations.operation import Lookup

if TYPE_CHECKING:
    from nodepool_ocb.operations.performer import Reader
    from nodepool_ocb.store.client.frames import Znode


class ReadUnreadable(Lookup[Mapping[str, str]], frozen=True):
    """Every record that cannot be read, with the reason, by path. It reads the whole tree."""

    records = "everything"

    def answer(self, reader: Reader) -> Mapping[str, str]:
        from nodepool_ocb.store import quarantine

        opened = reader.session
        opened.sync()
        return quarantine.unread(opened) | quarantine.of_rollouts(opened) | quarantine.of_task_runs(opened)


class FoundZnode(msgspec.Struct, frozen=True):
    """A znode, the kind of the record that belongs there, and the reason why this one cannot be read."""

    znode: Znode
    kind: str | None
    problem: str | None
    secret: bool = False  # its content is shown to no reader


class ReadZnode(Lookup["FoundZnode | None"], frozen=True):
    """The znode at a path, no older than this call; None if there is none."""

    records = "one znode"

    path: str

    def answer(self, reader: Reader) -> FoundZnode | None:
        from nodepool_ocb.store import kinds, quarantine

        reader.session.sync()
        znode = reader.session.get(self.path)
        if znode is None:
            return None
        kind = quarantine.kind(self.path)
        name = kind if isinstance(kind, str) or kind is None else kind.__name__
        return FoundZnode(znode, name, quarantine.problem(znode, reader.session.tree), kinds.secret(self.path))


class ReadBrokenExecutions(Lookup[Mapping[str, str]], frozen=True):
    """The paths of rollouts and runs of tasks that cannot be read, with their parts, each with the reason."""

    records = "rollouts, runs of tasks"

    def answer(self, reader: Reader) -> Mapping[str, str]:
        from nodepool_ocb.store import quarantine

        return quarantine.of_rollouts(reader.session) | quarantine.of_task_runs(reader.session)


class FoundSubtree(msgspec.Struct, frozen=True):
    """The znodes at a path and below it, leaves first, and the records of runs among them that can be decoded."""

    znodes: tuple[Znode, ...]
    runs: tuple[Run, ...]


class ReadSubtree(Lookup[FoundSubtree], frozen=True):
    """A path and all below it."""

    records = "a branch of the tree"

    path: str

    def answer(self, reader: Reader) -> FoundSubtree:
        from nodepool_ocb.store import quarantine
        from nodepool_ocb.store.client import codec
        from nodepool_ocb.store.subtree import subtree

        znodes = subtree(reader.session, self.path)
        runs: list[Run] = []
        for znode in znodes:
            if quarantine.kind(znode.path) is Run:
                with suppress(Invalid):
                    runs.append(codec.decode(Run, znode))
        return FoundSubtree(tuple(znodes), tuple(runs))


class ReadExisting(Lookup[frozenset[str]], frozen=True):
    """The given paths at which a znode exists."""

    records = "single znodes"

    places: tuple[str, ...]

    def answer(self, reader: Reader) -> frozenset[str]:
        return frozenset(znode.path for znode in reader.session.get_many(self.places) if znode is not None)


class ReadChildren(Lookup[tuple[str, ...]], frozen=True):
    """The names of the znodes below a path, sorted; empty if there is no such path."""

    records = "names of znodes"

    path: str

    def answer(self, reader: Reader) -> tuple[str, ...]:
        return tuple(sorted(reader.session.children(self.path) or ()))


class RequireCluster(Lookup[None], frozen=True):
    """Raises NoCluster if there is no cluster in this place, and Invalid if its record cannot be decoded."""

    records = "the cluster"

    def answer(self, reader: Reader) -> None:
        from nodepool_ocb.store import clusters

        clusters.current(reader.session)
