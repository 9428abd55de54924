"""The results of storing lists and of writing files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import yaml

from nodepool_ocb.documents import document
from nodepool_ocb.tasks.layers import TaskListLayer
from nodepool_ocb.views.view import View

CHANGES: Final = ("created", "changed")


class FileRow(View, frozen=True, kw_only=True):
    """A file that was written."""

    file: str


class StoredRow(View, frozen=True, kw_only=True):
    """A list that was stored, or was not."""

    kind: str  # "release" or "deployment"
    name: str
    change: str  # created, changed, unchanged, refused
    tasks: int | None
    files: int | None
    base: str | None = None  # of a deployment: its release
    faults: int = 0
    how: str | None = None  # of sync: why these files are this release's


def failed(release: str, how: str, faults: int) -> StoredRow:
    """The row of a release with a refused list."""
    return StoredRow(kind="release", name=release, change="refused", tasks=None, files=None, faults=faults, how=how)


def merged(layers: Sequence[TaskListLayer]) -> dict[str, str]:
    """One file with the entries of all layers, the lowest first; an entry takes the place of one of its id below it."""
    entries: dict[str, Any] = {}
    for layer in layers:
        for name, text in layer.texts.items():
            for found, _ in document.load_all_that_can_be_read(text, name, last=True):
                entries |= {each["id"]: each for each in found.value or ()}
    return {
        "tasks.yaml": yaml.dump(
            [*entries.values()], Dumper=_AnchorlessDumper, sort_keys=False, allow_unicode=True, width=120
        )
    }


class _AnchorlessDumper(yaml.SafeDumper):
    """Without anchors: a value that several entries share is written out in each."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        return True
