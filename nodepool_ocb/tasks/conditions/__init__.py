"""Conditions of tasks: three languages behind one door. ``parse`` reads an expression, ``evaluate`` says what it is on the facts
of a run, and a ``Judge`` answers for every task and node, with the reason why a task is skipped.

An expression is hostile until it is parsed: its length, its words and its nesting are bounded before anything walks it. Two of
the languages become a tree of our own and reach nothing but the facts that they name. YAQL, which is optional, is a language
with loops: it is evaluated in a process of its own (``bounded``), and here it is only parsed. Pure.
"""

from __future__ import annotations

from nodepool_ocb.tasks.conditions.door import evaluate, parse
from nodepool_ocb.tasks.conditions.judging import Judge, Sources, computed
from nodepool_ocb.tasks.conditions.models import Facts, Models
from nodepool_ocb.tasks.conditions.tree import Parsed, Verdict

__all__ = ["Facts", "Judge", "Models", "Parsed", "Sources", "Verdict", "computed", "evaluate", "parse"]
