"""A task list as ZooKeeper holds it: the texts of its files, in parts, below a record that says which upload counts.

Parts are written first, below a folder of their own, and never changed; the record names the folder. So readers see
one upload whole::

    tasks/releases/<release>                       TaskListRecord
    tasks/releases/<release>/<upload>/<part>       TaskListPart
    tasks/deployments/<deployment>                 TaskListRecord, and its parts as above
    tasks/deployments/<deployment>/settings        TaskSettings
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

import msgspec

from nodepool_ocb.model import paths
from nodepool_ocb.model.ranges import Count, Moment, Name, Times
from nodepool_ocb.model.records import Json, Record

PART_BYTES: Final = 200 * 1024  # of texts, as JSON
PIECE: Final = 16 * 1024  # letters of a text that is divided


class TaskListRecord(Record, frozen=True, kw_only=True, omit_defaults=True, tag=1):
    """``tasks/releases/<release>`` or ``tasks/deployments/<deployment>``: which list counts there, and since when."""

    upload: str = (
        ""  # the folder of its texts, "list-0000000003"; empty: none, and a deployment has its release's alone
    )
    parts: Times = 0  # that it has
    files: Times = 0
    tasks: Times = 0  # in all files
    text_bytes: Count = 0  # of all files
    since: Moment = 0.0  # when the list was uploaded
    by: str | None = None  # the uploader
    lenient: bool = False  # it was read as in Fuel: some refusals are warnings
    compat_prefix: bool = False  # its patterns match the beginnings of names
    release: Name | None = None  # of a deployment: the release with the list below its own
    life: Moment = 0.0  # of a deployment: its creation; a list with another time is of a former one


class TaskListPart(Record, frozen=True, kw_only=True, omit_defaults=True, tag=1):
    """``tasks/releases/<release>/<upload>/<part>``: texts, or pieces of them; likewise below a deployment."""

    texts: tuple[tuple[str, str], ...]  # (file, text); a file that is named again goes on


class TaskSettings(Record, frozen=True, kw_only=True, omit_defaults=True, tag=1):
    """``tasks/deployments/<deployment>/settings``: the inputs of its conditions and facts."""

    settings: Mapping[str, Json]
    since: Moment = 0.0
    by: str | None = None
    life: Moment = 0.0  # as in the list's record


class ListOwner(NamedTuple):
    """The owner of a list: a release or a deployment."""

    deployment: bool
    name: str

    def __str__(self) -> str:
        """As messages and origins have it: "release 9.0"."""
        return f"{'deployment' if self.deployment else 'release'} {self.name}"

    def path(self, part: str = "") -> str:
        return (paths.deployment_tasks if self.deployment else paths.release_tasks)(self.name, part)


class StoredList(msgspec.Struct, frozen=True):
    """The stored list; empty fields if there is none."""

    record: TaskListRecord = TaskListRecord()
    version: int = -1  # of the record, for an upload over it
    texts: Mapping[str, str] = {}  # by the names of files
    settings: Mapping[str, Json] = {}
    settings_version: int = -1

    @property
    def there(self) -> bool:
        """Whether it has a list."""
        return bool(self.record.upload)


def divided(texts: Mapping[str, str]) -> list[TaskListPart]:
    """Texts as parts, each of which a znode takes; an empty text keeps its name.

    >>> divided({"a": "x", "b": ""})[0].texts
    (('a', 'x'), ('b', ''))
    """
    found: list[list[tuple[str, str]]] = [[]]
    size = 0
    for piece in _pieces(texts):
        length = len(msgspec.json.encode(piece))
        if size + length > PART_BYTES and found[-1]:
            found.append([])
            size = 0
        found[-1].append(piece)
        size += length
    return [TaskListPart(texts=tuple(each)) for each in found]


def _pieces(texts: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name, text in texts.items():
        for start in range(0, max(len(text), 1), PIECE):
            yield name, text[start : start + PIECE]


def joined(parts: Iterable[TaskListPart]) -> dict[str, str]:
    """The texts that were ``divided``, in their order."""
    found: dict[str, list[str]] = {}
    for part in parts:
        for name, piece in part.texts:
            found.setdefault(name, []).append(piece)
    return {name: "".join(pieces) for name, pieces in found.items()}
