"""An upload: what it brings is checked as it will be run, compared with what is there, and stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from nodepool_ocb.cli.kit import session
from nodepool_ocb.cli.tasks import lists, sources
from nodepool_ocb.cli.tasks.lists import Owner
from nodepool_ocb.documents import document
from nodepool_ocb.errors import Invalid, Stale
from nodepool_ocb.model.records import Json
from nodepool_ocb.tasks.layers import Layer
from nodepool_ocb.views.tasks.exchange import StoredRow

if TYPE_CHECKING:
    from nodepool_ocb.store.client.session import Session
    from nodepool_ocb.store.tasks.lists import Stored


class Given(msgspec.Struct, frozen=True, kw_only=True):
    """What an upload brings."""

    files: Sequence[str] = ()
    base: str | None = None
    settings: str | None = None  # a file
    lenient: bool = False
    compat_prefix: bool = False


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """How it is to be: as it is, where nothing is given."""

    texts: Mapping[str, str]
    base: str | None
    settings: Mapping[str, Json]
    lenient: bool
    compat_prefix: bool
    files: Sequence[str] = ()  # where the texts are from, if they are given
    tasks: int = 0  # of its own


def store(opened: Session, of: Owner, given: Given, *, force: bool, dry_run: bool, how: str | None = None) -> StoredRow:
    """Store what is given; gives what became of it.

    Raises Invalid with every fault, NotFound where the base is not there, Conflict where somebody was faster.
    """
    opened.sync()
    before = _before(opened, of, force)
    wanted = _checked(opened, of, _wanted(before, given))
    changes = _changes(before, wanted)
    if changes and not dry_run:
        _write(opened, of, before, wanted, changes, force)
    there = before.there or before.record.release is not None
    return StoredRow(
        kind="release" if of.release else "deployment",
        name=str(of.release or of.deployment),
        change=("changed" if there else "created") if changes else "unchanged",
        tasks=wanted.tasks,
        files=len(wanted.texts),
        base=wanted.base,
        how=how,
    )


def _before(opened: Session, of: Owner, force: bool) -> Stored:
    """What is there; by force also where some of it cannot be read."""
    from nodepool_ocb.store.tasks import lists as stored

    try:
        return lists.stored(opened, of)
    except Invalid as broken:
        if not force:
            raise Invalid(
                [*broken.problems, f"{of}: what cannot be read is replaced by an upload with --force"]
            ) from broken
    except Stale:
        if not force:
            raise
    return stored.remains(opened, lists.whose(of))


def _wanted(before: Stored, given: Given) -> Wanted:
    texts, left_out = lists.read_texts(given.files) if given.files else (dict(before.texts), ())
    lists.warn(left_out)
    read = given if given.files else before.record
    return Wanted(
        texts=texts,
        base=given.base or before.record.release,
        settings=settings(given.settings) if given.settings else before.settings,
        lenient=read.lenient,
        compat_prefix=read.compat_prefix,
        files=given.files,
    )


def settings(file: str) -> Mapping[str, Json]:
    """The settings in a file of JSON or YAML; raises Invalid."""
    value = document.load(Path(file)).value
    if not isinstance(value, dict):
        raise Invalid(f"{file}:1: must be a mapping of settings")
    return value


def _checked(opened: Session, of: Owner, wanted: Wanted) -> Wanted:
    """With the number of its tasks."""
    from nodepool_ocb.tasks import reading

    below = lists.base(opened, wanted.base)
    own = [Layer(lists.placed(wanted.files, wanted.texts), str(of))] if wanted.texts else []
    if not own and not below.layers:
        return wanted
    lenient, compat_prefix = below.flags(wanted)
    found = lists.judged(lenient, partial(reading.read, [*below.layers, *own], compat_prefix=compat_prefix))
    lists.warn(sources.warned(found).warnings)
    return msgspec.structs.replace(wanted, tasks=sum(each.origin == str(of) for each in found.tasks.tasks))


def _changes(before: Stored, wanted: Wanted) -> set[str]:
    """Which of it differs: "list", "base", "settings"."""
    record = before.record
    own = (dict(before.texts), record.lenient, record.compat_prefix)
    pairs = {
        "list": (own, (dict(wanted.texts), wanted.lenient, wanted.compat_prefix)),
        "base": (record.release, wanted.base),
        "settings": (before.settings, wanted.settings),
    }
    return {name for name, (old, new) in pairs.items() if old != new}


def _write(opened: Session, of: Owner, before: Stored, wanted: Wanted, changes: set[str], force: bool) -> None:
    from nodepool_ocb.store.tasks import lists as stored

    if "list" in changes:
        meta = stored.Meta(
            tasks=wanted.tasks, by=session.me(), lenient=wanted.lenient, compat_prefix=wanted.compat_prefix
        )
        stored.upload(opened, lists.whose(of), wanted.texts, meta, None if force else before.version)
    if of.deployment and "base" in changes:
        stored.base(opened, of.deployment, wanted.base)
    if of.deployment and "settings" in changes:
        seen = None if force else before.settings_version
        stored.configure(opened, of.deployment, wanted.settings, session.me(), seen)
