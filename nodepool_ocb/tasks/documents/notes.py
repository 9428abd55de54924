"""Faults in the documents of a task list, and warnings about odd values."""

from __future__ import annotations

import msgspec

from nodepool_ocb.documents.plainyaml import Fault, Key
from nodepool_ocb.tasks.documents.entries import TaskEntry


class Notes(msgspec.Struct):
    """Each is (file, fault), in any order."""

    lenient: bool = False
    faults: list[tuple[str, Fault]] = []
    warnings: list[tuple[str, Fault]] = []
    read_so: list[str] = []  # further warnings: values that YAML leaves open

    def fault(self, entry: TaskEntry, key: Key, text: str) -> None:
        self.faults.append((entry.document.name, fault_at(entry, key, text)))

    def warning(self, entry: TaskEntry, key: Key, text: str) -> None:
        self.warnings.append((entry.document.name, fault_at(entry, key, text)))

    def slip(self, entry: TaskEntry, key: Key, text: str) -> None:
        """A fault; in a lenient reading a warning."""
        (self.warning if self.lenient else self.fault)(entry, key, text)


def fault_at(entry: TaskEntry, key: Key, text: str) -> Fault:
    """A fault at a key within an entry."""
    whole = (*entry.key, *key)
    return Fault(entry.document.line(whole), text, entry.document.path(whole), whole)
