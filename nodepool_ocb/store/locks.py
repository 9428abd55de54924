"""kazoo's Lock recipe without waiting: a lock is taken at the first try or not at all. It excludes users of kazoo's own
Lock on the same path, and they exclude us.

A contender is an ephemeral znode ``<mark>__lock__<number>`` below the lock's path; the lowest number holds the lock. A
lock is a hint at its holder: a process that was stopped does not know that its session is over. So no decision may
depend on a lock alone; each write under a lock carries the version that was read. A transaction with ``Lock.check`` in it is
refused after the lock was lost.
"""

from __future__ import annotations

import contextlib
import re
import secrets
import threading
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from nodepool_ocb.errors import Invalid, OutcomeUnknown, Stale, Unavailable
from nodepool_ocb.model.records import Change, Check, Create, Delete, LockOwner
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.client.frames import Znode
from nodepool_ocb.store.client.reading import SessionReads
from nodepool_ocb.store.client.session import Session

_CONTENDER: Final = re.compile(r".*[0-9]{10}")


class Lock(msgspec.Struct, frozen=True):
    """A lock that was taken, in the session that it was taken in."""

    contender: str  # the path of our znode
    session: int

    def held(self, session: Session) -> bool:
        """Whether the lock is held, as far as this process knows: the session is the same, and answered a short time ago."""
        return session.id == self.session and session.trusted

    @property
    def check(self) -> Check:
        """For a transaction that must not be applied after the lock was lost or broken."""
        return Check(self.contender, 0)

    @property
    def end(self) -> Delete:
        """For a transaction that releases the lock."""
        return Delete(self.contender, 0)


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

    def take_new(self, path: str, holder: LockOwner, beside: Sequence[Change] = ()) -> Lock | None:
        """Create the lock and take it, with the changes ``beside``, in one transaction; None if the lock's znode exists.

        Raises the exceptions of commit; Stale is about ``beside``, or the parent of the lock.
        """
        mark = secrets.token_hex(16)
        contender = f"{path}/{mark}__lock__{0:010}"  # the number that ZooKeeper gives first: the next contender gets 1
        began = self._session.id
        try:
            self._session.commit([Create(path), Create(contender, holder, ephemeral=True), *beside])
        except Stale as stale:
            if stale.path == path and not stale.absent:
                return None
            raise
        except BaseException:
            self._left[mark] = path
            raise
        lock = Lock(contender, began)
        if self._session.id == began:
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


class HeldLocks:
    """The locks that a process holds, by path: many at once, and from turn to turn. Safe to use from several threads.

    After a lost session it holds none of them.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._locks = Locks(session)
        self._held: dict[str, Lock] = {}
        self._guard = threading.Lock()
        self.changes = 0  # rises with each change of the held locks

    def take(self, path: str, holder: LockOwner) -> Lock | None:
        """As ``Locks.take``; None also if this process holds it."""
        return None if self.get(path) else self._keep(path, self._locks.take(path, holder))

    def take_new(self, path: str, holder: LockOwner, beside: Sequence[Change] = ()) -> Lock | None:
        """As ``Locks.take_new``."""
        return self._keep(path, self._locks.take_new(path, holder, beside))

    def get(self, path: str) -> Lock | None:
        """The lock at this path, if it was taken in the session of now."""
        lock = self._held.get(path)
        return lock if lock is not None and lock.session == self._session.id else None

    def all(self) -> dict[str, Lock]:
        """The locks of the session of now, by path."""
        with self._guard:
            held = dict(self._held)
        return {path: lock for path, lock in held.items() if lock.session == self._session.id}

    def release(self, path: str) -> None:
        """Let go of a lock; nothing happens if it is not held. It never raises Unavailable: see ``Locks.release``."""
        lock = self.forget(path)
        if lock is not None and lock.session == self._session.id:
            self._locks.release(lock)

    def forget(self, path: str) -> Lock | None:
        """The lock that is held no more: a transaction released it, or another client broke it."""
        with self._guard:
            self.changes += 1
            return self._held.pop(path, None)

    def sweep(self) -> None:
        """Forget the locks of former sessions, and delete contenders that were left behind. Raises Unavailable or Denied."""
        for path in self._held.keys() - self.all().keys():
            self.forget(path)
        self._locks.sweep()

    def _keep(self, path: str, lock: Lock | None) -> Lock | None:
        if lock is not None:
            with self._guard:
                self._held[path] = lock
                self.changes += 1
        return lock


def contenders(names: Iterable[str]) -> list[str]:
    """The children of a lock that contend for it.

    >>> contenders(["5f__lock__0000000002", "remark"])
    ['5f__lock__0000000002']
    """
    return [name for name in names if _CONTENDER.fullmatch(name)]


def holders(session: SessionReads, paths: list[str]) -> list[LockOwner | None]:
    """For each lock its holder, None if it is free. The holder of a lock that other software took has that software's
    text as its purpose.
    """
    return [None if znode is None else owner(znode) for znode in first_contenders(session, paths)]


def first_contenders(session: SessionReads, paths: Sequence[str]) -> list[Znode | None]:
    """For each lock the znode of its holder; None if it is free."""
    listed = session.children_many(paths)
    first = [min(contenders(names or ()), key=_number, default=None) for names in listed]
    taken = [f"{path}/{name}" for path, name in zip(paths, first, strict=True) if name is not None]
    found = dict(zip(taken, session.get_many(taken), strict=True))
    return [found[f"{path}/{name}"] if name is not None else None for path, name in zip(paths, first, strict=True)]


def owner(znode: Znode) -> LockOwner:
    """The statement of a contender about itself."""
    try:
        return codec.decode(LockOwner, znode)
    except Invalid:
        said = znode.data.decode("utf-8", "replace")[:200]
        return LockOwner(daemon="?", host="?", pid=0, purpose=said, since=znode.ctime)


def _number(name: str) -> str:
    return name[-10:]
