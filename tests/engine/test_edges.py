"""Noderoles among their neighbours: how deep one stands, and who is below."""

from __future__ import annotations

from nodepool_ocb.engine.world import Stored, World
from nodepool_ocb.model.records import Role, State
from tests.engine.worlds import put, world


def names(made: World, name: str) -> list[str]:
    return [vertex.name for vertex in made.below(name)]


def test_a_noderole_stands_as_deep_as_its_longest_way_up_and_at_the_top_is_0() -> None:
    made = world()
    top = put(made, "os@n", State.TODO)
    middle = put(made, "net@n", State.TODO, "os@n")
    last = put(made, "app@n", State.TODO, "os@n", "net@n")
    assert [made.depth(vertex) for vertex in (last, middle, top)] == [2, 1, 0]


def test_a_child_of_a_cluster_stands_one_below_the_deepest_member() -> None:
    made = world()
    put(made, "os@m", State.TODO)
    put(made, "base@m", State.TODO, "os@m", serves=("base",))
    put(made, "base@n", State.TODO, serves=("base",))
    assert made.depth(put(made, "app@n", State.TODO, "base@*system")) == 2


def test_a_noderole_that_is_awaited_moves_what_is_below_it_once_it_is_there() -> None:
    made = world()
    child = put(made, "app@n", State.TODO, "net@n")
    assert made.depth(child) == 0
    put(made, "net@n", State.TODO)
    assert made.depth(child) == 1


def test_below_a_noderole_are_those_that_wait_for_it_and_for_its_clusters() -> None:
    made = world()
    put(made, "base@n", State.TODO, serves=("base",))
    put(made, "own@n", State.TODO, "base@n")
    put(made, "all@m", State.TODO, "base@*system")
    put(made, "other@n", State.TODO, "own@n")
    assert names(made, "base@n") == ["own@n", "all@m"]


def test_below_a_noderole_that_was_never_seen_are_those_that_name_it_or_a_cluster_that_it_may_serve() -> None:
    made = world()
    made.put(Stored(Role(barclamp="b", jig="noop", provides=("base",)), 0), "special")
    put(made, "own@n", State.TODO, "special@n")
    put(made, "all@m", State.TODO, "base@*system")
    put(made, "other@m", State.TODO, "web@*system")
    assert names(made, "special@n") == ["own@n", "all@m"]
    assert names(made, "base@n") == ["all@m"]


def test_a_noderole_with_other_parents_is_below_its_former_parents_no_more() -> None:
    made = world()
    old, new = put(made, "os@n", State.TODO), put(made, "net@n", State.TODO)
    child = put(made, "app@n", State.BLOCKED, "os@n")
    assert (old.below, new.below) == ((child,), ())
    put(made, "app@n", State.BLOCKED, "net@n")
    assert (old.below, new.below) == ((), (child,))


def test_a_part_of_the_graph_is_shown_by_its_name_and_not_with_its_relatives() -> None:
    made = world()
    top = put(made, "os@n", State.TODO, serves=("os",))
    put(made, "app@n", State.TODO, "os@n")
    assert [repr(each) for each in (top, top.node, *top.clusters)] == [
        "<Vertex os@n>", "<NodeView n>", "<ClusterView os@*system>"
    ]  # fmt: skip
