"""Task lists of releases and deployments, and the files of this host that tasks name."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Set
from typing import TYPE_CHECKING, NamedTuple

from nodepool_ocb.errors import NotFound
from nodepool_ocb.model.records import Json
from nodepool_ocb.operations.operation import Lookup, Procedure, final
from nodepool_ocb.tasks.records import ListOwner, StoredList, TaskListRecord

if TYPE_CHECKING:
    from nodepool_ocb.config import Settings
    from nodepool_ocb.operations.performer import Reader


class ReadStoredList(Lookup[StoredList], frozen=True):
    """The list of an owner, no older than this call.

    Raises NotFound without the deployment, Invalid, and Conflict if the list changes on and on.
    """

    records = "task lists"

    owner: ListOwner

    def answer(self, reader: Reader) -> StoredList:
        from nodepool_ocb.store.tasks import lists

        reader.session.sync()
        with final():
            return lists.read(reader.session, self.owner)


class ReadListRemains(Lookup[StoredList], frozen=True):
    """As ``ReadStoredList``, for a list that cannot be read: parts that cannot be read are left out."""

    records = "task lists"

    owner: ListOwner

    def answer(self, reader: Reader) -> StoredList:
        from nodepool_ocb.store.tasks import lists

        return lists.remains(reader.session, self.owner)


class ListedTaskList(NamedTuple):
    """A list among others; ``configured``: its deployment has settings."""

    owner: ListOwner
    record: TaskListRecord
    configured: bool


class ListTaskLists(Lookup[list[ListedTaskList]], frozen=True):
    """All lists, those of releases first, by name; records that cannot be read are left out."""

    records = "task lists"

    def answer(self, reader: Reader) -> list[ListedTaskList]:
        from nodepool_ocb.store.tasks import lists

        opened = reader.session
        opened.sync()
        found = []
        for owner, record in lists.listed(opened).items():
            configured = False
            with contextlib.suppress(NotFound):  # deleted meanwhile
                configured = lists.configured(opened, owner)
            found.append(ListedTaskList(owner, record, configured))
        return found


class ListReleases(Lookup[list[str]], frozen=True):
    """The releases that have a list."""

    records = "task lists"

    def answer(self, reader: Reader) -> list[str]:
        from nodepool_ocb.store.tasks import lists

        return [
            each.name for each, record in lists.listed(reader.session).items() if not each.deployment and record.upload
        ]


class WriteTaskList(Procedure[None], frozen=True, kw_only=True):
    """Replace a list, the base of a deployment's list, or its settings: those of ``changes``.

    ``before``: the list as it was read; None: any list there is replaced. Raises Conflict if another writer changed it since.
    """

    owner: ListOwner
    before: StoredList | None
    changes: Set[str]  # of "list", "base", "settings"
    texts: Mapping[str, str]
    tasks: int
    lenient: bool
    compat_prefix: bool
    base: str | None
    settings: Mapping[str, Json]

    @property
    def key(self) -> object:
        return type(self), self.owner

    def carry_out(self, reader: Reader) -> None:
        from nodepool_ocb.store.tasks import lists

        opened, by, before, name = reader.session, reader.performer.call.login, self.before, self.owner.name
        if "list" in self.changes:
            meta = lists.Meta(tasks=self.tasks, by=by, lenient=self.lenient, compat_prefix=self.compat_prefix)
            lists.upload(opened, self.owner, self.texts, meta, before.version if before else None)
        if "base" in self.changes:
            lists.base(opened, name, self.base)
        if "settings" in self.changes:
            lists.configure(opened, name, self.settings, by, before.settings_version if before else None)


class ReadRefusedSources(Lookup[Mapping[str, str]], frozen=True):
    """The sources that an annealer with the configuration of the performer's host would refuse to read, each with the reason."""

    records = "configuration of the host"

    sources: frozenset[str]

    def answer(self, reader: Reader) -> Mapping[str, str]:
        return refused_sources(reader.performer.settings(), self.sources)


def refused_sources(settings: Settings, sources: Iterable[str]) -> Mapping[str, str]:
    """The answer of ``ReadRefusedSources``, for a caller without a session."""
    from nodepool_ocb.config import task_sources
    from nodepool_ocb.documents.allowed import Outside

    allowed = task_sources(settings)
    found: dict[str, str] = {}
    for source in sources:
        try:
            allowed.resolve(source)
        except Outside as outside:
            found[source] = str(outside)
    return found
