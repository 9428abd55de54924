"""A node with a record that cannot be read uses capacity where it is known to be, and delays nothing elsewhere."""

from __future__ import annotations

from typing import Any

from nodepool_ocb.model.pool import PoolNodeState
from nodepool_ocb.pool.configuration import PoolLabelPolicy, StaticMachine
from nodepool_ocb.pool.views import PoolNodeView
from tests.pool.poolworld import configuration, held, machines, node, pool, steps

MAIN = pool("main", "small", limits={"instances": 2})
LAB = machines("lab", StaticMachine(name="m", labels=("x",)), StaticMachine(name="n", labels=("x",)), provider="static")


def spoiled(number: str, *labels: str, **fields: Any) -> dict[str, PoolNodeView]:
    found = node(number, *labels, state=PoolNodeState.HOLD, **fields)
    return {found.id: found}


def test_it_counts_in_the_limits_of_its_pool() -> None:
    file = configuration(MAIN)
    queue = [held(each, "small") for each in "123"]
    assert len(steps(file, *queue)) == 2
    assert steps(file, *queue, unreadable=spoiled("5", "small")) == ["launch cloud/main small for 1"]
    assert len(steps(file, *queue, unreadable=spoiled("5", "small", provider="far"))) == 2


def test_it_counts_for_min_ready_also_if_its_label_is_unknown() -> None:
    file = configuration(MAIN, labels=[PoolLabelPolicy(name="small", min_ready=2)])
    assert len(steps(file)) == 2
    assert len(steps(file, unreadable=spoiled("5", "small"))) == 1
    assert len(steps(file, unreadable=spoiled("5", provider=None, pool=None))) == 1
    lost = spoiled("5", provider=None, pool=None) | spoiled("6", provider=None, pool=None)
    assert steps(file, unreadable=lost) == []


def test_no_step_acts_on_it() -> None:
    assert steps(configuration(MAIN), unreadable=spoiled("5", "small", hold_expiration=1)) == []


def test_its_slot_is_not_given_again() -> None:
    file = configuration(LAB)
    place = {"hostname": "m", "username": "zuul", "connection_port": 22, "slot": 0, "place": LAB}
    assert len(steps(file)) == 2
    assert [each.rpartition(" ")[2] for each in steps(file, unreadable=spoiled("5", "x", **place))] == ["n/0"]


def test_no_slot_is_given_while_a_user_holds_a_node_of_an_unknown_slot() -> None:
    file = configuration(LAB)
    unknown: dict[str, Any] = {"provider": None, "pool": None}
    assert steps(file, unreadable=spoiled("5", locked=True, **unknown)) == []
    assert len(steps(file, unreadable=spoiled("5", **unknown))) == 2
    assert steps(file, unreadable=spoiled("5", locked=True, provider="static", pool="lab")) == []
    assert len(steps(file, unreadable=spoiled("5", locked=True, provider="far", pool="lab"))) == 2
