"""Noderoles as they are shown."""

from __future__ import annotations

import msgspec

from nodepool_ocb.model.records import Run
from nodepool_ocb.views import noderoles
from nodepool_ocb.views.noderoles import Layers, RunOutput
from nodepool_ocb.views.view import plain
from tests.views.small import BASE, MIDDLE, small

RUN = Run(annealer="a", started=1.0, ended=2.0, outcome="lost", generation=1, epoch=1)


def test_a_noderole_at_a_glance() -> None:
    vertex = small().vertex(BASE)
    assert vertex
    assert list(plain(noderoles.row(vertex)).items()) == [
        ("noderole", BASE),
        ("state", "ERROR"),
        ("since", 1.0),
        ("deployment", "lab"),
        ("generation", 0),
        ("attempt", 0),
        ("run", "r1"),
        ("refresh", False),
        ("once", None),
        ("reason", "disk full"),
        ("by", None),
    ]
    assert plain(noderoles.DeletedNoderole(BASE)) == {"noderole": BASE, "state": None}


def test_one_noderole_has_its_record_its_children_its_attributes_and_its_runs() -> None:
    vertex = small().vertex(BASE)
    assert vertex
    document = plain(noderoles.document(vertex, Layers(user={"a": 1}, system={}, wall={}), [("r1", RUN)]))
    assert list(document)[:3] == ["noderole", "state", "since"]
    assert list(document)[-3:] == ["children", "attributes", "runs"]
    assert document["children"] == [MIDDLE]
    assert document["attributes"] == {"user": {"a": 1}, "system": {}, "wall": {}}
    assert list(document["runs"][0])[:2] == ["run", "annealer"]
    assert noderoles.ended(RUN) == "lost, no exit code"


def test_the_output_of_a_run_has_its_record_once_there_is_one() -> None:
    going_on = RunOutput(noderole=BASE, run="r2", record=msgspec.UNSET, log=None, whole=True, output="")
    assert list(plain(going_on)) == ["noderole", "run", "log", "whole", "output"]
    over = plain(RunOutput(noderole=BASE, run="r1", record=RUN, log="h:/f", whole=True, output="text"))
    assert list(over)[:3] == ["noderole", "run", "annealer"]
    assert (over["log"], over["output"], list(over)[-1]) == ("h:/f", "text", "output")
