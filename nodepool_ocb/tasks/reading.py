"""Task lists (seed 002): Fuel's documents, and those of this product, to tasks.

A list is made of files, each a YAML list of entries; a directory stands for every ``tasks.yaml`` below it. A deployment's own
list may lie above its release's (``layers``). The faults of all files are reported together, with file, line and path.
References between tasks are judged only if the files could be read to their ends, and a limit that is exceeded ends the reading.

``lenient`` reads all that Fuel read, with a warning for each oddity. Of a key that is there twice the last value counts. Unknown
keys are left out. A name that exists nowhere is no relation between nodes. A missing setting is null in conditions.
``compat_prefix`` lets patterns match the beginnings of names, as Fuel's did. docs/tasks.md has the keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from nodepool_ocb.documents import document as documents
from nodepool_ocb.documents.document import Document
from nodepool_ocb.documents.plainyaml import Fault, kind_of
from nodepool_ocb.errors import Invalid, NotFound
from nodepool_ocb.tasks import layers
from nodepool_ocb.tasks.documents import entries
from nodepool_ocb.tasks.documents.entries import TaskEntry
from nodepool_ocb.tasks.documents.notes import Notes
from nodepool_ocb.tasks.layers import TaskListLayer
from nodepool_ocb.tasks.tasklist import Task, TaskKind, TaskList

FILE: Final = "tasks.yaml"
FILES: Final = 1_000
TASKS: Final = 10_000
BYTES: Final = 8 << 20  # of all files together


class Files(msgspec.Struct, frozen=True):
    """The files of a list, by their paths below its root."""

    root: str
    texts: Mapping[str, str]
    warnings: tuple[str, ...] = ()  # files that were left out


class CheckedTaskList(msgspec.Struct, frozen=True):
    """A list without faults."""

    tasks: TaskList
    warnings: tuple[str, ...] = ()  # FILE:LINE: PATH: sentence


def files(source: Path) -> Files:
    """The files of a directory, or one file, which is then called ``tasks.yaml``.

    Links are followed as long as they do not lead out of the directory. Raises NotFound if there is no such file. Raises Invalid
    for a file that cannot be read, and for too many or too large files.
    """
    if not source.exists():
        raise NotFound(f"{source} does not exist; check the path")
    if not source.is_dir():
        return Files(str(source.parent), _bounded(source, {FILE: documents.read(source)}))
    found, left_out = _below(source)
    if not found:
        raise NotFound(f"{source} holds no {FILE}; name the directory of a task list, or a file")
    if len(found) > FILES:
        raise Invalid(f"{source}: holds more than {FILES} files {FILE}; divide it")
    texts, problems = dict[str, str](), list[str]()
    for path in found:
        try:
            texts[str(path.relative_to(source))] = documents.read(path)
        except Invalid as invalid:
            problems += invalid.problems
    if problems:
        raise Invalid(problems)
    warnings = tuple(f"{path}: is a link that leads out of {source}, or nowhere; it is left out" for path in left_out)
    return Files(str(source), _bounded(source, texts), warnings)


def _below(root: Path) -> tuple[list[Path], list[Path]]:
    """The files of a list by their paths, each once; and the links that lead out of the directory, or nowhere."""
    found: list[Path] = []
    left_out: list[Path] = []
    pending = [root]
    while pending and len(found) <= FILES:
        for path in _inside(pending.pop()):
            if path.is_symlink() and not _leads_to(path, root.resolve()):
                left_out += [path] * (path.name == FILE or path.is_dir())
            elif path.is_dir() and not path.is_symlink():  # the target of a link is found in its own place
                pending.append(path)
            elif path.name == FILE and path.is_file():
                found.append(path)
    once: dict[Path, Path] = {}
    for path in sorted(found, key=lambda path: (path.is_symlink(), path)):  # rather the file itself than a link to it
        once.setdefault(path.resolve(), path)
    return sorted(once.values()), sorted(left_out)


def _inside(directory: Path) -> list[Path]:
    try:
        return sorted(directory.iterdir())
    except OSError as error:
        raise Invalid(f"{directory}: cannot be read: {error.strerror}; check the directory and its mode") from error


def _leads_to(link: Path, root: Path) -> bool:
    """Whether a link leads to something at or below the root."""
    try:
        return link.resolve(strict=True).is_relative_to(root)
    except (OSError, RuntimeError):  # it leads nowhere, or to itself
        return False


def _bounded(source: Path, texts: dict[str, str]) -> dict[str, str]:
    if sum(len(text.encode("utf-8", "surrogatepass")) for text in texts.values()) > BYTES:
        raise Invalid(f"{source}: its files are larger than {BYTES >> 20} MiB together; divide it")
    return texts


def read_files(sources: Iterable[Path], *, lenient: bool = False, compat_prefix: bool = False) -> CheckedTaskList:
    """The one list that directories and files hold; raises as ``files`` and ``read`` do."""
    found = [files(source) for source in sources]
    texts: dict[str, str] = {}
    for source, each in zip(sources, found, strict=True):
        texts |= layers.named(each.root, each.texts) if Path(source).is_dir() else {str(source): each.texts[FILE]}
    reading = read([TaskListLayer(texts)], lenient=lenient, compat_prefix=compat_prefix)
    return replace(reading, warnings=(*(warning for each in found for warning in each.warnings), *reading.warnings))


def read_texts(
    texts: Mapping[str, str], origin: str = "", *, lenient: bool = False, compat_prefix: bool = False
) -> CheckedTaskList:
    """The list that texts hold, by the names of their files; raises Invalid with every fault."""
    return read([TaskListLayer(texts, origin)], lenient=lenient, compat_prefix=compat_prefix)


def read(listed: Sequence[TaskListLayer], *, lenient: bool = False, compat_prefix: bool = False) -> CheckedTaskList:
    """The list that layers make together, the lowest first; raises Invalid with every fault of all of them."""
    from nodepool_ocb.tasks.documents import circles, references  # here, since jsonschema takes long to import

    notes = Notes(lenient)
    whole = True
    found = []
    for layer in listed:
        read_, complete = _entries(layer, notes)
        found.append(read_)
        whole = whole and complete
    merged = layers.merged(found)
    resolved = references.Resolved()
    if whole:
        resolved = references.check(merged, notes, compat_prefix)
        circles.check(merged, resolved.renamed, notes, compat_prefix)
    if notes.faults:
        raise Invalid(_sorted(notes.faults))
    own = references.by_own_id(merged)
    tasks = [_placed(entries.task(entry, resolved.renamed, lenient=lenient), own) for entry in merged]
    tasks += [Task(id=name, kind=TaskKind.STAGE) for name in resolved.added]
    return CheckedTaskList(TaskList(tuple(tasks), compat_prefix), (*notes.read_so, *_sorted(notes.warnings)))


def _entries(layer: TaskListLayer, notes: Notes) -> tuple[list[TaskEntry], bool]:
    """The entries of one list that have an id of their own; and whether all of its files could be read to their ends."""
    found: dict[str, TaskEntry] = {}
    complete = True
    for name, text in layer.texts.items():
        for document, wrong in documents.load_all_that_can_be_read(text, name, last=notes.lenient):
            notes.faults += [(name, _of_its_task(fault, document)) for fault in wrong]
            notes.read_so += document.warnings
            complete = complete and all(fault.key for fault in wrong)
            for entry in _of_document(document, layer.origin, notes):
                _add(entry, found, notes)
    return list(found.values()), complete


def _of_its_task(fault: Fault, document: Document) -> Fault:
    """A fault of YAML, with the id of the task in which it is."""
    if not (isinstance(document.value, list) and fault.key and fault.key[0] in range(len(document.value))):
        return fault
    return replace(fault, path=f"{document.path(fault.key[:1])}{fault.path.removeprefix(f'[{fault.key[0]}]')}")


def _of_document(document: Document, origin: str, notes: Notes) -> Iterator[TaskEntry]:
    if not isinstance(document.value, list | None):
        text = f"must be a list of tasks, each begun with `- id:`, and is {kind_of(document.value)}"
        notes.faults.append((document.name, Fault(1, text)))
        return
    for index, value in enumerate(document.value or ()):
        key = (index,)
        if isinstance(value, dict):
            yield TaskEntry(document, key, origin)
        else:
            text = f"must be a task, a mapping with id and type, and is {kind_of(value)}"
            notes.faults.append((document.name, Fault(document.line(key), text, document.path(key), key)))


def _add(entry: TaskEntry, found: dict[str, TaskEntry], notes: Notes) -> None:
    from nodepool_ocb.tasks.documents import faults

    faults.check(entry, notes)
    if entry.id in found:
        notes.fault(
            entry, ("id",), f"must be an id of its own, and is that of {found[entry.id].place}; rename one of them"
        )
    elif entry.id:
        found[entry.id] = entry
    if len(found) > TASKS:
        raise Invalid(f"{entry.place}: a list has at most {TASKS} tasks, and this one has more; divide it")


def _placed(task: Task, by_own_id: Iterable[str]) -> Task:
    return replace(task, roles=(task.id,)) if task.id in by_own_id else task


def _sorted(notes: Sequence[tuple[str, Fault]]) -> list[str]:
    """By file, line and path."""
    order = sorted(notes, key=lambda note: (note[0], note[1].line, note[1].path, note[1].text))
    return list(dict.fromkeys(fault.at(name) for name, fault in order))
