"""What an annealer does for one run, as stories: runs.story beside this file."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodepool_ocb.engine.run import Event, RunState, step

STORIES = [
    story.splitlines()
    for story in Path(__file__).with_name("runs.story").read_text().split("\n\n")
    if not story.startswith("#")
]


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story[0])
def test_a_run(story: list[str]) -> None:
    kind = [] if story[1].startswith("    ") else story[1].split()
    run = RunState(attaches="blind" not in kind, **{name: True for name in kind if name != "blind"})
    *heard, end = (line.strip() for line in story[2 if kind else 1 :])
    for line in heard:
        said, _, expected = line.partition("->")
        event, *facts = said.split()
        learnt = {"hidden": False} | dict.fromkeys(facts, True)
        learnt |= {"cancel_reason": "asked for"} if event == "CANCEL" else {}
        run, instructions = step(run, Event(event), **learnt)
        assert " ".join(instructions) == expected.strip(), line
    assert run.phase == end
