"""``tasks upload`` and ``tasks sync``: a list is checked as it is run, compared with the stored one, and written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

import msgspec

from nodepool_ocb.documents.counting import counted
from nodepool_ocb.errors import Ambiguous, Conflict, Invalid, NotFound, bounded
from nodepool_ocb.model.records import Json
from nodepool_ocb.operations.operation import Note, Operation, Right, Situation, Steps
from nodepool_ocb.operations.reads.tasks.lists import ReadListRemains, ReadStoredList, WriteTaskList
from nodepool_ocb.operations.tasks import lists, sources
from nodepool_ocb.operations.tasks.files import ListFiles
from nodepool_ocb.tasks.layers import TaskListLayer
from nodepool_ocb.tasks.records import ListOwner, StoredList
from nodepool_ocb.views.tasks import exchange as shown
from nodepool_ocb.views.tasks.exchange import StoredRow

READS = (*lists.READS, *sources.READS, ReadListRemains, WriteTaskList)
WRITES = ("task list",)


class ListUpload(msgspec.Struct, frozen=True, kw_only=True):
    """A list to store. A field without a value leaves that part of the stored list as it is."""

    owner: ListOwner
    files: ListFiles | None = None
    base: str | None = None  # a release
    settings: Mapping[str, Json] | None = None
    lenient: bool = False
    compat_prefix: bool = False
    force: bool = False  # also over a list that another writer changed, and over one that cannot be read


class _WantedList(msgspec.Struct, frozen=True, kw_only=True):
    """The list after an upload."""

    texts: Mapping[str, str]
    layer: TaskListLayer  # the same, with the names of messages
    base: str | None
    settings: Mapping[str, Json]
    lenient: bool
    compat_prefix: bool
    tasks: int = 0  # of its own


class TasksUpload(Operation[StoredRow], frozen=True, kw_only=True):
    """Check a list, and store it: it replaces the whole list of its owner."""

    noun = "tasks"
    verb = "upload"
    right = Right.OPERATOR
    reads = READS
    writes = (*WRITES, "task settings")

    release: str | None = None
    deployment: str | None = None
    files: ListFiles | None = None  # None: only base and settings change
    base: str | None = None  # of a deployment: the release with the list below its own
    settings: Mapping[str, Json] | None = None  # of a deployment
    lenient: bool = False
    compat_prefix: bool = False
    force: bool = False  # also over a list that another writer changed, and over one that cannot be read

    def decide(self, situation: Situation) -> Steps[StoredRow]:
        """Raises Invalid with every fault, NotFound without the base, Conflict if another writer was faster, Ambiguous."""
        refuse_contradictions(self.release, self.deployment, self.files is not None, self.base, self.settings)
        upload = ListUpload(
            owner=lists.owner(self.release, self.deployment),
            files=self.files,
            base=self.base,
            settings=self.settings,
            lenient=self.lenient,
            compat_prefix=self.compat_prefix,
            force=self.force,
        )
        return (yield from stored(upload, situation))


def refuse_contradictions(
    release: str | None, deployment: str | None, files: bool, base: str | None, settings: object
) -> None:
    """Raises Ambiguous for an upload to no owner or to two, of nothing, or of parts that its owner cannot have."""
    if not lists.owner(release, deployment).deployment and (base or settings is not None):
        raise Ambiguous("--base and --settings belong to a deployment; give --deployment")
    if not files and not base and settings is None:
        raise Ambiguous("give the files of a list, --base or --settings")


class ReleaseFiles(msgspec.Struct, frozen=True, kw_only=True):
    """The files of a release. ``problems``: the reasons why the caller could not read them; the release is then refused."""

    release: str
    how: str  # the reason why these files are of this release
    files: ListFiles | None = None
    problems: tuple[str, ...] = ()


class ReleasesStored(msgspec.Struct, frozen=True):
    """The answer of ``sync``: a row for each release, and the faults of those that stay as they are."""

    rows: tuple[StoredRow, ...]
    problems: tuple[str, ...]


class TasksSync(Operation[ReleasesStored], frozen=True, kw_only=True):
    """Store the lists of releases. A release with a fault stays as it is."""

    noun = "tasks"
    verb = "sync"
    right = Right.OPERATOR
    reads = READS
    writes = WRITES

    releases: tuple[ReleaseFiles, ...]
    lenient: bool = False
    compat_prefix: bool = False

    def decide(self, situation: Situation) -> Steps[ReleasesStored]:
        rows: list[StoredRow] = []
        problems: list[str] = []
        for each in self.releases:
            wrong = each.problems
            if each.files is not None:
                upload = ListUpload(
                    owner=ListOwner(False, each.release),
                    files=each.files,
                    lenient=self.lenient,
                    compat_prefix=self.compat_prefix,
                    force=True,
                )
                try:
                    rows.append((yield from stored(upload, situation, each.how)))
                    continue
                except Invalid as invalid:
                    wrong = invalid.problems
                except (NotFound, Conflict) as refused:
                    wrong = (str(refused),)
            rows.append(shown.failed(each.release, each.how, len(wrong)))
            problems += _of_release(each.release, wrong)
        return ReleasesStored(tuple(rows), tuple(problems))


def _of_release(release: str, wrong: Sequence[str]) -> list[str]:
    return [*wrong, f"release {release}: {counted(len(wrong), 'fault')}; its list stays as it is"]


def stored(upload: ListUpload, situation: Situation, how: str | None = None) -> Steps[StoredRow]:
    """Store a list, unless it is a dry run or nothing differs. ``how``: of ``ReleaseFiles``."""
    of = upload.owner
    before = yield from _before(upload)
    yield from _warn(upload.files.warnings if upload.files else ())
    wanted = yield from _checked(of, _wanted(before, upload))
    changes = _changes(before, wanted)
    if changes and not situation.call.dry_run:
        yield from WriteTaskList(
            owner=of,
            before=None if upload.force else before,
            changes=frozenset(changes),
            texts=wanted.texts,
            tasks=wanted.tasks,
            lenient=wanted.lenient,
            compat_prefix=wanted.compat_prefix,
            base=wanted.base,
            settings=wanted.settings,
        )
    there = before.there or before.record.release is not None
    return StoredRow(
        kind="deployment" if of.deployment else "release",
        name=of.name,
        change=("changed" if there else "created") if changes else "unchanged",
        tasks=wanted.tasks,
        files=len(wanted.texts),
        base=wanted.base,
        how=how,
    )


def _before(upload: ListUpload) -> Steps[StoredList]:
    """The stored list; with ``force`` the part of it that can be read."""
    try:
        return (yield from ReadStoredList(upload.owner))
    except Invalid as broken:
        if not upload.force:
            advice = f"{upload.owner}: parts that cannot be read; to replace them: nodepool-ocb tasks upload --force"
            raise Invalid([*broken.problems, advice]) from broken
    except Conflict:
        if not upload.force:
            raise
    return (yield from ReadListRemains(upload.owner))


def _wanted(before: StoredList, upload: ListUpload) -> _WantedList:
    options = before.record if upload.files is None else upload
    files = ListFiles(before.texts) if upload.files is None else upload.files
    return _WantedList(
        texts=files.texts,
        layer=files.layer(str(upload.owner)),
        base=upload.base or before.record.release,
        settings=before.settings if upload.settings is None else upload.settings,
        lenient=options.lenient,
        compat_prefix=options.compat_prefix,
    )


def _checked(of: ListOwner, wanted: _WantedList) -> Steps[_WantedList]:
    """With the number of its tasks; warnings are notes. Raises Invalid."""
    from nodepool_ocb.tasks import reading

    below = yield from lists.base(wanted.base)
    own = [wanted.layer] if wanted.texts else []
    if not own and not below.layers:
        return wanted
    lenient, compat_prefix = below.flags(wanted)
    read = partial(reading.read, [*below.layers, *own], compat_prefix=compat_prefix)
    found = yield from lists.accepted(lists.judged(lenient, read))
    refused = yield from sources.warnings(sources.of_list(found.tasks))
    yield from _warn([*found.warnings, *refused])
    return msgspec.structs.replace(wanted, tasks=sum(each.origin == str(of) for each in found.tasks.tasks))


def _warn(warnings: Iterable[str]) -> Steps[None]:
    for each in bounded(tuple(warnings), "warnings"):
        yield Note(f"warning: {each}")


def _changes(before: StoredList, wanted: _WantedList) -> set[str]:
    """The parts that differ: "list", "base", "settings"."""
    record = before.record
    own = (dict(before.texts), record.lenient, record.compat_prefix)
    pairs = {
        "list": (own, (dict(wanted.texts), wanted.lenient, wanted.compat_prefix)),
        "base": (record.release, wanted.base),
        "settings": (before.settings, wanted.settings),
    }
    return {name for name, (old, new) in pairs.items() if old != new}
