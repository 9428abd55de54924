"""The slots of static machines: records of this product and of Nodepool hold them."""

from __future__ import annotations

import msgspec

from nodepool_ocb.model.pool import LaunchFacts, PoolNode, PoolNodeState
from nodepool_ocb.pool.configuration import ProviderPool, StaticMachine
from nodepool_ocb.pool.slots import MachineIndex
from nodepool_ocb.pool.states import new_request
from nodepool_ocb.pool.views import PoolNodeView
from nodepool_ocb.store.client import codec

TWO_LOGINS = ProviderPool(
    name="main",
    provider="rack",
    machines=(
        StaticMachine(name="m1", labels=("a",), username="root", slots=2),
        StaticMachine(name="m1", labels=("b",), username="zuul", port=2222),
    ),
)


def viewed(**fields: object) -> PoolNodeView:
    record = msgspec.structs.replace(PoolNode(state=PoolNodeState.READY, state_time=1.0, type=("a",)), **fields)
    return PoolNodeView(id="0000000001", record=record, version=0, created=1.0)


def missing(node: PoolNodeView) -> list[tuple[str, int]]:
    return [(machine.labels[0], slot) for machine, slot in MachineIndex(TWO_LOGINS).missing([node])]


def test_a_record_of_nodepool_holds_the_slot_of_its_machine() -> None:
    theirs = viewed(hostname="m1", username="zuul", connection_port=2222, slot=0)
    assert missing(theirs) == [("a", 0), ("a", 1)]


def test_a_record_of_ours_holds_its_slot_before_and_after_its_launch() -> None:
    facts = msgspec.to_builtins(LaunchFacts(key="k", machine=TWO_LOGINS.machines[0].name))
    begun = viewed(driver_data=facts, slot=1, username="root", connection_port=22)
    assert missing(begun) == [("a", 0), ("b", 0)]
    ready = viewed(driver_data=facts, slot=1, hostname="m1", username="root", connection_port=22)
    assert missing(ready) == [("a", 0), ("b", 0)]


def test_a_new_request_allows_reuse_and_has_a_number_for_its_priority() -> None:
    written = msgspec.json.decode(codec.encode(new_request(1.0, node_types=("a",))))
    assert (written["reuse"], written["relative_priority"]) == (True, 0)
