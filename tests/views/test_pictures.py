"""The matrix of states: it fits, errors come first, what is left out is counted, and it follows what changed."""

from __future__ import annotations

import time

from hypothesis import given, settings
from hypothesis import strategies as st

from nodepool_ocb.engine.world import Stored, World
from nodepool_ocb.model.maintenance import Maintenance
from nodepool_ocb.model.records import Deployment, Node, NodeRole, State
from nodepool_ocb.views.pictures import layout
from nodepool_ocb.views.pictures.matrix import Matrix, Moved

ROLES = [f"role-with-name-{number}" for number in range(12)]


def cluster(nodes: int, roles: int = 12) -> World:
    """All ACTIVE, but for what ``put`` changes."""
    world = World()
    for number in range(nodes):
        fqdn = f"compute-{number:05}.rack{number % 9}.example.com"
        world.put_node(fqdn, Node(alive=True), 0)
        for role in ROLES[:roles]:
            put(world, role, number, State.ACTIVE)
    return world


def put(world: World, role: str, number: int, state: State) -> str:
    fqdn = f"compute-{number:05}.rack{number % 9}.example.com"
    world.put_noderole(fqdn, role, NodeRole(state=state, since=1.0, deployment="lab", parents=()))
    return fqdn


def matrix_of(world: World) -> Matrix:
    matrix = Matrix()
    matrix.update(world, world.nodes)
    return matrix


def drawn(matrix: Matrix, width: int, height: int) -> list[str]:
    return ["".join(piece.text for piece in line).rstrip() for line in layout.lines(matrix, width, height)]


def test_what_fits_is_shown_in_words() -> None:
    world = cluster(2, roles=2)
    put(world, ROLES[1], 1, State.TRANSITION)
    assert drawn(matrix_of(world), 100, 24) == [
        "2 nodes, 2 roles, 4 noderoles: 1 TRANSITION, 3 ACTIVE",
        "NODE                             role-with-name-0  role-with-name-1",
        "compute-00000.rack0.example.com  ACTIVE            ACTIVE",
        "compute-00001.rack1.example.com  ACTIVE            TRANSITION",
    ]


def test_what_does_not_fit_is_counted_and_errors_are_shown_before_all_others() -> None:
    world = cluster(2000, roles=9)
    put(world, ROLES[7], 1234, State.ERROR)
    for number in range(8):
        put(world, ROLES[3], number, State.TODO)
    seen = drawn(matrix_of(world), 60, 10)
    assert seen[0] == "2,000 nodes, 9 roles, 18,000 noderoles: 1 ERROR, 8 TODO,"
    assert seen[3].startswith("compute-01234.rack1~")
    assert "E" in seen[3].split()
    assert seen[-3] == "... and 1,996 nodes more: 5 TODO, 1,991 ACTIVE"
    assert seen[-2].startswith("... and 4 roles more:")
    assert "ERROR" not in seen[-2], "the role in ERROR has its column"
    assert seen[-1] == "E ERROR  T TODO  A ACTIVE", "the letters are explained"


@settings(max_examples=50, deadline=None)
@given(width=st.integers(1, 200), height=st.integers(0, 50), nodes=st.integers(0, 30), roles=st.integers(1, 12))
def test_no_picture_is_wider_or_higher_than_its_terminal(width: int, height: int, nodes: int, roles: int) -> None:
    seen = layout.lines(matrix_of(cluster(nodes, roles)), width, height)
    assert len(seen) <= height
    assert all(len("".join(piece.text for piece in line)) <= width for line in seen)


@settings(max_examples=40, deadline=None)
@given(steps=st.lists(st.tuples(st.integers(0, 5), st.sampled_from([*State, None])), max_size=30))
def test_what_follows_the_changes_is_what_is_made_anew(steps: list[tuple[int, State | None]]) -> None:
    world = cluster(4, roles=2)
    matrix = matrix_of(world)
    for number, state in steps:
        if state is None:
            name = f"compute-{number:05}.rack{number % 9}.example.com"
            world.drop_node(name)
        else:
            name = put(world, ROLES[0], number, state)
        matrix.update(world, {name})
    anew = matrix_of(world)
    assert (matrix.nodes, +matrix.counts) == (anew.nodes, +anew.counts)
    assert matrix.roles.keys() == anew.roles.keys()
    assert drawn(matrix, 80, 24) == drawn(anew, 80, 24)
    assert drawn(matrix, 30, 6) == drawn(anew, 30, 6)


