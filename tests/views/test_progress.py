"""Waiting ends when the end is known."""

from __future__ import annotations

import pytest

from nodepool_ocb.engine.world import Stored
from nodepool_ocb.model.records import Deployment, Node, NodeRole, State
from nodepool_ocb.views.changes import ChangeRow
from nodepool_ocb.views.progress import WaitDocument, awaited, held_up, of_noderoles
from nodepool_ocb.views.view import plain
from tests.views.small import chain


@pytest.mark.parametrize(
    ("first", "outcome"),
    [(State.ERROR, "error"), (State.PROPOSED, "error"), (State.TODO, None), (State.TRANSITION, None)],
)
def test_waiting_is_over_when_the_end_is_known(first: State, outcome: str | None) -> None:
    assert of_noderoles(chain(5, first), ["r4@n"]).outcome == outcome
    assert of_noderoles(chain(5, first), ["r4@n", "gone@n"]).outcome == "deleted"


def test_a_refresh_that_is_pending_is_not_ready() -> None:
    world = chain(1, State.ACTIVE)
    assert of_noderoles(world, ["r0@n"]).outcome == "active"
    world.put_noderole("n", "r0", NodeRole(state=State.ACTIVE, since=5.0, deployment="d", refresh=True))
    assert of_noderoles(world, ["r0@n"]).outcome is None


def test_a_proposed_deployment_cannot_become_active() -> None:
    world = chain(2, State.TODO)
    world.put_deployment("d", Stored(Deployment(), 1))
    assert of_noderoles(world, ["r1@n"]).outcome == "error"


def test_what_only_a_person_or_the_machine_can_end_is_said_once() -> None:
    world = chain(4, State.TODO)
    assert held_up(world, ["r0@n", "r1@n"], now=9.0) == []
    world.put_node("n", Node(alive=False, reason="connect: refused"), 1)
    (sentence,) = held_up(world, ["r0@n", "r1@n", "gone@n"], now=9.0)
    assert sentence.startswith("waiting: ")
    assert "connect: refused" in sentence


def test_a_wait_is_shown_with_what_was_changed_before_only_where_something_was() -> None:
    rows = tuple(awaited(chain(1, State.ACTIVE), ["r0@n", "gone@n"]))
    document = WaitDocument(outcome="active", stuck=(), noderoles=rows)
    assert plain(document) == {
        "outcome": "active",
        "stuck": [],
        "noderoles": [
            {"noderole": "r0@n", "state": "ACTIVE", "since": 5.0, "reason": "bang"},
            {"noderole": "gone@n", "state": None, "since": None, "reason": None},
        ],
    }
    change = ChangeRow(change="change", kind="noderole", name="r0@n", state="TODO")
    changed = WaitDocument(outcome="active", stuck=(), noderoles=rows, changes=(change,))
    assert plain(changed)["changes"] == [{"change": "change", "kind": "noderole", "name": "r0@n", "state": "TODO"}]
