"""Faults in one entry of a task list, independent of the others; and warnings about odd values.

Each fault names the value found and the value to write. Input that Fuel silently ignored, with a loss for its author, is a
fault. In a ``lenient`` reading it is a warning.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

import msgspec

from nodepool_ocb.documents import schema
from nodepool_ocb.documents.plainyaml import Fault, Key
from nodepool_ocb.errors import Invalid
from nodepool_ocb.tasks import conditions, patterns
from nodepool_ocb.tasks.documents import entries
from nodepool_ocb.tasks.documents.entries import CROSS_DEPENDED_BY, CROSS_DEPENDS, WHERE, TaskEntry
from nodepool_ocb.tasks.documents.notes import Notes, fault_at
from nodepool_ocb.tasks.tasklist import Expression, TaskKind

SCHEMA: Final = "tasks.json"
FACTS: Final = "facts"  # the task that every run begins with

#: Fields that mean something in entries of one kind alone.
_OF_ONE_KIND: Final = {"tasks": TaskKind.GROUP, "fault_tolerance": TaskKind.GROUP, "trigger_rule": TaskKind.STAGE}


def check(entry: TaskEntry, notes: Notes) -> None:
    """Note the faults and the oddities of an entry."""
    refused = set(_by_schema(entry, notes))
    _kind(entry, notes)
    if entry.id == FACTS:
        notes.fault(entry, ("id",), f"must not be {FACTS}, which is the task that every run begins with; rename it")
    for key, text in _patterns(entry):
        notes.fault(entry, key, text) if patterns.is_pattern(_at(entry, key)) else notes.slip(entry, key, text)
    if not refused & {("condition",), ("parameters",)}:
        for key, sentence in _expressions(entry):
            notes.fault(entry, key, sentence)
    _odd(entry, notes)


@lru_cache(maxsize=4096)  # lists repeat their conditions
def faults_of_condition(expression: Expression) -> str | None:
    """Why an expression is none; None for one that can be evaluated."""
    try:
        conditions.parse(expression)
    except Invalid as invalid:
        return str(invalid)
    return None


def _by_schema(entry: TaskEntry, notes: Notes) -> Iterator[Key]:
    """Note the faults by the schema, and yield the key of each within the entry."""
    found = schema.faults(entry.document, f"{SCHEMA}#entry", entry.key)
    if isinstance(entry.raw.get("parameters", {}), dict | None) and entry.kind is not None:
        found += _of_parameters(entry, entry.kind)
    for fault in found:
        key = fault.key[len(entry.key) :]
        yield key
        if fault.unknown is not None and notes.lenient:
            notes.warnings.append(
                (entry.document.name, msgspec.structs.replace(fault, text=f"{fault.text}; it has no meaning here"))
            )
        else:
            notes.faults.append((entry.document.name, fault))


def _of_parameters(entry: TaskEntry, kind: TaskKind) -> list[Fault]:
    if entry.raw.get("type") in entries.OF_BOOTS:
        return []
    if entry.raw.get("parameters") is not None:
        return schema.faults(entry.document, f"{SCHEMA}#{kind}", (*entry.key, "parameters"))
    needed = schema.schema_file(SCHEMA)["$defs"][kind].get("required", [])
    return [fault_at(entry, (), f"key `parameters` is missing; {kind} needs {', '.join(needed)}")] if needed else []


def _kind(entry: TaskEntry, notes: Notes) -> None:
    said, kind, parameters = entry.raw.get("type"), entry.kind, entry.parameters
    if said in entries.OF_BOOTS:
        notes.warning(
            entry, ("type",), f"{said} has nothing to run here: provision and erase_node boot the machine themselves"
        )
    if said == "rsync":
        notes.warning(entry, ("type",), "rsync is called sync")
    for field, only in _OF_ONE_KIND.items():
        if field in entry.raw and kind not in (only, None):
            notes.slip(entry, (field,), f"belongs to a {only}, and this is of type {said}; remove it")
    if kind is TaskKind.GROUP and entries.condition(entry.raw.get("condition")) is not True:
        notes.slip(entry, ("condition",), "has no effect on a group; give it to its tasks")
    if kind is TaskKind.PUPPET and not {"puppet_manifest", "puppet_manifests"} & set(parameters):
        within: Key = ("parameters",) if parameters else ()
        notes.fault(entry, within, "key `puppet_manifest` is missing; puppet needs the file that it applies")
    if kind is TaskKind.UPLOAD_FILE and "data" in parameters and "path" not in parameters:
        notes.fault(entry, ("parameters",), "key `path` is missing; upload_file needs the path of the file")
    if entries.skipped(entry):
        notes.warning(entry, (), "uploads no data, which Fuel made itself; it is read as skipped")


def _patterns(entry: TaskEntry) -> Iterator[tuple[Key, str]]:
    """The faults of names and patterns of names, each with its key."""
    named = entry.names(*WHERE, "requires", "required_for", "tasks")
    for key, relation in entry.relations(*CROSS_DEPENDS, *CROSS_DEPENDED_BY):
        named += [((*key, *below), name) for below, name in entries.roles_of(relation)]
        if isinstance(relation.get("name"), str):
            named.append(((*key, "name"), relation["name"]))
    for key, name in named:
        wrong = patterns.fault(name)
        if wrong is not None:
            yield key, f"{_quoted(name)} {wrong}"
        elif patterns.lacks_slashes(name):
            yield key, f"{_quoted(name)} looks like a pattern; a pattern stands between slashes: {_quoted(f'/{name}/')}"


def _expressions(entry: TaskEntry) -> Iterator[tuple[Key, str]]:
    found: list[tuple[Key, Expression]] = []
    condition = entries.condition(entry.raw.get("condition"))
    if isinstance(condition, Expression):
        found.append((("condition",), condition))
    found += entries.expressions(entry.raw.get("parameters"), ("parameters",))
    found += entries.expressions(entry.raw.get("strategy"), ("strategy",))
    for field in (*CROSS_DEPENDS, *CROSS_DEPENDED_BY):
        if isinstance(relations := entry.raw.get(field), dict):
            found += entries.expressions(relations, (field,))
    for key, expression in found:
        wrong = faults_of_condition(expression)
        if wrong is not None:
            yield key, wrong


def _odd(entry: TaskEntry, notes: Notes) -> None:
    raw, parameters = entry.raw, entry.parameters
    if "strategy" in raw and "strategy" in parameters:
        notes.fault(entry, ("strategy",), "stands beside parameters and in them; remove one of them")
    elif "strategy" in raw:
        notes.warning(entry, ("strategy",), "belongs into parameters; it is read as if it stood there")
    for key, strategy in (
        (("strategy",), raw.get("strategy")),
        (("parameters", "strategy"), parameters.get("strategy")),
    ):
        if isinstance(strategy, dict) and strategy.get("type") == "one_by_one" and "amount" in strategy:
            notes.warning(entry, (*key, "amount"), "has no meaning beside one_by_one")
    if "puppet_manifests" in parameters:
        notes.warning(entry, ("parameters", "puppet_manifests"), "is called puppet_manifest; it is read as that")
    for field in (each for each in WHERE if raw.get(each) and each != entry.where()):
        notes.warning(entry, (field,), f"has no meaning beside {entry.where()}")


def _at(entry: TaskEntry, key: Key) -> str:
    value = entry.raw
    for step in key:
        value = value[step]  # type: ignore[index]
    return str(value)


def _quoted(text: str) -> str:
    return json.dumps(text if len(text) <= 100 else f"{text[:97]}...", ensure_ascii=False)
