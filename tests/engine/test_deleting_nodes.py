"""A node goes with all that is below it: in one transaction, or marked first and then in several."""

from __future__ import annotations

import pytest

from nodepool_ocb.engine import nodes
from nodepool_ocb.engine.world import Stored, World
from nodepool_ocb.errors import Conflict, Stale
from nodepool_ocb.model import limits, paths
from nodepool_ocb.model.installation import Installation
from nodepool_ocb.model.records import Change, Check, Delete, Node, Role, Set, State, Structure
from tests.engine import worlds

N1 = "n1.example.com"


def world(noderoles: int) -> World:
    """Node n1, of version 5 and with a fence of version 6, with so many noderoles."""
    made = worlds.world()
    made.put_node(N1, Node(alive=True), 5)
    made.put_fence(N1, 6)
    for number in range(noderoles):
        worlds.put(made, f"r{number:04}@{N1}", State.ACTIVE)
    return made


def deletions(made: World) -> list[Delete]:
    own = [Delete(paths.noderole(vertex.role, N1), vertex.version) for vertex in made.nodes[N1].noderoles.values()]
    return [*own, Delete(paths.fence(N1), 6), Delete(paths.node(N1), 5)]


def marks(transaction: list[Change], hooks: tuple[str, ...] = ()) -> bool:
    """Whether it marks the node as it was read, checks that nobody claimed it, and raises the structure."""
    fence, node, structure = transaction
    marked = Set(paths.node(N1), Node(alive=True, deleting=True, hooks=hooks), 5)  # type: ignore[arg-type]
    raised = isinstance(structure, Set) and isinstance(structure.data, Structure)
    return (fence, node) == (Check(paths.fence(N1), 6), marked) and raised


def test_a_node_whose_deletion_has_hooks_is_marked_and_waits_for_them() -> None:
    made = world(1)
    assert nodes.delete(made, N1) == []
    made.put(Stored(Role(barclamp="b", jig="noop", hooks=("on_node_delete",)), 0), "watched")
    assert marks(nodes.delete(made, N1), ("on_node_delete",))


@pytest.mark.parametrize(
    "record", [Node(alive=True, available=True), Node(alive=True, virtual=True)], ids=["alive", "virtual"]
)
def test_a_node_with_a_run_whose_claim_is_gone_is_not_deleted(record: Node) -> None:
    made = world(0)
    made.put_node(N1, record, 5)
    worlds.put(made, f"os@{N1}", State.TRANSITION)
    with pytest.raises(Conflict, match=f"os@{N1} is in TRANSITION; wait until it ends"):
        nodes.delete(made, N1)


def test_a_dead_machine_is_not_deleted_between_two_annealers_of_its_installation() -> None:
    made = world(0)
    made.put_node(N1, Node(alive=False), 5)
    generation = worlds.put(made, f"os@{N1}", State.TRANSITION).record.generation
    assert nodes.delete(made, N1) == [], "no annealer takes another run over there"
    installation = Installation(
        noderole=f"os@{N1}",
        generation=generation,
        run="r",
        epoch=1,
        since=0.0,
        started=0.0,
        deadline=9.0,
        nonce="0" * 32,
        token_digest="0" * 64,
    )
    made.put(Stored(installation, 0), N1)
    with pytest.raises(Conflict, match=f"os@{N1} is in TRANSITION; wait until it ends"):
        nodes.delete(made, N1)


def test_a_small_node_goes_in_one_transaction() -> None:
    made = world(2)
    (transaction,) = nodes.taking_away(made, N1, deletions(made))
    assert transaction[:-1] == deletions(made)


def test_a_node_that_one_transaction_does_not_bear_is_marked_first_and_goes_last() -> None:
    made = world(2 * limits.MOST_CHANGES)
    wanted = deletions(made)
    first, *others = nodes.taking_away(made, N1, wanted)
    assert marks(first)
    assert made.nodes[N1].record == Node(alive=True, deleting=True)
    gone = [change for transaction in others for change in transaction if isinstance(change, Delete)]
    assert gone == [*wanted[:-1], Delete(paths.node(N1), 6)], "the mark raised its version"
    assert len(others) == 3


def test_the_last_of_several_transactions_frees_the_macs_and_addresses_together_with_the_node() -> None:
    made = world(2 * limits.MOST_CHANGES - 5)  # without that, a cut would lie between the MACs
    freed: list[Change] = [Delete(paths.mac(f"52:54:00:00:00:{n:02x}"), 0) for n in range(4)]
    wanted = [*deletions(made)[:-1], *freed, deletions(made)[-1]]
    *_, last = nodes.taking_away(made, N1, wanted)
    assert [change for change in last if change in freed] == freed
    assert Delete(paths.node(N1), 6) in last


def test_a_node_below_which_something_appeared_is_not_taken_away() -> None:
    made = world(1)
    wanted = deletions(made)
    worlds.put(made, f"later@{N1}", State.PROPOSED)
    with pytest.raises(Stale, match=f"later@{N1} changed meanwhile"):
        next(nodes.taking_away(made, N1, wanted))