def test_what_moved_is_told_once_and_what_goes_is_told_too() -> None:
    world = cluster(1, roles=1)
    matrix = matrix_of(world)
    name = put(world, ROLES[0], 0, State.ERROR)
    assert matrix.update(world, {name}) == [Moved(noderole=f"{ROLES[0]}@{name}", state=State.ERROR)]
    assert matrix.update(world, {name}) == []
    world.drop_node(name)
    assert matrix.update(world, {name}) == [Moved(noderole=f"{ROLES[0]}@{name}", state=None)]
    assert (matrix.nodes, matrix.roles) == ({}, {})


def test_a_node_on_which_nothing_can_be_done_says_so() -> None:
    world = cluster(2, roles=1)
    world.put_node("compute-00000.rack0.example.com", Node(alive=False), 0)
    world.put_node("compute-00001.rack1.example.com", Node(alive=True, available=False), 0)
    seen = drawn(matrix_of(world), 80, 24)
    assert [line.split("  ")[-1] for line in seen[2:]] == ["not alive", "not available"]


def test_a_virtual_node_is_no_machine_that_could_be_away() -> None:
    world = cluster(1, roles=1)
    world.put_node("compute-00000.rack0.example.com", Node(virtual=True), 0)
    assert drawn(matrix_of(world), 80, 24)[2].endswith("ACTIVE")


def test_a_line_leaves_room_for_the_comma_behind_it() -> None:
    assert layout.folded(["6 nodes", "2 ERROR", "4 ACTIVE"], 16) == ["6 nodes,", "2 ERROR,", "4 ACTIVE"]


def test_no_name_acts_on_a_terminal() -> None:
    for shorten in (layout.cut, layout.middle_cut):
        assert shorten("a\x1b[2J\nb", 40) == r"a\x1b[2J\nb"
        assert shorten("\x9b" * 9, 7).isprintable()


def test_where_no_node_is_shown_no_role_is_missed() -> None:
    seen = drawn(matrix_of(cluster(5)), 30, 6)
    assert seen == ["5 nodes, 12 roles,", "60 noderoles: 60 ACTIVE", "... and 5 nodes more:", "5 ACTIVE"]


def test_a_change_among_ten_thousand_nodes_costs_little() -> None:
    world = cluster(10_000, roles=1)
    matrix = matrix_of(world)
    begun = time.process_time()
    for number in range(20):
        matrix.update(world, {put(world, ROLES[0], number, State.TODO)})
        layout.lines(matrix, 200, 60)
    assert (time.process_time() - begun) / 20 < 0.05


def test_a_node_that_is_held_or_paused_says_so_until_that_is_over() -> None:
    world = cluster(2, roles=1)
    pause = Maintenance(by="ann", since=0.0, until=30.0)
    world.put(Stored(Deployment(pause=pause), 0), "lab")
    first, second = sorted(world.nodes)
    world.put_node(first, Node(alive=False, hold=Maintenance(by="ann", since=0.0, until=60.0)), 0)
    matrix = matrix_of(world)
    matrix.now = 29.0
    assert (matrix.note(first), matrix.note(second)) == ("held, paused, not alive", "paused")
    assert any(line.endswith("  paused") for line in drawn(matrix, 100, 24))
    assert not any("paused" in line for line in drawn(matrix, 59, 24)), "there is no room for it"
    other = Matrix(lambda vertex: vertex.record.deployment != "lab")
    world.put_noderole(second, "else", NodeRole(state=State.ACTIVE, since=1.0, deployment="desk", parents=()))
    other.update(world, world.nodes)
    other.now = 29.0
    assert other.note(second) == "", "what is paused is not shown"
    matrix.now = 31.0
    assert (matrix.note(first), matrix.note(second)) == ("held, not alive", "")
    matrix.now = 60.0
    assert matrix.note(first) == "not alive"
