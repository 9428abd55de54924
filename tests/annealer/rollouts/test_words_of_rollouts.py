"""What a driver of rollouts says of noderoles that it moves, and what it logs of its decisions."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from nodepool_ocb.errors import OcbError, OutcomeUnknown
from nodepool_ocb.rollout.records import Decision, NodeState, Progress, RolloutState
from nodepool_ocb.store.client.doubts import Doubt
from nodepool_ocb.store.client.outcome import SentTransaction
from nodepool_ocb_annealer.rollouts import rolling
from nodepool_ocb_annealer.rollouts.rolling import Directive, DrivenRollout
from nodepool_ocb_annealer.writing import Writing
from tests.store.test_rollouts import rollout


def test_runs_that_are_ended_are_told_the_reason_of_their_node_or_of_the_rollout() -> None:
    made = rollout()
    first, second, third = sorted(made.nodes)
    made = replace(
        made,
        head=replace(made.head, reason="bob cancelled it"),
        nodes={
            first: replace(made.nodes[first], state=NodeState.UNKNOWN, reason="it does not answer"),
            second: replace(made.nodes[second], state=NodeState.UNKNOWN, reason=None),
            third: replace(made.nodes[third], state=NodeState.SENT, reason="of its own"),
        },
    )

    def action(node: str, directive: Directive = Directive.CANCEL) -> Any:
        return SimpleNamespace(node=node, directive=directive)

    send = next(each for each in Directive if each is not Directive.CANCEL)
    actions = [action(first), action(second), action(third), action(first, send)]
    assert rolling._by_reason(made, actions) == {
        "it does not answer": actions[:1],
        "bob cancelled it": actions[1:3],
        None: actions[3:],
    }


def test_the_log_has_groups_lost_nodes_and_the_end_of_a_rollout(monkeypatch: pytest.MonkeyPatch) -> None:
    made = rollout()
    monkeypatch.setattr(rolling.report, "logged", lambda _: ["node n0 is lost"])
    node = next(iter(made.nodes))
    over = replace(made.head, state=RolloutState.FAILED)
    decisions = [
        Decision("", made.head, "it goes on"),
        Decision("", over, "it ended"),
        Decision("g0", made.groups["g0"], "its turn"),
        Decision(node, replace(made.nodes[node], state=NodeState.FAILURE), "exit code 1"),
        Decision(node, replace(made.nodes[node], state=NodeState.UNKNOWN), "no answer"),
        Decision(node, replace(made.nodes[node], state=NodeState.SENT), "sent"),
    ]
    driven: Any = DrivenRollout("lab", "0000000001", made, None)  # type: ignore[arg-type]
    assert list(rolling._lines(driven, decisions)) == [
        (logging.INFO, "it goes on"),
        (logging.INFO, "it ended"),
        (logging.INFO, "node n0 is lost"),
        (logging.INFO, "group g0 its turn"),
        (logging.WARNING, f"node {node}: exit code 1"),
        (logging.WARNING, f"node {node}: no answer"),
    ]
    assert (driven.name, driven.over) == ("rollout lab/0000000001", False)
    assert [rolling._came_back(each) for each in decisions] == [False, False, False, True, True, True]
    sending = Decision(node, replace(made.nodes[node], state=NodeState.SENDING), "again")
    assert not rolling._came_back(sending)
    assert isinstance(made.nodes[node], Progress)


def test_an_answer_that_nobody_can_look_for_says_what_was_lost() -> None:
    doubt = Doubt("the answer was lost", SentTransaction([], [], 7))
    turns: Any = SimpleNamespace(here=lambda: True, post=lambda call: call())
    session: Any = SimpleNamespace(commit_soon=lambda _, done: done(doubt))
    cache: Any = SimpleNamespace(expect=lambda _: None, refused=lambda _: None)
    writing = Writing(session, cache, turns)
    writing._doubts = SimpleNamespace(ask=lambda *_: False)  # type: ignore[assignment]
    heard: list[OcbError | None] = []
    changes: Any = ["a change"]
    writing.send(changes, heard.append, "a claim")
    (error,) = heard
    assert isinstance(error, OutcomeUnknown)
    assert str(error) == "the answer was lost; this host has no thread to read the result"
