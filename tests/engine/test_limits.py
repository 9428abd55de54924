"""Plans are cut by bytes and by changes, and crashing between the parts leaves what anybody can go on with."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodepool_ocb.engine import liveness
from nodepool_ocb.engine.readiness import Code, blockers
from nodepool_ocb.engine.world import NodeView, Stored, World
from nodepool_ocb.errors import Conflict
from nodepool_ocb.model import limits, paths
from nodepool_ocb.model.limits import MOST_BYTES, MOST_CHANGES
from nodepool_ocb.model.records import Change, Check, Create, Gate, Node, NodeRole, Raise, Role, Set, State
from nodepool_ocb.store.client import frames, transaction

ROOT = Path(__file__).parents[2]
NAMES = [letter * 32 for letter in "abcde"]  # as long as they may be, one for each kind


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.integers(1, 90_000), max_size=3),
    st.lists(st.lists(st.integers(1, 90_000), min_size=1, max_size=3), max_size=400),
)
def test_what_may_follow_is_cut_in_its_order_whole_units_at_a_time(together: list[int], units: list[list[int]]) -> None:
    stands = [Create(f"/t{n}", "x" * size) for n, size in enumerate(together)]
    may = [[Create(f"/u{n}/{m}", "x" * size) for m, size in enumerate(unit)] for n, unit in enumerate(units)]
    changes = limits.cut(stands, may)
    assert changes[: len(stands)] == stands
    taken = changes[len(stands) :]
    count = 0
    while taken:
        unit = may[count]
        assert taken[: len(unit)] == unit
        taken, count = taken[len(unit) :], count + 1
    if count:
        assert limits.fits(changes) or (not stands and count == 1)
    if count < len(may):
        assert not limits.fits([*changes, *may[count]]), "there was room for one more"
    assert [change for part in limits.parts(may) for change in part] == [change for unit in may for change in unit]


def acl(_path: str) -> bytes:
    """The largest that there can be."""
    return frames.access([frames.AclGrant(31, "sasl", name) for name in NAMES])


@pytest.mark.parametrize("length", [0, 1000, 20_000])
def test_what_is_cut_is_below_half_of_what_the_store_refuses(length: int) -> None:
    units = [[Create(f"/ocb/nodes/n{n:04}.example.com", Node(reason="r" * length))] for n in range(600)]
    for changes in limits.parts(units):
        packed = transaction.pack(changes, "/some/chroot", acl)
        assert packed.size <= sum(map(limits.size, changes))
        assert packed.size <= limits.TRANSACTION_BYTES // 2
        assert len(changes) <= limits.TRANSACTION_CHANGES // 2


@pytest.mark.parametrize("parents", [0, 1, 300])
def test_a_noderole_is_never_counted_as_less_than_it_takes(parents: int) -> None:
    longest = NodeRole.of(
        state=State.TRANSITION,
        since=1700000000.123456,
        deployment="d" * 63,
        parents=tuple(f"{'r' * 63}@n{n}.{'d' * 240}" for n in range(parents)),
        serves=("s" * 63, "t" * 63),
        generation=2**40,
        run="0" * 40,
        epoch=2**40,
        attempt=2**20,
        by="h" * 200,
        refresh=True,
        once="started",
        not_before=1700000000.123456,
        hooks=("on_proposed", "on_todo", "on_blocked", "on_transition", "on_active", "on_error"),
    )
    path = paths.noderole("r" * 63, "n1." + "d" * 240)
    changes: list[Change] = [Set(path, longest, 7)]
    assert limits.size(changes[0]) >= transaction.pack(changes, "/some/chroot", acl).size


def test_a_gate_is_raised_once_in_a_transaction_and_again_in_the_next() -> None:
    raised: Change = Raise("/gate", Gate(by="a@n"))
    parts = list(limits.parts([raised, Check(f"/{n}", 0)] for n in range(400)))
    assert [len(part) for part in parts] == [MOST_CHANGES, 402 - MOST_CHANGES]
    assert all(part.count(raised) == 1 for part in parts)


def test_one_that_is_too_large_by_itself_is_given_alone_for_the_store_to_refuse() -> None:
    large = Create("/a", "x" * (MOST_BYTES + 1))
    assert list(limits.parts([[large], [Check("/b", 0)]])) == [[large], [Check("/b", 0)]]


def test_the_record_of_a_noderole_that_exists_is_written_in_one_place_alone() -> None:
    """Another would forget to raise the gates of a member that ceases to be satisfied."""
    found = [
        f"{file.relative_to(ROOT)}: {line.strip()}"
        for folder in ("nodepool_ocb", "annealer")
        for file in (ROOT / folder).rglob("*.py")
        if file.stem not in ("upload", "building", "imaging")  # these write images
        for line in file.read_text().splitlines()
        if re.search(r"\bSet\((paths\.noderole\(|_path\(|path, replace\(base, hooks=kept\), vertex)", line)
    ]
    assert [line.partition(":")[0] for line in found] == ["nodepool_ocb/engine/claim.py"], found


# -- a death that is larger than a transaction --


def crowded(count: int, state: State = State.ACTIVE, **fields: object) -> tuple[World, NodeView]:
    """A node with so many noderoles, each below the one before in tens."""
    world = World()
    view = world.put_node("n.example.com", Node(alive=True), 0)
    for number in range(count):
        above = (f"r{number - 1:04}@n.example.com",) if number % 10 else ()
        record = NodeRole.of(state=state, since=0.0, generation=1, parents=above, **fields)  # type: ignore[arg-type]
        world.put(Stored(Role(barclamp="b", jig="noop"), 0), f"r{number:04}")
        world.put_noderole("n.example.com", f"r{number:04}", record, 0)
    return world, view


def write(world: World, changes: list[Change]) -> None:
    """As ZooKeeper would."""
    assert limits.fits(changes)
    for change in changes:
        assert isinstance(change, Set)
        _, _, _, fqdn, *rest = change.path.split("/")
        if isinstance(change.data, Node):
            assert change.version == world.node(fqdn).version
            world.put_node(fqdn, change.data, change.version + 1)
        elif isinstance(change.data, NodeRole):
            vertex = world.node(fqdn).noderoles[rest[1]]
            assert change.version == vertex.version
            world.put_noderole(fqdn, rest[1], change.data, change.version + 1)


def transactions(world: World, view: NodeView, now: float) -> int:
    """Go on with the death until it is told to all; gives the number of transactions."""
    for count in range(20):
        changes = liveness.went_on(view, now)
        if not changes:
            return count
        write(world, changes)
    raise AssertionError("the death has no end")


def test_a_node_with_a_thousand_noderoles_dies_in_parts_that_anybody_goes_on_with() -> None:
    world, view = crowded(1000)
    write(world, liveness.died(view, 1.0, "connect: refused"))
    assert view.record is not None
    assert view.record.dying
    assert not view.record.alive
    with pytest.raises(Conflict, match="still setting back"):
        liveness.revived(view, 2.0)
    with pytest.raises(Conflict, match="still setting back"):
        liveness.changed(world, view, 2.0, alive=True)
    assert 3 <= transactions(world, view, 2.0) <= 5
    assert {vertex.record.state for vertex in view.noderoles.values()} == {State.TODO, State.BLOCKED}
    assert not view.record.dying
    assert view.record.reason == "connect: refused"
    write(world, liveness.revived(view, 3.0))
    assert view.record.alive


def test_a_small_node_dies_at_once() -> None:
    world, view = crowded(20)
    write(world, liveness.died(view, 1.0, "connect: refused"))
    assert view.record is not None
    assert not view.record.dying
    assert {vertex.record.state for vertex in view.noderoles.values()} == {State.TODO, State.BLOCKED}


@pytest.mark.parametrize(
    ("state", "once"), [(State.ACTIVE, "done"), (State.ERROR, "started"), (State.TRANSITION, "started")]
)
def test_destructive_noderoles_that_a_death_leaves_as_they_are_do_not_keep_it_going(state: State, once: str) -> None:
    world, view = crowded(600, state, once=once)
    write(world, liveness.died(view, 1.0, "connect: refused"))
    assert transactions(world, view, 2.0) <= 5
    assert view.record is not None
    assert not view.record.dying


def test_nothing_starts_on_a_node_whose_death_is_not_told_to_all_even_if_it_is_virtual() -> None:
    world, view = crowded(1, State.TODO)
    world.put_node(view.name, Node(virtual=True, dying=True), 3)
    (vertex,) = view.noderoles.values()
    assert Code.NODE_NOT_ALIVE in [reason.code for reason in blockers(world, vertex, 1.0, {"noop"})]


def test_what_a_death_has_no_room_for_on_other_nodes_is_left_to_those_who_watch_them() -> None:
    world, view = crowded(100)
    for number in range(400):
        record = NodeRole(state=State.ACTIVE, since=0.0, parents=("r0000@n.example.com",))
        world.put_noderole(f"m{number}.example.com", "leaf", record, 0)
    changes = liveness.died(view, 1.0, "connect: refused")
    write(world, changes)
    assert view.record is not None
    assert not view.record.dying, "its own are all set back"
    assert {paths.noderole(v.role, view.name) for v in view.noderoles.values()} <= {change.path for change in changes}
