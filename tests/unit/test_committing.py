"""Committing many at once: what is written and what the world is brought to are the same."""

from __future__ import annotations

from nodepool_ocb import committing
from nodepool_ocb.model import NodeRole, Set, State
from nodepool_ocb.noderole import Event
from nodepool_ocb.world import World


def test_every_noderole_is_written_once_with_the_version_that_the_parts_before_left() -> None:
    world = World()
    for number in range(400):
        parents = (f"r{number - 1}@n",) if number % 100 else ()
        world.put_noderole("n", f"r{number}", NodeRole(state=State.PROPOSED, since=0.0, parents=parents), 3)
    written: dict[str, int] = {}
    for part in committing.apply_to(world, list(world.vertices()), Event.COMMIT, 1.0):
        for change in part:
            assert isinstance(change, Set)
            assert change.version == written.get(change.path, 3)
            written[change.path] = change.version + 1
    assert len(written) == 400
    assert {vertex.version for vertex in world.vertices()} == {4}
    assert {vertex.record.state for vertex in world.vertices()} == {State.TODO, State.BLOCKED}
