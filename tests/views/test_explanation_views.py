"""Explaining finds the one cause, and says each thing once."""

from __future__ import annotations

import pytest

from nodepool_ocb.engine.readiness import Code
from nodepool_ocb.model.records import Node, NodeRole, Run, State
from nodepool_ocb.views import explanation as explaining
from nodepool_ocb.views.explanation import FailedRun, explain
from nodepool_ocb.views.view import plain
from tests.views.small import chain

RUN = Run(
    annealer="a",
    started=1.0,
    ended=2.0,
    outcome="failed",
    generation=1,
    epoch=1,
    exit_code=3,
    tail="no\nspace\n",
    log="h:/f",
)


def test_nine_levels_down_the_failed_ancestor_is_named() -> None:
    world = chain(10, State.ERROR)
    vertex = world.vertex("r9@n")
    assert vertex is not None
    explanation = explain(world, vertex, now=9.0)
    first = explanation.reasons[0]
    assert (first.code, first.subject, first.since) == ("PARENT_ERROR", "r0@n", 5.0)
    assert "9 levels above" in first.text
    assert [each.name for each in explanation.causes[0].chain] == [f"r{level}@n" for level in range(9, -1, -1)]
    assert explanation.failed is world.vertex("r0@n")


def test_what_merely_waits_is_explained_by_its_cause() -> None:
    world = chain(4, State.TODO)
    world.put_node("n", Node(alive=False, reason="connect: refused"), 1)
    vertex = world.vertex("r3@n")
    assert vertex is not None
    explanation = explain(world, vertex, now=9.0)
    assert [reason.code for reason in explanation.reasons] == ["NODE_NOT_ALIVE", "PARENT_WAITING"]
    assert [reason.code for reason in explanation.causes[0].reasons] == ["NODE_NOT_ALIVE"]


def test_an_explanation_is_shown_with_its_causes_and_the_newest_failed_run() -> None:
    world = chain(3, State.ERROR)
    vertex = world.vertex("r2@n")
    assert vertex is not None
    document = explaining.document(explain(world, vertex, now=65.0), FailedRun("r1", "r0@n", RUN))
    shown = plain(document)
    assert list(shown) == [
        "noderole",
        "state",
        "since",
        "reasons",
        "causes",
        "failed_run",
        "outdated",
        "machine",
        "observations",
    ]
    assert list(shown["reasons"][0]) == ["code", "subject", "since", "text", "advice"]
    assert list(shown["causes"][0]) == ["noderole", "state", "chain", "reasons"]
    assert (shown["state"], shown["causes"][0]["chain"]) == ("BLOCKED", ["r2@n", "r1@n", "r0@n"])
    assert list(shown["failed_run"])[:3] == ["run", "noderole", "annealer"]
    lines = explaining.words(document, now=65.0).splitlines()
    assert lines[:3] == [
        "r2@n is BLOCKED (since 1m)",
        "1. PARENT_ERROR: r0@n, 2 levels above, failed: bang (since 1m)",
        "   -> mend the cause, then: nodepool-ocb noderole retry r0@n",
    ]
    assert lines[-5:] == [
        "waits for: r2@n ← r1@n ← r0@n (ERROR)",
        "the newest run of r0@n: failed, exit code 3 (since 1m3s)",
        "   | no",
        "   | space",
        "   whole output: h:/f",
    ]


def test_what_nothing_holds_back_may_start_at_any_moment() -> None:
    world = chain(1, State.TODO)
    world.put_noderole("n", "r0", NodeRole(state=State.TODO, since=5.0, deployment="d"), 1)
    vertex = world.vertex("r0@n")
    assert vertex is not None
    document = explaining.document(explain(world, vertex, now=9.0), None)
    assert plain(document)["failed_run"] is None
    assert explaining.words(document, now=9.0).splitlines()[1:] == [
        "nothing holds it back: an annealer may start it at any moment"
    ]


@pytest.mark.parametrize("state", [State.TODO, State.TRANSITION])
def test_of_what_may_start_it_is_said_how_the_newest_attempt_ended(state: State) -> None:
    world = chain(1, state)
    vertex = world.vertex("r0@n")
    assert vertex is not None
    (reason,) = explain(world, vertex, now=9.0).reasons
    assert (reason.code, reason.subject) == (Code.GIVEN_BACK, "r0@n")
    assert "ended with: bang" in reason.text
    assert reason.advice == "mend that; the next attempt comes by itself"


def test_a_secret_is_named_only_where_it_ended_the_attempt() -> None:
    world = chain(1, State.TODO)
    vertex = world.vertex("r0@n")
    assert vertex is not None
    world.put_noderole("n", "r0", vertex.record.amended(reason="secret a/b: no key of this file opens it"))
    vertex = world.vertex("r0@n")
    assert vertex is not None
    assert (
        "the secret is set anew by: nodepool-ocb noderole set r0@n PATH=-"
        in explain(world, vertex, 9.0).reasons[0].advice
    )
