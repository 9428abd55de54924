"""Which hooks of noderoles are noted to be run, and with what they are written."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from nodepool_ocb.engine.noderole import Event, apply
from nodepool_ocb.engine.world import Stored
from nodepool_ocb.model.records import Role, State
from tests.engine.worlds import put, world

HOOKS = ("on_todo", "on_blocked", "on_active", "on_error", "on_proposed")


@pytest.mark.parametrize(
    ("state", "event", "hook"),
    [
        (State.PROPOSED, Event.COMMIT, "on_todo"),
        (State.TRANSITION, Event.SUCCEED, "on_active"),
        (State.TRANSITION, Event.FAIL, "on_error"),
        (State.TODO, Event.PROPOSE, "on_proposed"),
        (State.ERROR, Event.RETRY, "on_todo"),
    ],
)
def test_a_noderole_has_a_hook_for_each_of_its_states(state: State, event: Event, hook: str) -> None:
    made = world()
    made.put(Stored(Role(barclamp="b", jig="noop", hooks=HOOKS), 0), "app")
    vertex = put(made, "app@n", state)
    assert apply({vertex: event}, 1.0)[vertex].hooks == (hook,)
    made.put(Stored(Role(barclamp="b", jig="noop"), 0), "app")
    assert apply({vertex: event}, 1.0)[vertex].hooks == ()


def test_a_blocked_noderole_has_its_hook() -> None:
    made = world()
    made.put(Stored(Role(barclamp="b", jig="noop", hooks=HOOKS), 0), "app")
    put(made, "net@n", State.TODO)
    vertex = put(made, "app@n", State.PROPOSED, "net@n")
    assert apply({vertex: Event.COMMIT}, 1.0)[vertex].hooks == ("on_blocked",)


def test_what_a_hook_is_called_for_is_written_with_what_follows_from_it() -> None:
    made = world()
    made.put(Stored(Role(barclamp="b", jig="noop", hooks=HOOKS), 0), "net")
    vertex = put(made, "net@n", State.TRANSITION)
    child = put(made, "app@n", State.BLOCKED, "net@n")
    moved = apply({vertex: Event.SUCCEED}, 1.0)
    assert (moved[vertex].state, moved[vertex].hooks) == (State.ACTIVE, ("on_active",))
    assert moved[child] == replace(child.record, state=State.TODO, since=1.0, generation=child.record.generation + 1)
