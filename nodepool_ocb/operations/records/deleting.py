"""``record delete``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec.structs import replace

from nodepool_ocb.documents.counting import some
from nodepool_ocb.engine import structure
from nodepool_ocb.engine.world import World
from nodepool_ocb.errors import Conflict
from nodepool_ocb.model import limits, paths
from nodepool_ocb.model.kinds import KINDS
from nodepool_ocb.model.records import Change, Delete, Set
from nodepool_ocb.operations.operation import Operation, Right, Situation, Steps
from nodepool_ocb.operations.reads.agreement import Agreement
from nodepool_ocb.operations.reads.journal import NameInJournal
from nodepool_ocb.operations.reads.world import ReadWorld, ReadWorldAgain
from nodepool_ocb.operations.reads.znodes import FoundSubtree, ReadBrokenExecutions, ReadChildren, ReadSubtree
from nodepool_ocb.operations.records import reading, refusing
from nodepool_ocb.telemetry.terminal_escape import line
from nodepool_ocb.views.cluster import Deleted

NAMED: Final = 20  # znodes that are named before they go


class RecordDelete(Operation[tuple[Deleted, ...]], frozen=True, kw_only=True):
    """Delete a record that cannot be read, with all below it. Refused while a daemon works there or a record depends on it."""

    noun = "record"
    verb = "delete"
    right = Right.ADMIN
    reads = (
        *reading.READS,
        ReadWorld,
        ReadWorldAgain,
        ReadBrokenExecutions,
        ReadSubtree,
        ReadChildren,
        Agreement,
        NameInJournal,
    )
    writes = tuple(sorted({row.name for row in KINDS}))

    path: str
    force: bool = False  # also a record that can be read

    def decide(self, situation: Situation) -> Steps[tuple[Deleted, ...]]:
        """The records are read and judged a second time after the agreement; other ones than agreed are a Conflict."""
        world = yield from ReadWorld()
        found = yield from self._judged(world)
        names = tuple(line(znode.path) for znode in reversed(found.znodes))
        if not situation.call.dry_run:
            agreed = yield from Agreement(f"delete {some(names, NAMED)}, for good", (), _marks(found))
            if agreed.asked:
                world = yield from ReadWorldAgain()
                found = yield from self._judged(world)
            gone = {each.path for each in situation.written if isinstance(each, Delete)}
            left = {each for each in agreed.covers if each.partition(" ")[2] not in gone}
            if _marks(found) != left:
                raise Conflict(
                    f"{line(self.path)} or a record below it was changed meanwhile;"
                    f" see: nodepool-ocb record show {line(self.path)}"
                )
        yield from NameInJournal("delete", "record", names)
        yield from _transactions(world, self.path, found)
        before = (line(each.path) for each in reversed(situation.written) if isinstance(each, Delete))
        return tuple(Deleted(path=name) for name in (*names, *before))

    def _judged(self, world: World) -> Steps[FoundSubtree]:
        """The znodes that would go, leaves first; raises Conflict if they may not."""
        found = yield from reading.at(self.path)
        problem = found.problem
        if not problem:
            broken = yield from ReadBrokenExecutions()
            problem = broken.get(self.path)
        refusing.refuse(world, self.path, problem, self.force)
        below = yield from ReadSubtree(self.path)
        held = [each.path for each in below.znodes if each.ephemeral_owner and each.path != self.path]
        for lock in (yield from _locks(self.path)):
            contenders = yield from ReadChildren(lock)
            held += [f"{lock}/{name}" for name in contenders]
        if held:
            raise Conflict(
                f"a daemon or command holds {line(held[0])}; wait until it releases it; see: nodepool-ocb lock list"
            )
        return below


def _marks(found: FoundSubtree) -> frozenset[str]:
    """Each znode as it was read: the id of its newest change, and its path."""
    return frozenset(f"{znode.mzxid} {znode.path}" for znode in found.znodes)


def _locks(path: str) -> Steps[list[str]]:
    """The lock that a daemon at work on it holds, if that is not below it; an image's lock is about its newest build."""
    match path.split("/")[2:]:
        case ["rollouts", deployment, identity, "groups" | "nodes", _]:
            return [paths.rollout_lock(deployment, identity)]
        case ["tasks", "runs", deployment, identity, part, _] if part != "lock":
            return [paths.task_run_lock(deployment, identity)]
        case ["image", image, "builds", build]:
            builds = yield from ReadChildren(paths.builds(image))
            return [paths.build_lock(image)] if build == max({*builds} - {"lock"}, default="") else []
        case ["image", image, "builds", build, "provider", provider, "images", upload] if upload != "lock":
            return [paths.upload_lock(image, build, provider)]
    return []


def _number(path: str) -> int | None:
    """Of a rollout, or a run of tasks.

    >>> _number("/ocb/rollouts/lab/0000000007"), _number("/ocb/journal/entries/0000000007")
    (7, None)
    """
    match path.split("/")[2:]:
        case ["rollouts", _, name] | ["tasks", "runs", _, name] if name.isdecimal() and len(name) == 10:
            return int(name)
    return None


def _transactions(world: World, path: str, found: FoundSubtree) -> Iterable[Sequence[Change]]:
    """The deletions, leaves first. Each part raises the structure, so decisions that rest on a deleted record are refused."""
    goes: list[Change] = [Delete(znode.path, znode.version) for znode in found.znodes]
    if not path.startswith(paths.ROOT + "/"):
        return list(limits.parts(limits.singly(goes)))
    numbers = [number for znode in found.znodes if (number := _number(znode.path)) is not None]
    before = structure.stored(world)
    versions = {znode.path: znode.version for znode in found.znodes}
    after = refusing.raised(world, before.record, versions, found.runs, numbers)
    own = Set(paths.STRUCTURE, after, before.version)
    parts = limits.parts(limits.singly(goes), beside=(own,))
    return [[replace(own, version=before.version + number), *part] for number, part in enumerate(parts)]
