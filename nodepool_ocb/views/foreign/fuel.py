"""Task lists as Fuel's JSON: the entries of a list, its file, and the part of it between two tasks. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from nodepool_ocb.documents import document
from nodepool_ocb.documents.suggest import did_you_mean
from nodepool_ocb.errors import Invalid
from nodepool_ocb.model.records import Json
from nodepool_ocb.tasks import patterns, yamltext

FILE: Final = "tasks.yaml"
MOST_ENTRIES: Final = 10_000
#: The types that only order others; a part of a list leaves them out, as Fuel does.
ORDER_ONLY: Final = frozenset({"group", "stage", "skipped"})

Entry: TypeAlias = Mapping[str, Any]


class ListPart(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a list: ``start`` and all tasks behind it; those that ``end`` needs; with both, those between."""

    start: str | None = None
    end: str | None = None
    include: frozenset[str] = frozenset()  # of the types in ORDER_ONLY

    def __bool__(self) -> bool:
        return bool(self.start or self.end)


def file_of(entries: Sequence[Json]) -> dict[str, str]:
    """The one file of a list. Raises Invalid for entries that no file can hold."""
    if len(entries) > MOST_ENTRIES:
        raise Invalid(f"a task list has at most {MOST_ENTRIES} entries, and this one has {len(entries)}; divide it")
    try:
        return {FILE: yamltext.dumped(list(entries))}
    except RecursionError:
        raise Invalid("an entry of the task list is nested too deep; make it flat") from None


def entries_of(texts: Mapping[str, str]) -> list[Entry]:
    """The entries of files, in their order; those of faulty documents as far as they can be read."""
    found: list[Entry] = []
    for name, text in texts.items():
        for read, _ in document.load_all_that_can_be_read(text, name, last=True):
            found += [each for each in read.value or () if isinstance(each, dict)]
    return found


def part_of(entries: Sequence[Entry], part: ListPart) -> list[Entry]:
    """The entries of a part, in their order. Raises Invalid for a name without an entry.

    >>> listed = [{"id": "a"}, {"id": "b", "requires": ["a"]}, {"id": "c", "requires": ["b"]}, {"id": "d"}]
    >>> [each["id"] for each in part_of(listed, ListPart(start="b"))], [each["id"] for each in part_of(listed, ListPart(end="b"))]
    (['b', 'c'], ['a', 'b'])
    """
    names = {str(each["id"]): each for each in entries if "id" in each}
    for name in (part.start, part.end):
        if name and name not in names:
            raise Invalid(f"Cannot find task {name[:100]} by its name{did_you_mean(name, names)}")
    after = _edges(names)
    wanted = {*names}
    if part.start:
        wanted &= _reached(after, part.start)
    if part.end:
        before: dict[str, set[str]] = {name: set() for name in names}
        for name, others in after.items():
            for other in others:
                before[other].add(name)
        wanted &= _reached(before, part.end)
    shown = [(name, each) for name, each in names.items() if name in wanted]
    return [each for name, each in shown if each.get("type") not in ORDER_ONLY or name in part.include]


def _edges(names: Mapping[str, Entry]) -> dict[str, set[str]]:
    """Task → those directly behind it. A task comes before its groups and its stage, as in Fuel's graph of a list."""
    after: dict[str, set[str]] = {name: set() for name in names}
    groups = {name: each for name, each in names.items() if each.get("type") == "group"}
    for name, each in names.items():
        for key in ("requires", "tasks"):
            for other in _named(each.get(key), names):
                after[other].add(name)
        after[name] |= {*_named(each.get("required_for"), names), *_named(each.get("groups"), groups)}
        after[name] |= {*_named(str(each.get("stage", "")).partition("/")[0], names)}
        after[name].discard(name)
    return after


def _named(value: object, names: Collection[str]) -> list[str]:
    """The names that a name, a pattern or a list of them means; other values mean none."""
    found: list[str] = []
    for each in [value] if isinstance(value, str) else value if isinstance(value, list) else ():
        if isinstance(each, str) and patterns.is_pattern(each):
            found += patterns.matching(each, names, True)
        elif isinstance(each, str) and each in names:
            found.append(each)
    return found


def _reached(edges: Mapping[str, set[str]], first: str) -> set[str]:
    """The corner and all that can be reached from it."""
    found, pending = {first}, [first]
    while pending:
        new = edges[pending.pop()] - found
        found |= new
        pending += new
    return found
