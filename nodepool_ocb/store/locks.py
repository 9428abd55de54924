"""kazoo's Lock recipe, taken at once or not at all: whoever uses kazoo's own Lock on the same path is kept out, and keeps
us out.

A contender is an ephemeral znode ``<whose>__lock__<number>`` below the lock's path; the lowest number holds. A lock says
who seems to hold it, no more: a process that was stopped does not know that its session is over. So nothing may rest on a
lock alone; what is written under one carries the version that was read.
"""

from __future__ import annotations

import contextlib
import re
import secrets
from collections.abc import Iterable
from typing import Final

import msgspec

from nodepool_ocb.errors import Invalid, Stale, Unavailable, Unknown
from nodepool_ocb.model import Delete, Holder
from nodepool_ocb.store import codec
from nodepool_ocb.store.frames import Znode
from nodepool_ocb.store.session import Session

_CONTENDER: Final = re.compile(r".*?(?P<number>[0-9]{10})")


class Lock(msgspec.Struct, frozen=True):
    """A lock that was taken, in the session that it was taken in."""

    contender: str  # the path of our znode
    session: int

    def held(self, session: Session) -> bool:
        """As far as this process can know: the session is the same, and was heard of not long ago."""
        return session.id == self.session and session.trusted


class Locks:
    """Takes locks for one process, through its session; safe to use from several threads."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._ours = secrets.token_hex(12)  # marks our contenders: one whose answer was lost is known again
        self._live: set[str] = set()  # the marks of those that somebody here still has, or is making

    def take(self, path: str, holder: Holder) -> Lock | None:
        """The lock, or None where somebody has it; without waiting, and nothing is left behind.

        What the lock is below must exist: nobody locks what was deleted. Raises Unavailable or Denied.
        """
        session = self._session
        began = session.id
        if not self._free(path):
            return None
        mark = self._ours + secrets.token_hex(4)
        self._live.add(mark)
        try:
            contender = session.create_next(f"{path}/{mark}__lock__", holder, ephemeral=True)
            first = min(contenders(session.children(path) or ()), key=_number, default="")
        except BaseException:
            self._live.discard(mark)  # whatever is there of it, the next one who wants this lock takes it away
            raise
        lock = Lock(contender, began)
        if session.id == began and contender.endswith(f"/{first}"):
            return lock
        self.release(lock)
        return None

    def release(self, lock: Lock) -> None:
        """Let go. Where ZooKeeper cannot be reached, the lock goes with the session, or when it is wanted next."""
        self._live.discard(_mark(lock.contender))
        if lock.session == self._session.id:
            with contextlib.suppress(Stale, Unavailable):
                self._session.commit([Delete(lock.contender, 0)])

    def _free(self, path: str) -> bool:
        """Whether nobody stands there; those of ours that nobody has any more are taken away."""
        names = self._session.children(path)
        if names is None:
            if self._session.get(path.rpartition("/")[0]) is None:
                return False
            self._session.ensure(path)
            return True
        lost = [name for name in names if name.startswith(self._ours) and _mark(name) not in self._live]
        for name in lost:
            with contextlib.suppress(Stale, Unknown):
                self._session.commit([Delete(f"{path}/{name}", 0)])
        return not contenders(set(names) - set(lost))


def contenders(names: Iterable[str]) -> list[str]:
    """Those of a lock's children that contend for it.

    >>> contenders(["5f__lock__0000000002", "remark"])
    ['5f__lock__0000000002']
    """
    return [name for name in names if _CONTENDER.fullmatch(name)]


def holders(session: Session, paths: list[str]) -> list[Holder | None]:
    """For each lock who has it, None where nobody does; what others than us wrote of themselves becomes the purpose."""
    listed = session.children_many(paths)
    first = [min(contenders(names or ()), key=_number, default=None) for names in listed]
    taken = [f"{path}/{name}" for path, name in zip(paths, first, strict=True) if name is not None]
    found = dict(zip(taken, session.get_many(taken), strict=True))
    return [
        _holder(found[f"{path}/{name}"]) if name is not None else None for path, name in zip(paths, first, strict=True)
    ]


def _holder(znode: Znode | None) -> Holder | None:
    if znode is None:
        return None  # let go meanwhile
    try:
        return codec.decode(Holder, znode)
    except Invalid:
        said = znode.data.decode("utf-8", "replace")[:200]
        return Holder(daemon="?", host="?", pid=0, purpose=said, since=znode.ctime)


def _number(name: str) -> str:
    return name[-10:]


def _mark(name: str) -> str:
    return name.rpartition("/")[2].partition("__lock__")[0]
