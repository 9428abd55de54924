"""How long a noderole waits before it is tried again."""

from __future__ import annotations

import pytest

from nodepool_ocb.engine.claim import Grant
from nodepool_ocb.engine.world import World
from nodepool_ocb.jigs.jig import Failed, Lost, Outcome
from nodepool_ocb.model.records import NodeRole, Role, State
from nodepool_ocb_annealer.runs.attributes import Results
from nodepool_ocb_annealer.runs.conclusions import conclude

NOW = 1000.0


def pauses(role: Role, outcome: Outcome) -> list[float]:
    """Seconds after each of four attempts that came to this; 0 where none follows."""
    found = []
    for attempt in range(1, 5):
        world, record = World(), NodeRole.of(state=State.TRANSITION, since=0.0, attempt=attempt)
        world.put_noderole("n", "r", record, 1)
        (vertex,) = world.vertices()
        grant = Grant(vertex, record, "a", "0000000001-aaaaaa", 1, 1, 0.0)
        moved = conclude(grant, role, outcome, NOW, Results(), NOW).moved[vertex]
        found.append(max(0.0, moved.not_before - NOW))
    return found


@pytest.mark.parametrize(
    ("flags", "outcome", "expected"),
    [
        ((), Failed("no"), [7.0, 14.0, 28.0, 0.0]),
        (("task",), Failed("no"), [7.0, 7.0, 7.0, 0.0]),
        (("task",), Lost("no"), [7.0, 14.0, 28.0, 56.0]),
    ],
    ids=["a role", "a task", "a task whose end was not seen"],
)
def test_the_pause_doubles_but_between_the_failures_of_a_task_it_is_what_its_list_says(
    flags: tuple[str, ...], outcome: Outcome, expected: list[float]
) -> None:
    role = Role(barclamp="b", jig="script", flags=flags, retries=3, backoff_seconds=7.0)
    assert pauses(role, outcome) == expected
