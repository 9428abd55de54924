"""The names that a shell offers, as an operation: a server of the API answers it for clients without ZooKeeper."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from nodepool_ocb.documents.suggest import did_you_mean
from nodepool_ocb.errors import Invalid
from nodepool_ocb.operations.completion.names import KINDS, ReadNames
from nodepool_ocb.operations.operation import Operation, Right, Situation, Steps
from nodepool_ocb.operations.tasks import lists

MOST: Final = 2000  # names in an answer
TASKS: Final = "tasks"  # the kind of names that a task list has

#: The parameters of a line that names depend on, and their values.
Typed = Mapping[str, str | tuple[str, ...] | None]
PARAMETERS: Final = ("deployment", "name", "names", "release", "role", "words")


class CompletionNames(Operation[tuple[str, ...]], frozen=True, kw_only=True):
    """The names of a kind that go on with the typed word, in order. ``typed``: the words before it, by parameter."""

    noun = "completion"
    verb = ""
    right = Right.VIEWER
    reads = (ReadNames, *lists.READS)

    kind: str
    typed: Typed = msgspec.field(default_factory=dict)
    incomplete: str = ""

    def decide(self, situation: Situation) -> Steps[tuple[str, ...]]:  # noqa: ARG002
        """Raises Invalid for an unknown kind, and the errors for words that are no names."""
        known = {*KINDS, TASKS}
        if self.kind not in known:
            raise Invalid(f"there is no kind of names {self.kind}{did_you_mean(self.kind, known)}")
        found = (yield from self._tasks()) if self.kind == TASKS else (yield from self._names())
        return tuple(sorted(name for name in found if name.startswith(self.incomplete))[:MOST])

    def _names(self) -> Steps[frozenset[str]]:
        return (yield from ReadNames(self.kind, self.typed, self.incomplete))

    def _tasks(self) -> Steps[frozenset[str]]:
        """The tasks of the list that ``--release`` or ``--deployment`` names; of names with commas the last goes on."""
        before = "".join(self.incomplete.rpartition(",")[:2])
        release, deployment = (self.typed.get(name) for name in ("release", "deployment"))
        owner = lists.owner(*(each if isinstance(each, str) else None for each in (release, deployment)))
        listed = (yield from lists.loaded(owner)).tasks.tasks
        return frozenset(f"{before}{each.id}" for each in listed)
