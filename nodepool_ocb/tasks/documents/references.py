"""Faults among the entries of a whole list: names that exist nowhere, circles, and names that are nearly others."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from nodepool_ocb.documents.counting import some
from nodepool_ocb.documents.plainyaml import Key
from nodepool_ocb.documents.suggest import nearest
from nodepool_ocb.tasks import patterns
from nodepool_ocb.tasks.documents.entries import CROSS_DEPENDED_BY, CROSS_DEPENDS, TaskEntry
from nodepool_ocb.tasks.documents.notes import Notes
from nodepool_ocb.tasks.tasklist import EVERY, MASTER, SELF, TaskKind

COMPARED: Final = 100_000  # pairs of names that are compared for likeness, which takes long: a second or so
NEARLY: Final = 0.9  # how like each other two roles are of which one is a slip

#: The stages of Fuel, which lists name and may not have.
STAGES: Final = ("pre_deployment", "deploy", "post_deployment")
_OTHERWISE: Final = {"deploy": "deploy_end", "deploy_end": "deploy"}
_EDGES: Final = ("", "_start", "_end")


class Resolved(msgspec.Struct, frozen=True):
    """The meaning of names in a list that are no ids of it."""

    renamed: Mapping[str, str] = {}  # name → the id that it means
    added: tuple[str, ...] = ()  # stages that tasks are required for, and that no file has


def check(listed: Sequence[TaskEntry], notes: Notes, compat_prefix: bool = False) -> Resolved:
    """Note the faults and the oddities among the entries; ids are unique."""
    found = _KnownNames(listed, notes, compat_prefix)
    for entry in listed:
        found.check(entry)
    _near_roles(listed, notes)
    return Resolved(found.renamed, tuple(found.added))


class _KnownNames:
    """Names that must exist."""

    def __init__(self, listed: Sequence[TaskEntry], notes: Notes, compat_prefix: bool) -> None:
        self._ids = {entry.id: entry for entry in listed}
        self._notes, self._compat_prefix = notes, compat_prefix
        self._required = {name for entry in listed for _, name in entry.names("requires")}
        self._in_groups = {name for entry in listed for _, name in entry.names("tasks")}
        stages = [entry.id for entry in listed if entry.kind is TaskKind.STAGE]
        self._stages = sorted({*STAGES, *(name.removesuffix(edge) for name in stages for edge in _EDGES)})
        self._suggestions = COMPARED // max(len(listed), 1)
        self._matching: dict[str, bool] = {}
        self._suggested: dict[str, str | None] = {}
        self.renamed: dict[str, str] = {}
        self.added: dict[str, None] = {}

    def check(self, entry: TaskEntry) -> None:
        for field in ("requires", "required_for"):
            for key, name in entry.names(field):
                self._exists(entry, key, name, last=field == "required_for")
        for key, relation in entry.relations(*CROSS_DEPENDS, *CROSS_DEPENDED_BY):
            if isinstance(relation.get("name"), str):
                self._exists(entry, (*key, "name"), relation["name"], crossing=True)
                self._nowhere(entry, key, relation)
        for key, name in entry.names("tasks"):
            self._runs(entry, key, name)
        self._stage(entry)
        self._somewhere(entry)

    def _exists(self, entry: TaskEntry, key: Key, name: str, *, last: bool = False, crossing: bool = False) -> None:
        if patterns.is_pattern(name):
            if name not in self._matching and patterns.too_many(len(self._matching) + 1, len(self._ids)):
                text = f"is one pattern too many for {len(self._ids)} tasks; name the tasks that are meant"
                self._notes.fault(entry, key, text)
            elif not self._matches(name):
                self._notes.warning(entry, key, f"{name} matches no task of this list")
        elif name in self._ids or patterns.lacks_slashes(name):
            return
        elif _OTHERWISE.get(name) in self._ids:
            self.renamed[name] = _OTHERWISE[name]
            self._notes.warning(entry, key, f"{name} is called {_OTHERWISE[name]} in this list; it is read as that")
        elif last and name in _standard_stages() and name not in self._required:
            self._notes.warning(entry, key, f"this list has no stage {name}; it is read as if it had one")
            self.added[name] = None
        else:
            (self._notes.slip if crossing else self._notes.fault)(entry, key, self._unknown(name))

    def _nowhere(self, entry: TaskEntry, key: Key, relation: Mapping[str, Any]) -> None:
        """Without a role only stages and groups are meant."""
        known = self._ids.get(relation["name"])
        if not relation.get("role", EVERY) and known is not None and known.kind not in (TaskKind.STAGE, TaskKind.GROUP):
            text = f"means no node, and {known.id} is no stage; name roles, or leave it out for all nodes"
            self._notes.slip(entry, (*key, "role"), text)

    def _matches(self, pattern: str) -> bool:
        if pattern not in self._matching:
            wrong = patterns.fault(pattern) is not None
            self._matching[pattern] = wrong or any(map(patterns.matcher(pattern, self._compat_prefix), self._ids))
        return self._matching[pattern]

    def _unknown(self, name: str) -> str:
        if name not in self._suggested and len(self._suggested) < self._suggestions:
            self._suggested[name] = nearest(name, self._ids)
        meant = self._suggested.get(name)
        advice = f"; did you mean `{meant}`?" if meant else "; write such a task, or leave the name out"
        return f"must name a task of this list, and is {json.dumps(name, ensure_ascii=False)}{advice}"

    def _runs(self, entry: TaskEntry, key: Key, name: str) -> None:
        known = self._ids.get(name)
        if known is None and not patterns.is_pattern(name):
            self._notes.fault(entry, key, self._unknown(name))
        elif known is not None and known.kind in (TaskKind.GROUP, TaskKind.STAGE):
            self._notes.fault(
                entry, key, f"must name a task that runs on the group's nodes, and {name} is a {known.kind}"
            )

    def _stage(self, entry: TaskEntry) -> None:
        said = entry.raw.get("stage")
        if not isinstance(said, str):
            return
        name = said.partition("/")[0]
        if name not in self._stages:
            meant = nearest(name, self._stages)
            advice = f"did you mean `{meant}`?" if meant else f"stages here: {some(self._stages, 10)}"
            self._notes.fault(
                entry, ("stage",), f"must name a stage, and is {json.dumps(said, ensure_ascii=False)}; {advice}"
            )

    def _somewhere(self, entry: TaskEntry) -> None:
        if entry.kind in (TaskKind.STAGE, None) or entry.where() or entry.id in self._in_groups:
            return
        text = f"says nowhere where it runs: it is read with role: [{entry.id}], as all nodes with that role"
        self._notes.warning(entry, (), text)


def by_own_id(listed: Sequence[TaskEntry]) -> Collection[str]:
    """The ids of the entries without a field for their nodes and without a group: their ids are also their roles."""
    in_groups = {name for entry in listed for _, name in entry.names("tasks")}
    return {
        entry.id
        for entry in listed
        if entry.kind not in (TaskKind.STAGE, None) and not entry.where() and entry.id not in in_groups
    }


def _standard_stages() -> Iterator[str]:
    return (f"{stage}{edge}" for stage in STAGES for edge in _EDGES)


def _near_roles(listed: Sequence[TaskEntry], notes: Notes) -> None:
    """A role that only one entry names, and that is nearly that of others or the id of a group, is probably a slip."""
    import difflib

    where = [(entry, key, name) for entry in listed if entry.where() for key, name in entry.names(str(entry.where()))]
    counted = Counter(name for _, _, name in where)
    groups = {entry.id for entry in listed if entry.kind is TaskKind.GROUP}
    usual = {name for name, count in counted.items() if count > 1} | groups
    near: dict[str, str | None] = {}
    for entry, key, name in where:
        special = name in (EVERY, MASTER, SELF) or patterns.is_pattern(name)
        if special or name in usual or (name not in near and (len(near) + 1) * len(usual) > COMPARED):
            continue
        if name not in near:
            near[name] = next(iter(difflib.get_close_matches(name, usual, n=1, cutoff=NEARLY)), None)
        if near[name] is not None:
            text = f"role {name} is nearly {near[name]}, which this list has, too; nodes need the one that is meant"
            notes.warning(entry, key, text)
