"""Groups of changes in transactions: whole, as few as bear them, and each znode written once in one."""

from __future__ import annotations

from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Check, Create, Deployment, Gate, Raise, Set
from nodepool_ocb.site.packing import Packing
from tests.site.scenes import with_roles

LAB = paths.deployment("lab")


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
