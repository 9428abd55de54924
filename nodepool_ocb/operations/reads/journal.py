"""Entries of the journal. Values of attributes that roles declare as secret are hidden, also in older entries."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec

from nodepool_ocb.documents.suggest import did_you_mean
from nodepool_ocb.engine.inputs import concealing
from nodepool_ocb.errors import Invalid, NotFound
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Role
from nodepool_ocb.operations.operation import Lookup
from nodepool_ocb.views.history import entries
from nodepool_ocb.views.history.entries import EntryFilter, EntryRow

if TYPE_CHECKING:
    from nodepool_ocb.operations.performer import Reader
    from nodepool_ocb.store.client.session import Session

AT_ONCE: Final = 200  # entries in one round of requests


class FindEntries(Lookup[list[EntryRow]], frozen=True):
    """The newest ``limit`` entries that are wanted, the newest last. A note names each entry that cannot be read."""

    records = "the journal"

    wanted: EntryFilter
    limit: int | None

    def answer(self, reader: Reader) -> list[EntryRow]:
        reader.session.sync()
        return entries.newest(_newest_first(reader, warn=True), self.wanted, self.limit)


class EntriesBefore(Lookup["list[EntryRow | None]"], frozen=True):
    """For each moment the newest entry of people or annealers that is not younger; None if the journal has none.

    Entries about tokens are left out: a token changes no machine.
    """

    records = "the journal"

    moments: tuple[float, ...]

    def answer(self, reader: Reader) -> list[EntryRow | None]:
        left = sorted(range(len(self.moments)), key=lambda place: -self.moments[place])
        found: list[EntryRow | None] = [None] * len(self.moments)
        for row in _of_folder(reader, pool=False, warn=False):
            if row.record.verb.startswith("token "):
                continue
            while left and row.record.at <= self.moments[left[0]]:
                found[left.pop(0)] = row
            if not left:
                break
        return found


class RefuseUnknownNames(Lookup[None], frozen=True):
    """Raises NotFound for a name that neither the cluster nor the journal has; sends a note instead unless ``strict``.

    An entry without room for all its subjects may be about any name. If the journal has one, a note is sent, too.
    """

    records = "everything below /ocb, images, the journal"

    names: tuple[str, ...]
    strict: bool = True

    def answer(self, reader: Reader) -> None:
        if not self.names:
            return
        known = _known(reader.session)
        left = [name for name in self.names if name not in known]
        cut = False
        for row in _newest_first(reader, warn=False) if left else ():
            left = [name for name in left if not any(entries.about(each, [name]) for each in row.record.subjects)]
            cut = cut or row.record.more > 0
            if not left:
                return
        for name in left:
            sentence = f"neither the cluster nor the journal has the name {name}"
            sentence += did_you_mean(name, known) or "; for all entries: nodepool-ocb history"
            if self.strict and not cut:
                raise NotFound(sentence)
            reader.performer.caller.note(sentence)


class VerbInJournal(Lookup[bool], frozen=True):
    """Whether an entry has the verb, or a verb that begins with its words."""

    records = "the journal"

    verb: str

    def answer(self, reader: Reader) -> bool:
        rows = _newest_first(reader, warn=False)
        return any(f"{row.record.verb} ".startswith(f"{self.verb} ") for row in rows)


class NameInJournal(Lookup[None], frozen=True):
    """Give names to changes without a row of their own: the entries of this call have these rows in their place."""

    records = ""

    change: str
    kind: str
    names: tuple[str, ...]

    def answer(self, reader: Reader) -> None:
        reader.performer.journal.named(self.change, self.kind, self.names)


def _newest_first(reader: Reader, *, warn: bool) -> Iterator[EntryRow]:
    """The entries of people, of annealers and of launchers, by their times."""
    both = (_of_folder(reader, pool, warn) for pool in (False, True))
    return heapq.merge(*both, key=lambda row: -row.record.at)


def _of_folder(reader: Reader, pool: bool, warn: bool) -> Iterator[EntryRow]:
    from nodepool_ocb.store import journal

    opened = reader.session
    secret = partial(concealing.covers, concealing.places(_roles(opened)))
    numbers = journal.numbers(opened, pool)[::-1]
    for start in range(0, len(numbers), AT_ONCE):
        for read in journal.read(opened, numbers[start : start + AT_ONCE], pool):
            if read.entry is not None:
                record = entries.concealed(read.entry, secret)
                yield EntryRow(number=read.number, record=record, pool=pool or msgspec.UNSET)
            elif warn:
                reader.performer.caller.note(f"warning: this entry cannot be read: {read.problem}")


def _roles(opened: Session) -> Iterator[Role]:
    from nodepool_ocb.store.client import codec

    for znode in opened.get_many([paths.role(name) for name in opened.children(paths.ROLES) or ()]):
        with suppress(Invalid):  # `status` names each record that cannot be read
            if znode is not None:
                yield codec.decode(Role, znode)


def _known(opened: Session) -> set[str]:
    """The names of all nodes, roles, deployments, noderoles and images, and the ids of requests and of nodes of pools."""
    from nodepool_ocb.store import images
    from nodepool_ocb.store.world.load import load_world

    world = load_world(opened)
    vertices = {vertex.name for vertex in world.vertices()}
    pools = {name for names in opened.children_many([paths.REQUESTS, paths.POOL_NODES]) for name in names or ()}
    return {*world.nodes, *world.roles, *world.deployments, *vertices, *images.names(opened), *pools}
