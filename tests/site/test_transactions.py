"""Groups of changes in transactions: whole, as few as bear them, and each znode written once in one."""

from __future__ import annotations

import pytest

from nodepool_ocb.model import limits, paths
from nodepool_ocb.model.records import Change, Check, Create, Deployment, Gate, Raise, Set, Structure
from nodepool_ocb.site.transactions import Packing
from tests.site.scenes import with_roles

LAB = paths.deployment("lab")
DESK = paths.deployment("desk")


def packed(*groups: list[Change]) -> list[list[str]]:
    """The paths of each transaction that these groups come to, without the structure's."""
    packing = Packing(with_roles())
    for group in groups:
        packing.take(group)
    packing.close()
    assert all(each[-1].path == paths.STRUCTURE for each in packing.transactions)
    return [[change.path for change in each[:-1]] for each in packing.transactions]


def test_what_is_written_twice_is_written_in_two_transactions_and_a_check_of_it_says_nothing_more() -> None:
    packing = Packing(with_roles())
    packing.take([Create(LAB, Deployment())])
    packing.take([Check(LAB, 0), Create(f"{LAB}/roles")])
    packing.take([Set(LAB, Deployment(by="ann"), 0)])
    packing.close()
    assert [[change.path for change in each] for each in packing.transactions] == [
        [LAB, f"{LAB}/roles", paths.STRUCTURE], [LAB, paths.STRUCTURE]
    ]  # fmt: skip


def test_a_gate_is_raised_once_in_a_transaction_and_the_next_one_knows_by_how_much() -> None:
    world = with_roles()
    world.put_gate("lab", "member", 4)
    gate = paths.gate("lab", "member")
    packing = Packing(world)
    for _ in range(3):
        packing.take([Raise(gate, Gate())])
    assert world.cluster_view("member", "lab").gate == 5
    packing.close()
    packing.take([Check(gate, 5), Raise(gate, Gate())])
    packing.close()
    assert [len(each) for each in packing.transactions] == [2, 3]
    assert world.cluster_view("member", "lab").gate == 6


def test_groups_share_a_transaction_as_long_as_their_bytes_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    groups: list[list[Change]] = [[Create(f"{LAB}/roles/r{number}", Deployment(by="x" * 100))] for number in range(5)]
    monkeypatch.setattr(limits, "MOST_BYTES", 2 * limits.size(groups[0][0]))
    assert [len(each) for each in packed(*groups)] == [2, 2, 1]


def test_what_a_full_transaction_checked_is_checked_anew_in_the_next() -> None:
    made: list[Change] = [Create(LAB, Deployment()), Create(DESK, Deployment())]
    assert packed(made, [Check(LAB, 0), Set(DESK, Deployment(by="ann"), 0)]) == [[LAB, DESK], [LAB, DESK]]


def test_a_check_is_no_write_and_what_was_checked_may_be_written_beside_it() -> None:
    assert packed([Check(LAB, 0)], [Set(LAB, Deployment(by="ann"), 0)]) == [[LAB, LAB]]


def test_one_group_that_raises_the_structure_raises_it_for_all_that_share_its_transaction() -> None:
    world = with_roles()
    packing = Packing(world)
    packing.take([Create(LAB, Deployment()), Set(paths.STRUCTURE, Structure(), 0)])
    packing.take([Create(f"{LAB}/roles", None)])
    packing.close()
    packing.take([Set(LAB, Deployment(by="ann"), 0)])
    packing.close()
    assert [each[-1] for each in packing.transactions] == [
        Set(paths.STRUCTURE, Structure(), 0),
        Check(paths.STRUCTURE, 1),
    ]


def test_what_was_cut_already_comes_behind_what_was_taken_before_and_has_the_structure_once() -> None:
    packing = Packing(with_roles())
    packing.take([Create(LAB, Deployment())])
    packing.whole([Set(LAB, Deployment(by="ann"), 0)])
    packing.whole([Set(LAB, Deployment(by="bob"), 1), Set(paths.STRUCTURE, Structure(), 0)])
    assert [[change.path for change in each] for each in packing.transactions] == [
        [LAB, paths.STRUCTURE], [paths.STRUCTURE, LAB], [LAB, paths.STRUCTURE]
    ]  # fmt: skip
