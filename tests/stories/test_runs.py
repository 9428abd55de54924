"""What an annealer does for one run, as stories: runs.story beside this file."""

from __future__ import annotations

import pytest

from nodepool_ocb.engine.run import RunEvent, RunState, step
from tests.stories.reading import Story, stories


@pytest.mark.parametrize("story", stories("runs.story"), ids=lambda story: story.title)
def test_a_run(story: Story) -> None:
    run = RunState()
    for line in story.lines:
        with line.shown() as text:
            heard, arrow, expected = text.partition("->")
            words = heard.split()
            if arrow:
                run = hears(run, RunEvent(words[0]), words[1:], expected.split())
            elif text.isupper():
                assert run.phase == text
            else:
                run = RunState(attaches="blind" not in words, **{name: True for name in words if name != "blind"})


def hears(run: RunState, event: RunEvent, facts: list[str], expected: list[str]) -> RunState:
    """The run after an event; fails where it is not told to do what is expected."""
    learnt: dict[str, object] = {"hidden": False} | dict.fromkeys(facts, True)
    if event is RunEvent.CANCEL:
        learnt["cancel_reason"] = "asked for"
    after, instructions = step(run, event, **learnt)
    assert [each.value for each in instructions] == expected
    return after
