"""Files of builds that no record names: removed when they have been seen so for the grace time, and never at once.

The absence of a record proves little: it may be about to be written, and an ensemble that was restored from a backup lacks
the newest ones. So the time counts from the first look of this process that found a file without a record, by its own
monotonic clock, and not by the file's own times. It begins again with each start.

In Nodepool's tree the log of a file's build must say that a builder of ours made it. A directory that was Nodepool's may hold
files that Nodepool made, or that a person put there.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from nodepool_ocb.images.rules import ImageView
from nodepool_ocb.store import images
from nodepool_ocb_builder.context import Context
from nodepool_ocb_builder.image_directory import named, remove_all

log = logging.getLogger(__name__)


class Orphans:
    """Remembers the files without a record, with the time of the first look."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._first_seen: dict[Path, float] = {}  # monotonic

    def look(self, views: Mapping[str, ImageView], unread: Iterable[str], working: Iterable[str]) -> None:
        """Remove files, and old logs, that no record names; blocking, for a thread. Raises Unavailable.

        ``views`` and ``unread`` may be a little old: unknown records are read again. ``unread`` are the paths of records that
        cannot be decoded: the files that they name stay. ``working`` are the names of the builds that are made here now.
        """
        context, working = self._context, set(working)
        known = working | _named(views, unread)
        if context.directory.orphans(known):
            context.sync()
            unread_now: dict[str, str] = {}
            known = working | _named(
                images.read(context.session, images.names(context.session), unread_now), unread_now
            )
        self._remove_what_is_old(context.directory.orphans(known, made_here=context.session.tree.foreign))
        for path in context.directory.prune_logs(known, context.nodepool.build_log_retention):
            log.info("%s is an old log: removed", path)

    def _remove_what_is_old(self, found: list[Path]) -> None:
        grace, now = self._context.settings.orphan_grace_seconds, time.monotonic()
        new = [path for path in found if path not in self._first_seen]
        self._first_seen = {path: self._first_seen.get(path, now) for path in found}
        if new:
            log.warning(
                "%d files have no record, %s first: they are removed in %.0f s unless one comes back; move away files"
                " that must stay", len(new), new[0], grace
            )  # fmt: skip
        for path, since in self._first_seen.items():
            if now >= since + grace:
                faults = remove_all([path])
                level = logging.WARNING if faults else logging.INFO
                log.log(level, "%s has no record: %s", path, "; ".join(faults) or "removed")


def _named(views: Mapping[str, ImageView], unread: Iterable[str]) -> set[str]:
    """The builds that records name, those too that cannot be decoded."""
    known = {named(view.name, build.id) for view in views.values() for build in view.builds}
    return known | {named(*path.split("/")[3:6:2]) for path in unread if path.count("/") >= 5}
