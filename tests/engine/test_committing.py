"""Committing many at once: what is written and what the world is brought to are the same."""

from __future__ import annotations

from nodepool_ocb.engine import commands
from nodepool_ocb.engine.noderole import Event
from nodepool_ocb.engine.world import World
from nodepool_ocb.model.records import NodeRole, Set, State


def test_every_noderole_is_written_once_with_the_version_that_the_parts_before_left() -> None:
    world = World()
    for number in range(400):
        parents = (f"r{number - 1}@n",) if number % 100 else ()
        world.put_noderole("n", f"r{number}", NodeRole(state=State.PROPOSED, since=0.0, parents=parents), 3)
    written: dict[str, int] = {}
    for part in commands.apply_to(world, list(world.vertices()), Event.COMMIT, 1.0):
        for change in part:
            assert isinstance(change, Set)
            assert change.version == written.get(change.path, 3)
            written[change.path] = change.version + 1
    assert len(written) == 400
    assert {vertex.version for vertex in world.vertices()} == {4}
    assert {vertex.record.state for vertex in world.vertices()} == {State.TODO, State.BLOCKED}
