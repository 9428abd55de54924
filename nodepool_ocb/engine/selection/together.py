"""Many decisions in one pass over one world: each sees the result of those before it. Pure.

All are made before the first is written, so a refusal of one leaves nothing behind. Their changes are cut by limits, and each
part is whole by itself. After a stop between two parts, the caller requests all of them again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from nodepool_ocb.engine import structure
from nodepool_ocb.engine.advancing import advance
from nodepool_ocb.engine.world import World
from nodepool_ocb.model import limits, paths
from nodepool_ocb.model.records import Change, Check, Create, Gate, Raise, Set

T = TypeVar("T")


def decided(world: World, things: Iterable[T], decide: Callable[[T], Sequence[Change]]) -> list[list[Change]]:
    """The transactions, in their order; the world is then as they will leave it."""
    version = structure.stored(world).version
    units: list[list[Change]] = []
    raised = False
    gates: set[str] = set()  # that were raised or made so far: their versions are not known any more
    for thing in things:
        changes = decide(thing)
        raised = raised or any(change.path == paths.STRUCTURE for change in changes)
        units.append([each for each in changes if each.path != paths.STRUCTURE and not _checks_any(each, gates)])
        gates |= {each.path for each in changes if _of_gate(each)}
        advance(world, changes)
    record = structure.stored(world).record
    beside = [Set(paths.STRUCTURE, record, version)] if raised else []
    parts = enumerate(limits.parts(filter(None, units), beside))
    return [[*_once(part), *(Set(each.path, record, version + number) for each in beside)] for number, part in parts]


def _of_gate(change: Change) -> bool:
    return isinstance(change, Raise) or (isinstance(change, Create) and isinstance(change.data, Gate))


def _checks_any(change: Change, gates: set[str]) -> bool:
    return isinstance(change, Check) and change.path in gates


def _once(part: Sequence[Change]) -> Iterator[Change]:
    """The changes without repeated checks."""
    seen: set[tuple[str, int]] = set()
    for change in part:
        if isinstance(change, Check):
            if (change.path, change.version) in seen:
                continue
            seen.add((change.path, change.version))
        yield change
