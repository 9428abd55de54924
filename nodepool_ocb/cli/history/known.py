"""Names and commands that ``history`` and ``events`` are asked for: what neither cluster nor journal knows is an error."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

import click

from nodepool_ocb.cli.kit import output
from nodepool_ocb.documents.suggest import did_you_mean
from nodepool_ocb.engine.inputs import concealing
from nodepool_ocb.errors import Invalid, NotFound
from nodepool_ocb.model import paths
from nodepool_ocb.model.journal import DAEMON_VERBS
from nodepool_ocb.model.records import Role
from nodepool_ocb.views.history import entries
from nodepool_ocb.views.history.entries import EntryRow

if TYPE_CHECKING:
    from nodepool_ocb.store.client.session import Session

AT_ONCE: Final = 200  # entries that are read


def newest_first(opened: Session, warn: bool = True) -> Iterator[EntryRow]:
    """Every entry; one that cannot be read is named, if ``warn``, and left out.

    A value that roles declare as secret now is hidden, also where it was noted in plain text.
    """
    from nodepool_ocb.store import journal

    secret = partial(concealing.covers, concealing.places(_roles(opened)))
    numbers = journal.numbers(opened)[::-1]
    for start in range(0, len(numbers), AT_ONCE):
        for read in journal.read(opened, numbers[start : start + AT_ONCE]):
            if read.entry is not None:
                yield EntryRow(number=read.number, record=entries.concealed(read.entry, secret))
            elif warn:
                output.say(f"warning: this entry cannot be read: {read.problem}")


def _roles(opened: Session) -> Iterator[Role]:
    from nodepool_ocb.store.client import codec

    for znode in opened.get_many([paths.role(name) for name in opened.children(paths.ROLES) or ()]):
        with suppress(Invalid):  # `status` names what cannot be read
            if znode is not None:
                yield codec.decode(Role, znode)


def names(opened: Session, asked: Sequence[str], strict: bool = True) -> None:
    """Raises NotFound for a name that is neither in the cluster nor in the journal; says so instead unless ``strict``.

    An entry without room for all names may be about any, so where there is one it is said, too.
    """
    if not asked:
        return
    there = _there(opened)
    left = [name for name in asked if name not in there]
    cut = False
    for row in newest_first(opened, warn=False) if left else ():
        left = [name for name in left if not any(entries.about(each, [name]) for each in row.record.subjects)]
        cut = cut or row.record.more > 0
        if not left:
            return
    for name in left:
        sentence = f"neither the cluster nor the journal has the name {name}{did_you_mean(name, there)}"
        if strict and not cut:
            raise NotFound(sentence)
        output.say(sentence)


def verb(opened: Session, asked: str) -> None:
    """Raises BadParameter for a word that is no command, no noun, no verb of a daemon, and in no entry."""
    root = click.get_current_context().find_root()
    known = {*_verbs(root.command, root), *DAEMON_VERBS}
    nouns = {each.partition(" ")[0] for each in known}
    noted = (row.record.verb for row in newest_first(opened, warn=False))
    if asked not in known | nouns and not any(f"{each} ".startswith(f"{asked} ") for each in noted):
        raise click.BadParameter(
            f"there is no command {asked!r}{did_you_mean(asked, known | nouns)}", param_hint="--verb"
        )


def _there(opened: Session) -> set[str]:
    """What people may name, of what is there now."""
    from nodepool_ocb.store import images
    from nodepool_ocb.store.world.load import load_world

    world = load_world(opened)
    vertices = {vertex.name for vertex in world.vertices()}
    return {*world.nodes, *world.roles, *world.deployments, *vertices, *images.names(opened)}


def _verbs(command: click.Command, ctx: click.Context) -> Iterator[str]:
    if not isinstance(command, click.Group):
        return
    for name in command.list_commands(ctx):
        below = command.get_command(ctx, name)
        if isinstance(below, click.Group):
            yield from (f"{name} {each}" for each in _verbs(below, ctx))
        elif below is not None:
            yield name
