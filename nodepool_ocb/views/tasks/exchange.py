"""What became of lists that were stored, and of files that were written."""

from __future__ import annotations

from typing import Final

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
    """A release whose list was refused."""
    return StoredRow(kind="release", name=release, change="refused", tasks=None, files=None, faults=faults, how=how)
