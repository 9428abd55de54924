"""The digest of a world that changes group by group equals the digest of the world as it is."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from nodepool_ocb.api.memory.digesting import SHOWN, WorldDigest
from nodepool_ocb.engine.world import Stored, World
from nodepool_ocb.model.records import Claim, Deployment, DeploymentState, Node, NodeRole, State

STEPS = st.lists(
    st.tuples(st.sampled_from(["n1", "n2"]), st.sampled_from(["node", "a", "b", "lab", "lost"]), st.booleans())
)


def turn(world: World, node: str, part: str, gone: bool, mzxid: int) -> None:
    if part == "node":
        world.drop_node(node) if gone else world.put_node(node, Node(), 0, mzxid)
    elif part == "lab" and gone:
        world.drop(Deployment, part)
    elif part == "lab":
        world.put(Stored(Deployment(state=DeploymentState.PROPOSED), 0, mzxid), part)
    elif part == "lost":
        world.unreadable[f"/ocb/nodes/{node}"] = "it is no JSON"
    elif gone:
        world.drop_noderole(node, part)
    else:
        world.put_noderole(node, part, NodeRole(state=State.ACTIVE, since=1.0, deployment="lab"), 0, mzxid)


def of(world: World) -> str:
    digest = WorldDigest()
    digest.follow(world, world.nodes, SHOWN)
    return digest.text


@given(STEPS)
def test_a_digest_that_follows_changes_is_that_of_the_whole_world(steps: list[tuple[str, str, bool]]) -> None:
    world, digest = World(), WorldDigest()
    digest.follow(world, (), SHOWN)
    for mzxid, (node, part, gone) in enumerate(steps, 1):
        turn(world, node, part, gone, mzxid)
        digest.follow(world, [node], [Deployment])
        assert digest.text == of(world)


def test_each_change_has_another_digest() -> None:
    world, seen = World(), set[str]()
    steps = [("n1", "node"), ("n1", "a"), ("n1", "a"), ("n2", "a"), ("n1", "lab"), ("n1", "lost"), ("n1", "node")]
    for mzxid, (node, part) in enumerate(steps, 1):
        turn(world, node, part, False, mzxid)
        seen.add(of(world))
    assert len(seen) == len(steps)


def test_records_of_two_groups_with_one_name_have_two_digests() -> None:
    one, other = WorldDigest(), WorldDigest()
    one.put("Role", [("lab", 5)])
    other.put("Deployment", [("lab", 5)])
    assert one.text != other.text


def test_a_record_that_no_list_shows_leaves_the_digest() -> None:
    world, digest = World(), WorldDigest()
    before = digest.text
    claim = Claim(annealer="a-1", noderole="base@n1", run="0000000001-c0ffee10", epoch=1, since=1.0)
    world.put(Stored(claim, 0, 7), "n1")
    digest.follow(world, (), [Claim])
    assert digest.text == before
