"""Strategies as they are shown before they are carried out."""

from __future__ import annotations

from nodepool_ocb.model.records import Node
from nodepool_ocb.rollout.plan import plan
from nodepool_ocb.rollout.strategy import Criteria, Group, Selector, Strategy
from nodepool_ocb.views.rollouts import strategies
from nodepool_ocb.views.rollouts.strategies import RolloutPlanDocument, StrategyDocument
from nodepool_ocb.views.view import plain

NODES = {name: Node(tags=(name[0],), rack="r1", labels={"b": "2", "a": "1"}) for name in ("a1", "a2", "b1", "c1")}
STRATEGY = Strategy(
    name="s",
    groups=(
        Group(name="last", depends_on=("first",), selectors=(Selector(node_tags=("a",)),)),
        Group(name="first", critical=True, selectors=(Selector(node_tags=("a", "b"), node_names=("a1",)),),
              success_criteria=Criteria(minimum_successful_nodes=5)),
        Group(name="empty", selectors=(Selector(node_tags=("z",)), Selector(node_names=("gone",)))),
    ),
)  # fmt: skip


def test_a_check_has_the_groups_in_the_order_of_the_document_and_a_plan_in_that_of_their_turn() -> None:
    assert [(row.level, row.name, row.nodes) for row in strategies.checked(STRATEGY)] == [
        (1, "last", None),
        (0, "first", None),
        (0, "empty", None),
    ]
    planned = strategies.planned(STRATEGY, plan(STRATEGY, NODES))
    assert [(row.level, row.name) for row in planned] == [(0, "first"), (0, "empty"), (1, "last")]
    assert planned[0].success_criteria == "at least 5 successful"
    assert (planned[1].success_criteria, planned[2].depends_on, planned[2].nodes) == (None, ("first",), 2)


def test_documents_have_the_rules_that_were_left_to_the_default_and_all_of_the_plan() -> None:
    document = plain(StrategyDocument(STRATEGY))
    assert {"name", "groups", "phases", "max_in_flight"} <= set(document)
    planned = plain(RolloutPlanDocument("s", "lab", "v1", plan(STRATEGY, NODES)))
    assert list(planned) == [
        *("name", "deployment", "inventory", "levels", "members", "overlaps", "ungrouped", "unmet", "strangers")
    ]


def test_criteria_that_cannot_be_met_and_what_somebody_should_know_are_sentences() -> None:
    made = plan(STRATEGY, NODES)
    (sentence,) = strategies.unmet(made)
    assert sentence.startswith("group first: minimum_successful_nodes: 5 wanted")
    notes = list(strategies.notes(STRATEGY, made))
    assert "groups last and first have 1 node in common; each is sent once" in notes
    assert "group empty has no nodes" in notes
    assert "group empty names nodes that do not exist: gone" in notes
    assert notes[-1] == "2 in no group: b1, c1"


def test_nodes_that_selectors_mean_are_shown_with_what_selects() -> None:
    (row,) = strategies.selected(["b1"], NODES)
    assert plain(row) == {"name": "b1", "deployment": "system", "rack": "r1", "tags": ["b"], "labels": ["a:1", "b:2"]}
