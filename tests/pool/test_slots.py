"""The slots of static machines: records of this product and of Nodepool hold them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from nodepool_ocb.model.pool import LaunchFacts, PoolNode, PoolNodeState
from nodepool_ocb.pool.configuration import PoolLabelPolicy, ProviderPool, StaticMachine
from nodepool_ocb.pool.instructions import DeleteNode
from nodepool_ocb.pool.slots import MachineIndex
from nodepool_ocb.pool.states import new_request
from nodepool_ocb.pool.views import PoolNodeView
from nodepool_ocb.store.client import codec
from tests.pool.poolworld import configuration, decided, machines, node

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


def test_nodes_of_machines_that_the_file_does_not_have_share_no_slot() -> None:
    login = {"username": "root", "connection_port": 22}
    first = viewed(hostname="gone", slot=0, **login)
    second = msgspec.structs.replace(viewed(hostname="away", slot=0, **login), id="0000000002")
    assert MachineIndex(TWO_LOGINS).doubled([first, second]) == set()
    assert missing(viewed(hostname="gone", **login)) == [("a", 0), ("a", 1), ("b", 0)], "nor without a slot"


SLOTTED = StaticMachine(name="m1", labels=("a",), username="zuul", port=2222, slots=2)
HOST_KEYS = ("ssh-rsa AAAA",)
PINNED = StaticMachine(name="m1", labels=("a",), host_keys=("ssh-rsa AAAA of m1",), shell_type="cmd")


def misfit(machine: StaticMachine, **fields: object) -> str | None:
    of_ours: dict[str, object] = {
        "driver_data": msgspec.to_builtins(LaunchFacts(key="k", machine="m1")),
        "hostname": "m1",
        "username": "zuul",
        "connection_port": 22,
        "slot": 0,
        "host_keys": HOST_KEYS,
        "connection_type": "ssh",
        "shell_type": "cmd",
        "python_path": "auto",
    }
    pool = ProviderPool(name="main", provider="rack", machines=(machine,))
    return MachineIndex(pool).misfit(viewed(**{**of_ours, **fields}))


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"labels": ("a", "b")}, "the labels"),
        ({"python_path": "/usr/bin/python3"}, "python-path"),
        ({"shell_type": None}, "shell-type"),
        ({"connection_type": "network_cli"}, "connection-type"),
        ({"host_keys": ("ssh-rsa BBBB",)}, "host-key"),
    ],
)
def test_a_node_is_made_anew_when_the_file_changes_the_login_of_its_machine(change: dict[str, Any], key: str) -> None:
    assert misfit(PINNED) is None
    assert misfit(msgspec.structs.replace(PINNED, **change)) == f"{key} of its machine changed"


def test_a_record_of_nodepool_that_agrees_with_the_file_stays() -> None:
    theirs: dict[str, object] = {
        "driver_data": None,
        "shell_type": None,
        "host_keys": ("ssh-rsa AAAA of m1", "ssh-ed25519 C"),
    }
    assert misfit(PINNED, **theirs) is None


def test_host_keys_of_a_machine_without_ssh_do_not_count() -> None:
    windows = msgspec.structs.replace(PINNED, connection_type="winrm")
    assert misfit(windows, connection_type="winrm", host_keys=()) is None


def test_a_new_request_allows_reuse_and_has_a_number_for_its_priority() -> None:
    written = msgspec.json.decode(codec.encode(new_request(1.0, node_types=("a",))))
    assert (written["reuse"], written["relative_priority"]) == (True, 0)


def heir(machine: StaticMachine, annealed: bool = False, faults: dict[str, str] | None = None, **fields: Any) -> Any:
    """The launch that follows a returned node, as the rules decide."""
    rack = machines("rack", machine)
    file = configuration(rack, labels=[PoolLabelPolicy(name="a", annealed=annealed)])
    facts = LaunchFacts(key="", machine=machine.name, fqdn=fields.pop("fqdn", None))
    record = {
        "state": PoolNodeState.USED, "slot": 0, "username": machine.username, "connection_port": machine.port,
        "driver_data": msgspec.to_builtins(facts), "connection_type": "ssh", "python_path": machine.python_path, **fields,
    }  # fmt: skip
    (step,) = decided(file, node("5", "a", place=rack, **record), faults=faults or {}).steps[:1]
    assert isinstance(step, DeleteNode)
    return step.heir


def test_the_next_launch_of_its_slot_follows_a_returned_node() -> None:
    found = heir(SLOTTED, slot=1)
    assert (found.machine, found.username, found.port, found.slot) == ("m1", "zuul", 2222, 1)
    assert (found.provider, found.pool, found.label) == ("static", "rack", "a")


def test_no_launch_follows_a_node_that_the_file_does_not_have_so_or_that_annealers_act_on() -> None:
    assert heir(SLOTTED, slot=2) is None, "the machine has two slots"
    assert heir(SLOTTED, fqdn="n1.example.com") is None, "a node of /ocb goes first"
    assert heir(SLOTTED, annealed=True) is None, "its machine is renewed first"
    assert heir(SLOTTED, faults={"static": "it does not answer"}) is None
    assert heir(SLOTTED, driver_data=None) is None, "another software made it"
