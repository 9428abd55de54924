"""The entries of launchers in the journal: each is written with the transaction that it describes.

An entry never stops work. If the journal refuses entries, the transaction is written without its entry, a warning names the next
step, and no entry is tried before the next session. The oldest entries are deleted when there are too many.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from nodepool_ocb.errors import Denied, Stale
from nodepool_ocb.model import limits, paths
from nodepool_ocb.model.journal import Entry
from nodepool_ocb.model.records import Append, Change
from nodepool_ocb.store import journal
from nodepool_ocb.store.client.session import Session, Stats

log = logging.getLogger(__name__)

LOOK_AFTER: Final = 100  # entries of this process, until it counts those of all launchers again


class PoolJournal:
    """``commit`` is for any thread, ``load`` and ``trim`` are for the turn.

    ``refused``: the journal took an entry no more, and none is tried in this session.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self.refused = False
        self._written = LOOK_AFTER - 1  # the first entry of a process counts the entries

    def load(self) -> None:
        """A new session: see that there is a folder for entries. Raises Unavailable."""
        self.refused = False
        try:
            self._session.ensure(paths.JOURNAL_POOL)
        except Denied as denied:
            self._refuse(denied)

    def commit(self, changes: Sequence[Change], *entries: Entry | None) -> Stats:
        """Commit as a session does, with the entries that there are; the stats are those of ``changes``."""
        appended = [Append(paths.JOURNAL_POOL, entry) for entry in entries if entry is not None]
        if not appended or self.refused:
            return self._session.commit(changes)
        try:
            stats = self._session.commit([*changes, *appended])
        except (Stale, Denied) as refused:
            if isinstance(refused, Stale) and refused.path != paths.JOURNAL_POOL:
                raise
            stats = self._session.commit(changes)  # an entry was refused, unless this is refused, too
            self._refuse(refused)
            return stats
        self._written += len(appended)
        return stats[: len(changes)]

    def trim(self) -> None:
        """Delete the oldest entries, if it is time to count them. Raises Unavailable."""
        if self._written < LOOK_AFTER:
            return
        self._written = 0
        folder = self._session.get(paths.JOURNAL_POOL)
        if folder is not None and folder.children > limits.POOL_ENTRIES:
            journal.trim(self._session, pool=True)

    def _refuse(self, cause: Exception) -> None:
        if not self.refused:
            log.warning(
                "the journal takes no entries of this launcher: %s; make its folder with: nodepool-ocb init", cause
            )
        self.refused = True
