"""Conditions of tasks in three languages. ``parse`` reads an expression, and ``evaluate`` gives its value on the facts of a run.
A ``Judge`` decides for every task and node, with the reason why a task is skipped.

An expression is hostile until it is parsed: its length, its words and its nesting are bounded before anything walks it. Two of
the languages become a tree of our own, which reaches the facts that they name and nothing else. YAQL, which is optional, has
loops. So it is evaluated in a process of its own (``bounded``), and is only parsed here. Pure.
"""

from __future__ import annotations

from nodepool_ocb.tasks.conditions.judging import ConditionInputs, Judge, computed
from nodepool_ocb.tasks.conditions.languages import evaluate, parse
from nodepool_ocb.tasks.conditions.models import Models, NodeFacts
from nodepool_ocb.tasks.conditions.tree import ConditionResult, ParsedCondition

__all__ = [
    "ConditionInputs",
    "ConditionResult",
    "Judge",
    "Models",
    "NodeFacts",
    "ParsedCondition",
    "computed",
    "evaluate",
    "parse",
]
