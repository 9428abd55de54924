"""What a command notes in the journal: who gave it, where and why, and what it changes.

What was there before is kept in click's ``meta``, for those who print the changes.
"""

from __future__ import annotations

import getpass
import os
import socket
from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, cast

import click

from nodepool_ocb.cli.kit.options import asked
from nodepool_ocb.engine.inputs import concealing
from nodepool_ocb.engine.world import World
from nodepool_ocb.errors import Invalid
from nodepool_ocb.model import paths
from nodepool_ocb.model.journal import Entry
from nodepool_ocb.model.records import Append, Change, Json, Set
from nodepool_ocb.views import changes as shown
from nodepool_ocb.views.changes import ChangeRow
from nodepool_ocb.views.history import noting

if TYPE_CHECKING:
    from nodepool_ocb.store.client.frames import Znode
    from nodepool_ocb.store.client.session import Session

_META = "nodepool_ocb.cli.journal."


def me() -> str:
    """The user noted as the cause of a change; under sudo the user that called it. The environment says so: it is no proof."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        return "unknown"
    return os.environ.get("SUDO_USER") or user if user == "root" else user


def remember(opened: Session, changes: Sequence[Change]) -> None:
    """Read what is there before a transaction that is not to be written."""
    found = opened.get_many([each.path for each in changes if isinstance(each, Set)])
    _remember(changes, [znode for znode in found if znode is not None])


def rows(changes: Iterable[Change]) -> tuple[ChangeRow, ...]:
    """Changes as people name them, with what is known of before."""
    from nodepool_ocb.store.world.paths import parse

    found = shown.rows(changes, parse, cast("shown.Before", _kept("before")))
    declared = [str(place) for place in _kept("secret")]
    return tuple(shown.concealed(row, partial(concealing.covers, declared)) for row in found) if declared else found


def declare(world: World) -> None:
    """Keep which places the roles declare as secret: their values are neither shown nor noted."""
    _kept("secret").update(dict.fromkeys(concealing.of_world(world)))


def note(opened: Session, changes: Sequence[Change], replaced: Sequence[Znode]) -> Entry | None:
    """The entry for a transaction of this command; None where it changes nothing that people name."""
    if any(isinstance(change, Append) for change in changes):
        return None
    _remember(changes, replaced)
    found = rows(noting.worth(changes)) or tuple(_kept("named").values())
    return _entry(opened, found) if found else None


def named(change: str, kind: str, names: Iterable[str]) -> tuple[ChangeRow, ...]:
    """What the command is about, for transactions whose changes people have no name for."""
    found = tuple(ChangeRow(change=change, kind=kind, name=name, state=None) for name in names)
    _kept("named").update({row.name: row for row in found})
    return found


def done(opened: Session, change: str, kind: str, names: Iterable[str]) -> None:
    """Note what was done elsewhere than in a transaction; raises what session.commit() raises."""
    opened.ensure(paths.JOURNAL_ENTRIES)
    opened.commit([Append(paths.JOURNAL_ENTRIES, _entry(opened, named(change, kind, names)))])
    noted()


def noted() -> None:
    """Count an entry that is written: what is refused and decided again is no part of a command."""
    parts = _kept("parts")
    parts["written"] = parts.get("written", 0) + 1


def _entry(opened: Session, found: Iterable[ChangeRow]) -> Entry:
    bare = Entry(
        at=opened.now(),
        login=me(),
        host=socket.gethostname(),
        verb=_verb(),
        reason=asked("reason"),
        part=_kept("parts").get("written", 0) + 1,
    )
    return noting.entry(bare, found)


def _verb() -> str:
    """As it is typed: the noun and the verb."""
    ctx = click.get_current_context(silent=True)
    typed: list[str] = []
    while ctx is not None and ctx.parent is not None:
        if isinstance(ctx.parent.command, click.Group):
            typed.insert(0, str(ctx.info_name))
        ctx = ctx.parent
    return " ".join(typed)


def _remember(changes: Sequence[Change], there: Iterable[Znode]) -> None:
    """At the versions that were decided from; what cannot be read is left out."""
    from nodepool_ocb.store.client import codec

    kept, meant = _kept("before"), {(each.path, each.version) for each in changes if isinstance(each, Set)}
    for znode in there:
        if (znode.path, znode.version) in meant:
            try:
                kept[znode.path, znode.version] = codec.document(znode)
            except Invalid:
                continue


def _kept(what: str) -> dict[object, Json]:
    ctx = click.get_current_context(silent=True)
    kept: dict[object, Json] = {} if ctx is None else ctx.meta.setdefault(_META + what, {})
    return kept
