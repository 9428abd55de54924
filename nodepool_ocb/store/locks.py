"""kazoo's Lock recipe without waiting: a lock is taken at the first try or not at all. It excludes users of kazoo's own
Lock on the same path, and they exclude us.

A contender is an ephemeral znode ``<mark>__lock__<number>`` below the lock's path; the lowest number holds the lock. A
lock is a hint at its holder: a process that was stopped does not know that its session is over. So no decision may
depend on a lock alone; each write under a lock carries the version that was read.
"""

from __future__ import annotations

import contextlib
import re
import secrets
from collections.abc import Iterable
from typing import Final

import msgspec

from nodepool_ocb.errors import Invalid, OutcomeUnknown, Stale, Unavailable
from nodepool_ocb.model.records import Create, Delete, LockOwner
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.client.frames import Znode
from nodepool_ocb.store.client.session import Session

_CONTENDER: Final = re.compile(r".*[0-9]{10}")


class Lock(msgspec.Struct, frozen=True):
    """A lock that was taken, in the session that it was taken in."""

    contender: str  # the path of our znode
    session: int

    def held(self, session: Session) -> bool:
        """Whether the lock is held, as far as this process knows: the session is the same, and answered a short time ago."""
        return session.id == self.session and session.trusted


class Locks:
    """Takes locks for one process, through its session; safe to use from several threads."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._left: dict[str, str] = {}  # the mark of each contender that was left behind → its lock

    def take(self, path: str, holder: LockOwner) -> Lock | None:
        """The lock, or None if it is held; without waiting.

        The parent of the lock must exist: a deleted record cannot be locked. Raises Unavailable or Denied. A contender
        that this leaves behind is deleted by the next ``take`` of any lock, by ``sweep``, or with the session.
        """
        session = self._session
        self.sweep()
        if not self._free(path):
            return None
        began = session.id
        mark = secrets.token_hex(16)
        try:
            contender = session.create_next(f"{path}/{mark}__lock__", holder, ephemeral=True)
            first = min(contenders(session.children(path) or ()), key=_number, default="")
        except Stale:
            return None  # the parent of the lock was deleted meanwhile
        except BaseException:
            self._left[mark] = path
            raise
        lock = Lock(contender, began)
        if session.id == began and contender.endswith(f"/{first}"):
            return lock
        self.release(lock)
        return None

    def release(self, lock: Lock) -> None:
        """Let go. Where ZooKeeper cannot be reached, the lock goes with the session, or with the next ``sweep``."""
        try:
            self._session.commit([Delete(lock.contender, 0)])
        except (Stale, Unavailable):  # gone already, as a rule
            self.leave(lock)

    def leave(self, lock: Lock) -> None:
        """Give up a lock that may still stand. The next ``sweep`` deletes its contender."""
        path, _, name = lock.contender.rpartition("/")
        self._left[name.partition("__lock__")[0]] = path

    def sweep(self) -> None:
        """Delete the contenders that were left behind when a connection broke, so that their locks become free. Without
        such contenders it sends no request. Call it after each reconnect. Raises Unavailable or Denied.
        """
        for mark, path in list(self._left.items()):
            self._session.sync()  # a request of ours that was under way is done after this, or never
            ours = [name for name in self._session.children(path) or () if name.startswith(mark)]
            removed = [self._removed(znode) for znode in self._session.get_many([f"{path}/{name}" for name in ours])]
            if all(removed):
                self._left.pop(mark, None)

    def _removed(self, znode: Znode | None) -> bool:
        """Whether the contender is gone; one that was written meanwhile stands, and goes with the next sweep."""
        try:
            if znode is not None:
                self._session.commit([Delete(znode.path, znode.version)])
        except Stale as stale:  # another thread sweeps, too
            return stale.absent
        return True

    def _free(self, path: str) -> bool:
        """Whether no contender exists. The lock's own znode is created if it is absent."""
        names = self._session.children(path)
        if names is None:
            with contextlib.suppress(
                Stale, OutcomeUnknown
            ):  # another process created it, or may have, or its parent is gone
                self._session.commit([Create(path)])  # without its parent: a deleted record must not come back
                return True
            names = self._session.children(path)
        return names is not None and not contenders(names)


def contenders(names: Iterable[str]) -> list[str]:
    """The children of a lock that contend for it.

    >>> contenders(["5f__lock__0000000002", "remark"])
    ['5f__lock__0000000002']
    """
    return [name for name in names if _CONTENDER.fullmatch(name)]


def holders(session: Session, paths: list[str]) -> list[LockOwner | None]:
    """For each lock its holder, None if it is free. The holder of a lock that other software took has that software's
    text as its purpose.
    """
    listed = session.children_many(paths)
    first = [min(contenders(names or ()), key=_number, default=None) for names in listed]
    taken = [f"{path}/{name}" for path, name in zip(paths, first, strict=True) if name is not None]
    found = dict(zip(taken, session.get_many(taken), strict=True))
    return [
        _holder(found[f"{path}/{name}"]) if name is not None else None for path, name in zip(paths, first, strict=True)
    ]


def _holder(znode: Znode | None) -> LockOwner | None:
    if znode is None:
        return None  # let go meanwhile
    try:
        return codec.decode(LockOwner, znode)
    except Invalid:
        said = znode.data.decode("utf-8", "replace")[:200]
        return LockOwner(daemon="?", host="?", pid=0, purpose=said, since=znode.ctime)


def _number(name: str) -> str:
    return name[-10:]
