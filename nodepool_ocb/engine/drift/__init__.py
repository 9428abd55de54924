"""Drift: whether a machine is still as its noderoles left it, found by checks, which change nothing.

A check is a refresh of an ACTIVE noderole (engine.noderole), so it is claimed, fenced, logged and taken over as one. A
person or the schedule of the deployment requests it. Pure.
"""

from nodepool_ocb.engine.drift.asking import checkable, checks, reachable, refusal, to_be_mended
from nodepool_ocb.engine.drift.finding import CHECK, HONOURED, before, epoch, found, noted, sentence
from nodepool_ocb.engine.drift.schedule import due, next_tick, previous_tick, wrong

__all__ = [
    "CHECK",
    "HONOURED",
    "before",
    "checkable",
    "checks",
    "due",
    "epoch",
    "found",
    "next_tick",
    "noted",
    "previous_tick",
    "reachable",
    "refusal",
    "sentence",
    "to_be_mended",
    "wrong",
]
