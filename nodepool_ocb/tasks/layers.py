"""A release's list, and a deployment's own above it: an entry of the deployment replaces the whole entry of the same id."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePath

import msgspec

from nodepool_ocb.tasks.documents.entries import TaskEntry


class TaskListLayer(msgspec.Struct, frozen=True):
    """One list: its files by the names that messages have for them."""

    texts: Mapping[str, str]
    origin: str = ""  # "release 9.0" or "deployment lab"


def named(root: str, texts: Mapping[str, str]) -> dict[str, str]:
    """The files, below a root.

    >>> named("9.0", {"netconfig/tasks.yaml": "[]"})
    {'9.0/netconfig/tasks.yaml': '[]'}
    """
    return {str(PurePath(root, name)): text for name, text in texts.items()}


def merged(layers: Sequence[Sequence[TaskEntry]]) -> list[TaskEntry]:
    """The entries of all layers, the lowest first. An entry replaces a lower one of the same id, in its place; others follow."""
    found: dict[str, TaskEntry] = {}
    for layer in layers:
        for entry in layer:
            found[entry.id] = entry
    return list(found.values())
