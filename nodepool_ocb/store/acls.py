"""The ACLs of the znodes of a cluster, compared with the expected ACLs, and set to them.

A walk goes from the top down, some hundred znodes at a time. It keeps no record of its progress. If it is stopped, the
next walk begins at the top and finds fewer differences. A znode that is created meanwhile has the ACL that its creator
gave it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from nodepool_ocb.errors import Denied, Invalid, Stale
from nodepool_ocb.model import rights
from nodepool_ocb.store.client import frames
from nodepool_ocb.store.client.access import Acls
from nodepool_ocb.store.client.frames import AclGrant
from nodepool_ocb.store.client.reading import BATCH, SessionReads


class AclDifference(NamedTuple):
    """A znode with an ACL that differs from the expected one; the order of grants does not count."""

    path: str
    found: tuple[AclGrant, ...]
    expected: tuple[AclGrant, ...]
    version: int  # of the ACL that was found


class Walk:
    """One walk over all znodes. ``denied`` has the paths that may not be read or changed; the znodes below them are not
    seen.
    """

    def __init__(self, session: SessionReads, acls: Acls) -> None:
        """Raises Invalid if the expected ACL is not known."""
        if not acls.comparable:
            raise Invalid("zookeeper.acl: creator needs a user; set zookeeper.username, or zookeeper.users")
        self.denied: dict[str, Denied] = {}
        self._session, self._acls = session, acls

    def differing(self) -> Iterator[AclDifference]:
        """The znodes with another ACL than expected; raises Unavailable."""
        return self._walked(mend=False)

    def mended(self) -> Iterator[AclDifference]:
        """The same, each set as it should be before it is given; raises Unavailable."""
        return self._walked(mend=True)

    def _walked(self, mend: bool) -> Iterator[AclDifference]:
        above = [path for path in rights.ABOVE if path != "/" or self._session.chroot]  # without one it is not ours
        yield from self._looked_at(above, mend)
        pending = list(rights.OURS)
        while pending:
            batch, pending = pending[-BATCH:], pending[:-BATCH]
            yield from self._looked_at(batch, mend)
            pending += self._below(batch)

    def _looked_at(self, paths: Sequence[str], mend: bool) -> Iterator[AclDifference]:
        found = list(self._different(paths))
        while found and mend:
            again = []
            for each, reply in zip(found, self._set(found), strict=True):
                if isinstance(reply, Denied):
                    self.denied[each.path] = reply
                elif isinstance(reply, Stale):
                    again.append(each.path)  # it is gone, or another has just changed it
                else:
                    yield each
            found = list(self._different(again))
        yield from found

    def _different(self, paths: Sequence[str]) -> Iterator[AclDifference]:
        asked = [(path, frames.read_acl(self._absolute(path))) for path in paths]
        for path, reply in zip(paths, self._session.ask_many(asked, "read the rights of"), strict=True):
            if isinstance(reply, Denied):
                self.denied.setdefault(path, reply)
            elif isinstance(reply, frames.Reply):
                found, version = frames.unpack_acl(reply)
                if sorted(found) != sorted(self._acls.of(path)):
                    yield AclDifference(path, found, self._acls.of(path), version)

    def _set(self, differing: Sequence[AclDifference]) -> Iterator[frames.Reply | Denied | Stale]:
        asked = [
            (each.path, frames.write_acl(self._absolute(each.path), self._acls.packed(each.path), each.version))
            for each in differing
        ]
        return self._session.ask_many(asked, "change the rights of")

    def _below(self, paths: Sequence[str]) -> Iterator[str]:
        asked = [(path, frames.read_names(self._absolute(path))) for path in paths]
        for path, reply in zip(paths, self._session.ask_many(asked, "read"), strict=True):
            if isinstance(reply, frames.Reply):
                yield from (f"{path}/{name}" for name in frames.unpack_names(reply))
            elif isinstance(reply, Denied):
                self.denied.setdefault(path, reply)

    def _absolute(self, path: str) -> str:
        return self._session.chroot + path if path != "/" else self._session.chroot
