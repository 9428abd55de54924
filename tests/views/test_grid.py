"""The compact document of many noderoles, and the part of it that a token with limits is shown."""

from __future__ import annotations

from msgspec.structs import replace

from nodepool_ocb.model.maintenance import Maintenance
from nodepool_ocb.model.records import State
from nodepool_ocb.views import grid
from nodepool_ocb.views.view import plain
from tests.views.small import BASE, N1, N2, TOP, put, small

BASE_2 = f"base@{N2}"


def made() -> grid.NoderoleGrid:
    world = small()
    put(world, BASE_2, State.ACTIVE)
    base, node = world.roles["base"], world.nodes[N1].record
    assert node is not None
    world.put(replace(base, record=replace(base.record, flags=("milestone",))), "base")
    world.put_node(N1, replace(node, rack="r1", hold=Maintenance(by="ann", since=1.0)), 1)
    return grid.grid(world, world.vertices(), now=10.0)


def test_each_node_has_a_letter_for_each_role_parents_before_children() -> None:
    found = made()
    assert [(each.role, each.milestone) for each in found.roles] == [("base", True), ("middle", False), ("top", False)]
    assert list(zip(found.nodes, found.states, strict=True)) == [(N1, "EBB"), (N2, "A..")]
    assert found.racks == ("r1", "")
    assert found.marks == ("hd", "u")
    assert found.roles[0].noderoles == {State.ERROR: 1, State.ACTIVE: 1}
    assert found.totals == {State.ERROR: 1, State.BLOCKED: 2, State.ACTIVE: 1}
    assert [plain(each) for each in found.lines][1] == {"node": N2, "rack": "", "marks": "u", "states": "A.."}


def test_the_part_within_limits_has_no_name_and_no_number_of_the_others() -> None:
    found = made().within({BASE_2})
    assert [each.role for each in found.roles] == ["base"]
    assert (found.nodes, found.states, found.totals) == ((N2,), ("A",), {State.ACTIVE: 1})
    assert made().within({BASE, TOP}).states == ("EB",)
    assert made().within(set()) == grid.grid(small(), [], now=10.0)


def test_every_state_has_a_letter_of_its_own() -> None:
    assert {*grid.LETTERS} == {*State}
    assert len({*grid.LETTERS.values(), grid.UNBOUND}) == len(State) + 1
