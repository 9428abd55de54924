"""Many decisions over one world, in parts: what each part carries of the structure."""

from __future__ import annotations

import pytest

from nodepool_ocb.engine import structure
from nodepool_ocb.engine.selection import together
from nodepool_ocb.model import limits, paths
from nodepool_ocb.model.records import Change, Check, Create, Gate, NodeRole, Raise, Set, State
from tests.engine.worlds import put, world


def test_each_part_carries_the_structure_as_the_part_before_leaves_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MOST_CHANGES", 3)
    made = world()
    put(made, "a@n1", State.ACTIVE)

    def one(role: str) -> list[Change]:
        return structure.raised(made, [Create(paths.noderole(role, "n1"), NodeRole(state=State.PROPOSED, since=0.0))])

    parts = together.decided(made, ["b", "c", "d", "e", "f"], one)
    raised = [
        [each.version for each in part if isinstance(each, Set) and each.path == paths.STRUCTURE] for part in parts
    ]
    assert raised == [[0], [1], [2]]
    assert set(made.nodes["n1"].noderoles) == set("abcdef")


def test_a_check_of_a_gate_goes_when_the_gate_is_raised_before_it_and_other_checks_stay() -> None:
    made = world()
    gate, other = paths.gate("system", "web"), paths.role("web")
    made.put_gate("system", "web", 3)
    units: dict[str, list[Change]] = {"raises": [Raise(gate, Gate())], "checks": [Check(gate, 3), Check(other, 1)]}
    assert together.decided(made, units, units.__getitem__) == [[Raise(gate, Gate()), Check(other, 1)]]
