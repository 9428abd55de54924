"""``tasks check``: everything that is wrong in a list, before it is stored."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from nodepool_ocb.errors import Invalid
from nodepool_ocb.operations.operation import Operation, Right, Situation, Steps
from nodepool_ocb.operations.reads.tasks.lists import ReadStoredList, refused_sources
from nodepool_ocb.operations.tasks import lists, sources
from nodepool_ocb.operations.tasks.files import ListFiles
from nodepool_ocb.operations.tasks.lists import JudgedList
from nodepool_ocb.tasks.records import ListOwner
from nodepool_ocb.tasks.tasklist import TaskList
from nodepool_ocb.views.tasks import lists as shown
from nodepool_ocb.views.tasks.lists import CheckedList

if TYPE_CHECKING:
    from nodepool_ocb.config import Settings


class TasksCheck(Operation[CheckedList], frozen=True, kw_only=True):
    """Check a list over that of a release, or over that of a deployment's release. The answer has the problems."""

    noun = "tasks"
    verb = "check"
    right = Right.VIEWER
    reads = (*lists.READS, *sources.READS)

    files: ListFiles
    release: str | None = None
    deployment: str | None = None
    lenient: bool = False
    compat_prefix: bool = False

    def decide(self, situation: Situation) -> Steps[CheckedList]:  # noqa: ARG002
        """Raises NotFound; Ambiguous unless one owner is named."""
        of = lists.owner(self.release, self.deployment)
        try:
            found = yield from lists.accepted((yield from self._judged(of)))
            refused = yield from sources.warnings(sources.of_list(found.tasks))
        except Invalid as wrong:
            return shown.refused(wrong.problems)
        return shown.checked(found.tasks, (*self.files.warnings, *found.warnings, *refused))

    def _judged(self, of: ListOwner) -> Steps[JudgedList]:
        from nodepool_ocb.tasks import reading

        release: str | None = of.name
        if of.deployment:
            release = (yield from ReadStoredList(of)).record.release
        below = yield from lists.base(release)
        lenient, compat_prefix = below.flags(self)
        layers = [*below.layers, self.files.layer()]
        return lists.judged(lenient, partial(reading.read, layers, compat_prefix=compat_prefix))


def check_files(
    given: Sequence[str], settings: Callable[[], Settings], *, lenient: bool, compat_prefix: bool
) -> tuple[CheckedList, bool]:
    """Check the list in files and directories of this host; True: a lenient reading would not refuse it.

    ``settings`` is asked if the list names files. Raises NotFound.
    """
    from nodepool_ocb.tasks import reading

    files = [Path(each) for each in given]
    found = lists.judged(lenient, partial(reading.read_files, files, compat_prefix=compat_prefix))
    try:
        read = found.accepted()
    except Invalid as wrong:
        return shown.refused(wrong.problems), found.as_fuel
    try:
        return shown.checked(read.tasks, (*read.warnings, *_refused(read.tasks, settings))), False
    except Invalid as wrong:
        return shown.checked(read.tasks, read.warnings, wrong.problems), False


def _refused(tasks: TaskList, settings: Callable[[], Settings]) -> list[str]:
    named = sources.of_list(tasks)
    return sources.sentences(named, refused_sources(settings(), {src for _, src in named})) if named else []
