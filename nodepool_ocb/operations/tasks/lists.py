"""Stored task lists with those below them; and ``list`` and ``download``."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from nodepool_ocb.documents.suggest import did_you_mean
from nodepool_ocb.errors import Ambiguous, Invalid, NotFound
from nodepool_ocb.model.records import Json
from nodepool_ocb.operations.operation import Note, Operation, Right, Situation, Steps
from nodepool_ocb.operations.reads.tasks.lists import ListReleases, ListTaskLists, ReadStoredList
from nodepool_ocb.tasks.records import ListOwner
from nodepool_ocb.tasks.tasklist import TaskList
from nodepool_ocb.views.tasks.lists import ListRow, TaskDocument, task

if TYPE_CHECKING:
    from nodepool_ocb.tasks.layers import TaskListLayer
    from nodepool_ocb.tasks.reading import CheckedTaskList

AS_FUEL: Final = "note: Fuel would have read this list; --lenient reads it so, and faults become warnings"
SETTINGS: Final = "settings.json"
READS: Final = (ReadStoredList, ListReleases)


class ReadingOptions(Protocol):
    """The way to read a list: of a record, or of a request."""

    @property
    def lenient(self) -> bool: ...

    @property
    def compat_prefix(self) -> bool: ...


class BaseList(msgspec.Struct, frozen=True):
    """The list below a deployment's own: that of a release, and the way to read it; empty without a release."""

    layers: tuple[TaskListLayer, ...] = ()
    lenient: bool = False
    compat_prefix: bool = False

    def flags(self, own: ReadingOptions) -> tuple[bool, bool]:
        """Whether a list over this one is read ``--lenient`` and ``--compat-prefix``."""
        return own.lenient or self.lenient, own.compat_prefix or self.compat_prefix


class LoadedList(msgspec.Struct, frozen=True, kw_only=True):
    """A stored list with those below it."""

    layers: tuple[TaskListLayer, ...]  # the lowest first
    tasks: TaskList
    settings: Mapping[str, Json] = {}
    warnings: tuple[str, ...] = ()


class JudgedList(msgspec.Struct, frozen=True):
    """The result of reading a list; ``as_fuel``: a lenient reading would not refuse it."""

    reading: CheckedTaskList | None
    problems: tuple[str, ...] = ()
    as_fuel: bool = False

    def accepted(self) -> CheckedTaskList:
        """Raises Invalid with the problems."""
        if self.reading is None:
            raise Invalid(self.problems)
        return self.reading


def owner(release: str | None, deployment: str | None) -> ListOwner:
    """The owner that a call names; raises Ambiguous unless it names one."""
    if bool(release) == bool(deployment):
        raise Ambiguous("give --release or --deployment" + (", not both" if release else ""))
    return ListOwner(bool(deployment), release or deployment or "")


def judged(lenient: bool, read: Callable[..., CheckedTaskList]) -> JudgedList:
    """The result of ``read(lenient=...)``."""
    try:
        return JudgedList(read(lenient=lenient))
    except Invalid as wrong:
        with contextlib.suppress(Invalid):
            if not lenient:
                read(lenient=True)
                return JudgedList(None, wrong.problems, True)
        return JudgedList(None, wrong.problems)


def accepted(found: JudgedList) -> Steps[CheckedTaskList]:
    """The list; raises Invalid, after a note if a lenient reading would not refuse it."""
    if found.as_fuel:
        yield Note(AS_FUEL)
    return found.accepted()


def loaded(of: ListOwner) -> Steps[LoadedList]:
    """The list as it is run; raises NotFound if there is none, Invalid with all that is wrong in it."""
    from nodepool_ocb.tasks import reading
    from nodepool_ocb.tasks.layers import TaskListLayer

    found = yield from ReadStoredList(of)
    below = yield from base(found.record.release)
    own = [TaskListLayer(found.texts, str(of))] if found.there else []
    if not below.layers and not own:
        raise (yield from _missing(of))
    layers = (*below.layers, *own)
    lenient, compat_prefix = below.flags(found.record)
    read = reading.read(layers, lenient=lenient, compat_prefix=compat_prefix)
    return LoadedList(layers=layers, tasks=read.tasks, settings=found.settings, warnings=read.warnings)


def base(release: str | None) -> Steps[BaseList]:
    """The list below those that name this release; raises NotFound if the release has no list."""
    from nodepool_ocb.tasks.layers import TaskListLayer  # here, since yaml takes long to import

    if not release:
        return BaseList()
    of = ListOwner(False, release)
    found = yield from ReadStoredList(of)
    if not found.there:
        raise (yield from _missing(of))
    return BaseList((TaskListLayer(found.texts, str(of)),), found.record.lenient, found.record.compat_prefix)


def _missing(of: ListOwner) -> Steps[NotFound]:
    if not of.deployment:
        near = did_you_mean(of.name, (yield from ListReleases())) or "; see: nodepool-ocb tasks list"
        return NotFound(f"release {of.name} has no task list{near}")
    return NotFound(
        f"deployment {of.name} has no task list;"
        f" nodepool-ocb tasks upload DIR --deployment {of.name}, or --base RELEASE for that of a release"
    )


class TasksList(Operation[list[ListRow]], frozen=True, kw_only=True):
    """The releases and deployments that have a list, releases first."""

    noun = "tasks"
    verb = "list"
    right = Right.VIEWER
    reads = (ListTaskLists,)

    def decide(self, situation: Situation) -> Steps[list[ListRow]]:  # noqa: ARG002
        found = yield from ListTaskLists()
        return [
            ListRow(
                kind="deployment" if each.owner.deployment else "release",
                name=each.owner.name,
                base=each.record.release,
                tasks=each.record.tasks,
                files=each.record.files,
                settings=each.configured,
                since=each.record.since or None,
                by=each.record.by,
            )
            for each in found
        ]


class TasksDownload(Operation[dict[str, str]], frozen=True, kw_only=True):
    """The files of a stored list: name → text; the settings of a deployment are ``settings.json``."""

    noun = "tasks"
    verb = "download"
    right = Right.VIEWER
    reads = READS

    release: str | None = None
    deployment: str | None = None
    merged: bool = False  # one file: the list of the release with the deployment's own entries

    def owner(self) -> ListOwner:
        """The owner of the list; raises Ambiguous unless one is named."""
        return owner(self.release, self.deployment)

    def decide(self, situation: Situation) -> Steps[dict[str, str]]:  # noqa: ARG002
        """Raises NotFound, Invalid; Ambiguous unless one owner is named."""
        of = self.owner()
        found = yield from loaded(of)
        if self.merged:
            from nodepool_ocb.views.tasks import exchange  # here, since yaml takes long to import

            return exchange.merged(found.layers)
        own = next((layer.texts for layer in found.layers if layer.origin == str(of)), {})
        settings = {SETTINGS: json.dumps(found.settings, indent=2, ensure_ascii=False) + "\n"} if found.settings else {}
        return {**own, **settings}


class TasksShow(Operation[TaskDocument], frozen=True, kw_only=True):
    """One task as it is run: its origin, its work, and the tasks just before and after it."""

    noun = "tasks"
    verb = "show"
    right = Right.VIEWER
    reads = READS

    task: str
    release: str | None = None
    deployment: str | None = None

    def decide(self, situation: Situation) -> Steps[TaskDocument]:  # noqa: ARG002
        """Raises NotFound, Invalid; Ambiguous unless one owner is named."""
        found = yield from loaded(owner(self.release, self.deployment))
        return task(found.tasks, self.task)
