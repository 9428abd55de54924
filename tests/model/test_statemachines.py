"""Every pair of state and event of every table, written out once more: a pair that is not here is refused."""

from __future__ import annotations

import itertools
from typing import Any, Final

import pytest

from nodepool_ocb.errors import Conflict
from nodepool_ocb.images import states as images
from nodepool_ocb.model.statemachines import StateMachine

#: By state ("-" before the record exists): each event that is possible, and the state after it.
TABLES: Final[list[tuple[StateMachine[Any, Any], str]]] = [
    (
        images.BUILDS,
        """
        -: BEGIN building, IMPORT_READY ready, IMPORT_FAILED failed
        building: SUCCEED ready, FAIL failed, ABANDON aborted, DELETE delete
        ready: RESUME building, SPOIL failed, RETIRE delete, DELETE delete
        failed: RESUME building, DELETE delete
        aborted: RESUME building, DELETE delete
        """,
    ),
    (
        images.UPLOADS,
        """
        -: SEND uploading, IMPORT_READY ready
        uploading: SUCCEED ready, FAIL failed, ABANDON failed, SPOIL delete, RETIRE delete, DELETE delete
        ready: SUCCEED ready, SPOIL delete, RETIRE delete, DELETE delete
        failed: SEND uploading, SUCCEED ready, FAIL failed, SPOIL delete, RETIRE delete, DELETE delete
        delete: SUCCEED delete, FAIL delete, SPOIL delete
        """,
    ),
]


@pytest.mark.parametrize(("machine", "text"), TABLES, ids=lambda each: getattr(each, "thing", ""))
def test_the_table_has_these_pairs_and_refuses_all_others(machine: StateMachine[Any, Any], text: str) -> None:
    expected = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        state, _, moves = line.partition(": ")
        for event, after in (move.split(" ", 1) for move in moves.split(", ")):
            expected[None if state == "-" else machine.states(state), machine.events(event)] = machine.states(after)
    for before, event in itertools.product([None, *machine.states], machine.events):
        if (before, event) in expected:
            assert machine.to(before, event) is expected[before, event]
        else:
            with pytest.raises(Conflict, match=f"cannot (begin by )?{event}"):
                machine.to(before, event)


@pytest.mark.parametrize("machine", [machine for machine, _ in TABLES], ids=lambda each: str(each.thing))
def test_every_state_is_reached_and_every_event_has_an_effect(machine: StateMachine[Any, Any]) -> None:
    reached = {None}
    for _ in machine.states:
        reached |= {after for (before, _), after in machine.after.items() if before in reached}
    assert reached == {None, *machine.states}
    assert {event for _, event in machine.after} == set(machine.events)
