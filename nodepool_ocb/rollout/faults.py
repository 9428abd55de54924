"""Faults in a strategy's document, against its schema and among its groups, and warnings about odd values.

Each fault names the value found and the value expected. Parts that the schema refuses are left out of the further checks, so
that one mistake is one fault.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any, Final

from nodepool_ocb.documents import schema
from nodepool_ocb.documents.cycles import components
from nodepool_ocb.documents.document import Document
from nodepool_ocb.documents.plainyaml import Fault, Key
from nodepool_ocb.documents.suggest import did_you_mean, nearest
from nodepool_ocb.rollout import configuration
from nodepool_ocb.rollout.strategy import PHASES, SCHEMA

#: Phases are named as the reasons of groups that fail in them; these are reasons already.
RESERVED: Final = ("dependency", "stopped", "cancelled")
KIND: Final = SCHEMA.rpartition("/")[0]
#: Most lists are of tasks, which have commands of their own.
A_LIST: Final = "must be a mapping with `groups`, and is a list; for a list of tasks see: nodepool-ocb tasks plan"


def kind(document: Document) -> str | None:
    """The schema of a document: one of the two that are read, also if misspelled or of another version, or a foreign one.

    None if the document names none: the data alone.
    """
    value = document.value
    said = value.get("schema") if isinstance(value, dict) else None
    if not isinstance(said, str):
        return None
    kinds = {
        KIND: SCHEMA,
        SCHEMA: SCHEMA,
        configuration.KIND: configuration.SCHEMA,
        configuration.SCHEMA: configuration.SCHEMA,
    }
    return kinds.get(said.rpartition("/")[0]) or kinds.get(nearest(said, kinds) or "", said)


def faults(document: Document) -> list[Fault]:
    """Every fault, by line."""
    if isinstance(document.value, list):
        return [Fault(document.line(()), A_LIST, "", ())]
    found = [fault for fault in schema.faults(document, "strategy.json") if fault.key != ("schema",)]
    value = document.value
    if isinstance(value, dict):
        found += _Among(document, {fault.key for fault in found}).faults()
    return sorted(found, key=lambda fault: (fault.line, fault.path, fault.text))


def warnings(document: Document) -> Iterator[Fault]:
    """Odd values in a document without faults; they are carried out as written."""
    value = document.value
    root: Key = ("data",) if "data" in value else ()
    groups = (value["data"] if root else value)["groups"]
    if not groups:
        yield _warning(document, (*root, "groups"), "is empty: a rollout of it has nothing to do")
    for index, group in enumerate(groups):
        criteria = group.get("success_criteria", {})
        allowed = criteria.get("maximum_failed_nodes", 0)
        if criteria.get("percent_successful_nodes") == 100 and allowed > 0:
            text = f"is {allowed}, and percent_successful_nodes: 100 allows no failed node; each is evaluated by itself"
            yield _warning(document, (*root, "groups", index, "success_criteria", "maximum_failed_nodes"), text)


def _warning(document: Document, key: Key, text: str) -> Fault:
    return Fault(document.line(key), text, document.path(key), key)


class _Among:
    """The checks that a schema cannot make."""

    def __init__(self, document: Document, refused: set[Key]) -> None:
        self._document = document
        self._refused = refused
        value: Mapping[str, Any] = document.value
        self._root: Key = ("data",) if "data" in value or "schema" in value else ()
        self._data: Any = value.get("data", {}) if self._root else value
        self._found: list[Fault] = []

    def faults(self) -> list[Fault]:
        value = self._document.value
        if value.get("schema", SCHEMA) != SCHEMA:
            said = f'text "{value["schema"]}"' if isinstance(value["schema"], str) else "no text"
            self._fault(("schema",), f"must be {SCHEMA}, and is {said}", within=())
        if isinstance(self._data, dict):
            groups = self._groups()
            self._twice(groups)
            self._dependencies(groups)
            phases = self._phases()
            for key, group in groups:
                self._batches((*key, "batches"), group.get("batches"))
                self._timeouts((*key, "timeouts"), group.get("timeouts"), phases)
                if "on_critical_failure" in group and group.get("critical") is False:
                    text = "must be left out of a group that is not critical; set `critical: true`, or remove it"
                    self._fault((*key, "on_critical_failure"), text)
        return self._found

    def _fault(self, key: Key, text: str, within: Key | None = None) -> None:
        whole = (*(self._root if within is None else within), *key)
        if not any(whole[: len(refused)] == refused for refused in self._refused if refused):
            self._found.append(Fault(self._document.line(whole), text, self._document.path(whole), whole))

    def _groups(self) -> list[tuple[Key, Mapping[str, Any]]]:
        """The groups that have a name."""
        raw = self._data.get("groups")
        listed = enumerate(raw) if isinstance(raw, list) else ()
        return [
            (("groups", index), each)
            for index, each in listed
            if isinstance(each, dict) and isinstance(each.get("name"), str)
        ]

    def _twice(self, groups: list[tuple[Key, Mapping[str, Any]]]) -> None:
        first: dict[str, Key] = {}
        for key, group in groups:
            name = group["name"]
            if name in first:
                line = self._document.line((*self._root, *first[name], "name"))
                text = f"must be a name of its own, and is that of the group in line {line}; rename one of them"
                self._fault((*key, "name"), text)
            first.setdefault(name, key)

    def _dependencies(self, groups: list[tuple[Key, Mapping[str, Any]]]) -> None:
        names = list(dict.fromkeys(group["name"] for _, group in groups))
        graph: dict[str, list[str]] = {name: [] for name in names}
        written: dict[tuple[str, str], Key] = {}  # where a group names another
        for key, group in groups:
            listed = group.get("depends_on")
            for index, each in enumerate(listed if isinstance(listed, list) else ()):
                path = (*key, "depends_on", index)
                if isinstance(each, str) and each in graph:
                    graph[group["name"]].append(each)
                    written.setdefault((group["name"], each), path)
                elif isinstance(each, str):
                    known = did_you_mean(each, names) or f"; groups here: {_some(names)}"
                    self._fault(path, f'must name a group, and is text "{each}"{known}')
        for knot in components(graph):
            first, second = knot.circle[:2]
            more = f" ({len(knot.names)} groups are in this knot)" if len(knot.names) > len(set(knot.circle)) else ""
            text = f"must not lead back to its own group, and does: {knot}; remove one of these{more}"
            self._fault(written[first, second], text)

    def _phases(self) -> list[str]:
        """The names of the phases; duplicates are faults."""
        raw = self._data.get("phases")
        if not isinstance(raw, list):
            return [phase.name for phase in PHASES]
        names: list[str] = []
        for index, each in enumerate(raw):
            name = each.get("name") if isinstance(each, dict) else None
            if name in names:
                self._fault(("phases", index, "name"), f"must be a name of its own, and is that of phase {name} above")
            elif isinstance(name, str):
                names.append(name)
            if name in RESERVED:
                self._fault(
                    ("phases", index, "name"), f"must be none of {', '.join(RESERVED)}, which are reasons of failure"
                )
        return names

    def _batches(self, key: Key, batches: Any) -> None:
        if not isinstance(batches, list):
            return
        sizes = [each.get("nodes") if isinstance(each, dict) else each for each in batches]
        for index, (before, after) in enumerate(pairwise(sizes)):
            parts = [str(size).rstrip("%") for size in (before, after)]
            comparable = isinstance(before, str) == isinstance(after, str) and all(part.isdecimal() for part in parts)
            if comparable and int(parts[1]) <= int(parts[0]):
                text = f"must be more than the batch before it, {before}, since batches are counted from the start"
                self._fault((*key, index + 1), f"{text}, and is {after}")

    def _timeouts(self, key: Key, timeouts: Any, phases: list[str]) -> None:
        for name in timeouts if isinstance(timeouts, dict) else ():
            if name not in phases:
                known = did_you_mean(name, phases, present=timeouts) or f"; phases here: {_some(phases)}"
                self._fault((*key, name), f"must be the name of a phase{known}")


def _some(names: list[str]) -> str:
    return ", ".join(names[:8]) + (" ..." if len(names) > 8 else "")
