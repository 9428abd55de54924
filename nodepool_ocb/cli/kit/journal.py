"""The journal of this command, for verbs that are not operations yet; ``operations.journal`` has the rules."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from nodepool_ocb.cli.kit.performing import me as me
from nodepool_ocb.cli.kit.performing import performer
from nodepool_ocb.model.records import Change
from nodepool_ocb.views.changes import ChangeRow

if TYPE_CHECKING:
    from nodepool_ocb.model.journal import Entry
    from nodepool_ocb.store.client.frames import Znode
    from nodepool_ocb.store.client.session import Session


def rows(changes: Iterable[Change]) -> tuple[ChangeRow, ...]:
    """Changes as people name them, with the values that they replaced, as far as these are known."""
    return performer().journal.rows(changes)


def note(opened: Session, changes: Sequence[Change], replaced: Sequence[Znode]) -> Entry | None:
    """The entry for a transaction of this command; None if it changes nothing that people name."""
    return performer().journal.entry(opened, changes, replaced)


def named(change: str, kind: str, names: Iterable[str]) -> tuple[ChangeRow, ...]:
    """Rows for transactions with changes that have no name of their own."""
    return performer().journal.named(change, kind, names)


def done(opened: Session, change: str, kind: str, names: Iterable[str]) -> None:
    """Note an action outside ZooKeeper; raises the errors of ``session.commit``."""
    performer().journal.done(opened, change, kind, names)


def noted() -> None:
    """Count an entry that was committed."""
    performer().journal.written()
