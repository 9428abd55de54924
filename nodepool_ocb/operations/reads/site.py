"""The reads of a plan for site files, and its presentation to the caller."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from nodepool_ocb.errors import Invalid, OcbError
from nodepool_ocb.model.records import Change
from nodepool_ocb.operations.operation import Lookup, Steps
from nodepool_ocb.site.desired_state import StoredAttributes
from nodepool_ocb.site.steps import PlanStep

if TYPE_CHECKING:
    from nodepool_ocb.operations.performer import Reader


class ReadKept(Lookup[Mapping[str, StoredAttributes]], frozen=True):
    """The attributes that users gave to noderoles, by the path of each; none for a path that does not exist."""

    records = "attributes of noderoles"

    paths: Sequence[str]

    def answer(self, reader: Reader) -> Mapping[str, StoredAttributes]:
        from nodepool_ocb.store.client import codec

        znodes = zip(self.paths, reader.session.get_many(self.paths) if self.paths else (), strict=True)
        return {
            path: StoredAttributes(codec.attributes(znode), znode.version)
            for path, znode in znodes
            if znode is not None
        }


class ReadRemovals(Lookup["Mapping[str, list[Change] | OcbError]"], frozen=True):
    """For each path the deletions as ``ReadDeletions`` gives them, or the error that it raises."""

    records = "a branch of the tree"

    paths: Sequence[str]

    def answer(self, reader: Reader) -> Mapping[str, list[Change] | OcbError]:
        from nodepool_ocb.errors import Stale
        from nodepool_ocb.store.subtree import removal_as_judged

        found: dict[str, list[Change] | OcbError] = {}
        for path in self.paths:
            try:
                found[path] = removal_as_judged(reader.session, reader.world, path)
            except (Stale, Invalid) as refused:
                found[path] = refused
        return found


class ShowPlan(Lookup[frozenset[PlanStep]], frozen=True):
    """Show a plan one time in a call, and ask for agreement to its deletions. The answer: the steps as they were shown."""

    records = "rollouts"
    kept = True

    steps: tuple[PlanStep, ...]
    going: tuple[str, ...]  # their deletion needs agreement
    warnings: Callable[[], Steps[None]]  # notes about the plan

    @property
    def key(self) -> object:
        return ShowPlan

    def answer(self, reader: Reader) -> frozenset[PlanStep]:
        caller = reader.performer.caller
        count = Counter(step.change for step in self.steps)
        if self.steps:
            caller.note("plan: " + ", ".join(f"{number} to {change}" for change, number in sorted(count.items())))
        reader.run(self.warnings())
        if self.going:
            caller.agree(f"delete {', '.join(self.going)}", ())
        return frozenset(self.steps)
