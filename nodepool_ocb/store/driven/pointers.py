"""The pointer of a deployment, to the newest of its rollouts or of its runs of tasks, and the executions below it by
ids.

An absent pointer is read as one of a deployment without executions, at version -1. Its version orders all writers.
"""

from __future__ import annotations

import contextlib
import random
import re
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeVar

from msgspec.structs import replace

from nodepool_ocb.errors import NotFound, OutcomeUnknown, Stale
from nodepool_ocb.model import limits, paths
from nodepool_ocb.model.records import Change, Check, Create, Delete, Pointer, Set, Structure
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.client.frames import Znode
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.subtree import subtree

KEPT: Final = 10  # executions below a pointer
ATTEMPTS: Final = 20  # at a record that others change meanwhile
ID: Final = re.compile(r"[0-9]{10}")

P = TypeVar("P", bound=Pointer)
T = TypeVar("T")


def read(session: Session, path: str, kind: type[P]) -> tuple[P, int]:
    """The pointer, and its version."""
    znode = session.get(path)
    return (codec.decode(kind, znode), znode.version) if znode is not None else (kind(), -1)


def opened(session: Session, path: str, kind: type[Pointer], judged: Sequence[Check] = ()) -> None:
    """Create the pointer if it is absent, with ids above those of all deleted deployments, while the checks ``judged``
    hold.

    Raises Stale if one of these checks fails, NotFound if there is no structure.
    """
    session.ensure(path.rpartition("/")[0])
    for attempt in range(ATTEMPTS):
        if read(session, path, kind)[1] >= 0:
            return
        znode = session.get(paths.STRUCTURE)
        if znode is None:
            raise NotFound(
                f"{paths.STRUCTURE} does not exist, so no rollout and no tasks run can begin; restore it from a backup"
            )
        made = kind(id_base=codec.decode(Structure, znode).rollout)
        try:
            session.commit([*judged, Check(paths.STRUCTURE, znode.version), Create(path, made)])
        except Stale as stale:  # another made it, or something was deleted meanwhile
            if among(judged)(stale):
                raise
            pause(attempt)


def next_id(session: Session, path: str, known: Pointer) -> str:
    """An id above all that were ever given below the pointer."""
    there = [int(name) for name in session.children(path) or () if ID.fullmatch(name)]
    return f"{max([known.id_base, int(known.newest or -1), *there]) + 1:010}"


def among(judged: Sequence[Check]) -> Callable[[Exception], bool]:
    """Tells whether a refusal is that of one of these checks."""
    judged_paths = {check.path for check in judged}
    return lambda refusal: isinstance(refusal, Stale) and refusal.path in judged_paths


def pause(attempt: int) -> None:
    """Wait before another attempt to write a record that others write too: at most 0.32 s, longer with each attempt."""
    time.sleep(random.uniform(0, 0.01 * 2 ** min(attempt, 5)))


def again(
    write: Callable[[], T],
    refused: type[Exception] | tuple[type[Exception], ...] = Stale,
    final: Callable[[Exception], bool] = lambda _: False,
) -> T:
    """Call ``write`` until it is not refused, at most ATTEMPTS times, with a pause between two calls.

    Raises the last refusal. A refusal that is ``final`` is raised without further calls.
    """
    for attempt in range(ATTEMPTS):
        try:
            return write()
        except refused as refusal:
            if attempt + 1 == ATTEMPTS or final(refusal):
                raise
        pause(attempt)
    raise AssertionError("it returns or raises")


def forget(session: Session, path: str, identity: str) -> None:
    """Delete the oldest executions, and those before this one that were never begun. A deletion that is refused is left
    to the next call.
    """
    older = sorted(name for name in session.children(path) or () if ID.fullmatch(name) and name < identity)
    znodes = session.get_many([f"{path}/{name}" for name in older])
    begun = [name for name, znode in zip(older, znodes, strict=True) if znode is not None and znode.data]
    kept = set(begun[1 - KEPT :])
    for name in older:
        if name not in kept:
            with contextlib.suppress(Stale, OutcomeUnknown):
                remove(session, f"{path}/{name}")


def removal(session: Session, path: str) -> list[Change]:
    """The deletions of a znode and all below it; if they take several transactions, it is emptied first."""
    znodes = subtree(session, path)
    deletions: list[Change] = [Delete(each.path, each.version) for each in znodes]
    return deletions if limits.fits(deletions) else emptied(znodes, [path])


def remove(session: Session, path: str) -> None:
    """Delete it with all below it, in as many transactions as that takes."""
    for transaction in limits.parts(limits.singly(removal(session, path))):
        session.commit(transaction)


def emptied(znodes: Iterable[Znode], heads: Iterable[str]) -> list[Change]:
    """The deletions of these znodes, leaves first, after writes that empty the heads: the records of rollouts or runs.

    An empty record is read as one that never began. So a deletion that stops half-way leaves no part of a rollout to be shown.
    """
    wanted, writes, deletions = set(heads), list[Change](), list[Change]()
    for each in znodes:
        filled = each.path in wanted and bool(each.data)
        writes += [Set(each.path, None, each.version)] * filled
        deletions.append(Delete(each.path, each.version + filled))
    return [*writes, *deletions]


# -- the writes of a driver --


def taken_over(path: str, known: Pointer, version: int, driver: str | None, now: float) -> Set:
    """The write that makes this annealer the driver; later writes of any other are refused. ``driver`` None: there is
    no driver.
    """
    return Set(path, replace(known, driver=driver, since=now), version)


def closed(path: str, known: Pointer, version: int, now: float) -> Set:
    """The newest is over, which the pointer did not say; refused where it changed since the newest was read."""
    return Set(path, replace(known, over=True, since=now), version)
