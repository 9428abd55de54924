"""A state machine of records: one table from a state and an event to the next state.

Each table stands in the lowest room that applies its events: images/states.py, engine/deployments.py, tasks/runs/states.py and
rollout/states/. Noderoles (engine/noderole.py) and runs (engine/run) have tables of their own form. The function beside a
table applies an event to a record. ``tools/states.py`` refuses code that writes a state elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Generic, TypeVar

import msgspec

from nodepool_ocb.errors import Conflict

S = TypeVar("S", bound=StrEnum)
E = TypeVar("E", bound=StrEnum)


class StateMachine(msgspec.Struct, Generic[S, E], frozen=True):
    """The table of one kind of record. State None: the record does not exist yet."""

    thing: str  # the kind of record, with its article: "a build"
    states: type[S]
    events: type[E]
    after: Mapping[tuple[S | None, E], S]

    def to(self, state: S | None, event: E) -> S:
        """The state after an event. Raises Conflict if the table has no such pair."""
        found = self.after.get((state, event))
        if found is None:
            raise Conflict(
                f"{self.thing} in {state} cannot {event}" if state else f"{self.thing} cannot begin by {event}"
            )
        return found
