"""Slots of static machines, with real sshd: a machine that does not answer is not handed out."""

from __future__ import annotations

import getpass
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from msgspec.structs import replace

from nodepool_ocb.errors import Stale
from nodepool_ocb.model import paths
from nodepool_ocb.model.pool import PoolNodeState, RequestState
from nodepool_ocb.model.records import Create, Json, Node, NodeRole, Role, Set, State
from nodepool_ocb.store.client import codec
from nodepool_ocb.testing.machines import Farm
from tests.launcher.launcher_fleet import LauncherFleet
from tests.launcher.test_entries_of_launchers import entries


@pytest.fixture
def farm(tmp_path: Path) -> Iterator[Farm]:
    with Farm(2, tmp_path / "farm") as farm:
        yield farm


def rack(farm: Farm, *machines: int) -> dict[str, Json]:
    """A static provider with these machines."""
    nodes: list[Json] = [
        {"name": host, "connection-port": port, "labels": ["small"], "username": getpass.getuser(), "timeout": 2}
        for host, port in map(farm.address, machines)
    ]
    return {"name": "rack", "driver": "static", "pools": [{"name": "main", "nodes": nodes}]}


def ready(launchers: LauncherFleet, count: int) -> dict[str, str | None]:
    """Wait for so many ready nodes; gives their ids, and their addresses."""
    launchers.until(lambda: len(launchers.nodes(PoolNodeState.READY)) == count, f"{count} nodes are ready")
    return {id: node.interface_ip for id, node in launchers.nodes(PoolNodeState.READY).items()}


def test_a_slot_is_handed_out_and_is_a_new_node_after_its_use(launchers: LauncherFleet, farm: Farm) -> None:
    launchers.launcher(rack(farm, 0), labels=[{"name": "small", "min-ready": 1}]).start()
    (first,) = ready(launchers, 1)
    request = launchers.request("small")
    (node,) = launchers.fulfilled(request)
    assert (node.interface_ip, node.ssh_port) == farm.address(0)
    assert node.launcher == "static driver"  # as Nodepool writes it
    assert node.host_keys == farm.records()[0][1].host_keys
    launchers.give_back(request, launchers.take(request))
    launchers.until(lambda: first not in launchers.nodes(), "the node is deleted")
    assert first not in ready(launchers, 1)


def test_the_roles_of_a_slot_run_again_before_it_is_handed_out_once_more(launchers: LauncherFleet, farm: Farm) -> None:
    session = launchers.session
    session.commit([Create(paths.role("dns"), Role(barclamp="dns", jig="script"))])
    launcher = launchers.launcher(rack(farm, 0), labels=[{"name": "small", "roles": ["dns"], "refresh-roles": True}])
    launcher.configure(ssh=farm.settings())
    launcher.start()
    names: list[str] = []
    for _ in range(2):
        request = launchers.request("small")
        launchers.until(lambda: launchers.nodes(PoolNodeState.TESTING), "it waits for its roles")
        launchers.until(lambda: session.children(paths.NODES), "it is a node of /ocb")
        (name,) = session.children(paths.NODES) or ()
        (testing,) = launchers.nodes(PoolNodeState.TESTING).values()
        assert testing.hostname == farm.address(0)[0], "Nodepool's launcher finds the slot of a node by this name"
        path = paths.noderole("dns", name)
        launchers.until(lambda path=path: session.get(path), "its role is bound")
        znode = session.get(path)
        assert znode is not None
        record = codec.decode(NodeRole, znode)
        assert record.state is not State.ACTIVE, "an annealer runs it again"
        waiting = launchers.read(request)
        assert waiting is not None
        assert waiting.state is RequestState.REQUESTED, "no machine is ready for it"
        session.commit([Set(path, replace(record, state=State.ACTIVE), znode.version)])  # the test plays the annealer
        launchers.fulfilled(request)
        launchers.give_back(request, launchers.take(request))
        launchers.until(lambda: not session.children(paths.NODES), "the node of /ocb goes with its use")
        names.append(name)
    assert names[0] != names[1]


def test_a_returned_slot_with_a_node_of_ocb_is_deleted_after_that_node(launchers: LauncherFleet, farm: Farm) -> None:
    session = launchers.session
    session.commit([Create(paths.role("bye"), Role(barclamp="b", jig="noop", hooks=("on_node_delete",)))])
    launcher = launchers.launcher(rack(farm, 0), labels=[{"name": "small", "roles": ["bye"]}])
    launcher.configure(ssh=farm.settings())
    launcher.start()
    launchers.until(lambda: session.children(paths.NODES), "it is a node of /ocb")
    (name,) = session.children(paths.NODES) or ()
    path = paths.noderole("bye", name)
    launchers.until(lambda: session.get(path), "its role is bound")
    noderole = session.get(path)
    assert noderole is not None
    active = replace(codec.decode(NodeRole, noderole), state=State.ACTIVE)
    session.commit([Set(path, active, noderole.version)])  # the test plays the annealer
    request = launchers.request("small")
    launchers.fulfilled(request)
    launchers.give_back(request, launchers.take(request))
    launchers.until(lambda: launchers.nodes(PoolNodeState.DELETING), "its record waits for the hook of the other node")
    assert session.children(paths.NODES) == [name]
    launchers.until(lambda: "on_node_delete" in of_ocb(launchers, name).hooks, "the hook is asked for")
    launchers.until(lambda: forget_hooks(launchers, name), "the hook is done")
    launchers.until(lambda: name not in (session.children(paths.NODES) or ()), "the node of /ocb is deleted")
    launchers.until(lambda: not launchers.nodes(PoolNodeState.DELETING), "then the record")


def forget_hooks(launchers: LauncherFleet, name: str) -> bool:
    """Play the annealer whose hook has ended; False if the launcher wrote at the same time."""
    node = launchers.session.get(paths.node(name))
    assert node is not None
    with suppress(Stale):
        launchers.session.commit([Set(paths.node(name), replace(codec.decode(Node, node), hooks=()), node.version)])
        return True
    return False


def of_ocb(launchers: LauncherFleet, name: str) -> Node:
    znode = launchers.session.get(paths.node(name))
    assert znode is not None
    return codec.decode(Node, znode)


def test_of_two_machines_the_one_that_answers_is_handed_out(launchers: LauncherFleet, farm: Farm) -> None:
    launchers.launcher(rack(farm, 0, 1), labels=[{"name": "small", "min-ready": 2}]).start()
    addresses = ready(launchers, 2)
    farm.kill(0)
    dead = next(id for id, address in addresses.items() if address == farm.address(0)[0])
    requests = [launchers.request("small")]
    (node,) = launchers.fulfilled(requests[0])
    assert node.interface_ip == farm.address(1)[0]
    requests.append(launchers.request("small"))
    launchers.until(lambda: dead not in launchers.nodes(PoolNodeState.READY), "the node of the dead machine is deleted")
    record = launchers.read(requests[1])
    assert record is None or record.state is not RequestState.FULFILLED


def test_a_frozen_machine_is_not_handed_out(launchers: LauncherFleet, farm: Farm) -> None:
    launchers.launcher(rack(farm, 0, 1), labels=[{"name": "small", "min-ready": 2}]).start()
    ready(launchers, 2)
    farm.freeze(0)
    (node,) = launchers.fulfilled(launchers.request("small"))
    assert node.interface_ip == farm.address(1)[0]
    farm.thaw(0)


@pytest.mark.long
def test_the_connections_of_a_replaced_provider_are_closed(launchers: LauncherFleet, farm: Farm) -> None:
    labels = [{"name": "small", "min-ready": 1}]
    launcher = launchers.launcher(rack(farm, 0), labels=labels)
    launcher.configure(ssh=farm.settings())
    launcher.start()
    tasks = Path(f"/proc/{launcher.pid}/task")
    counts = []
    for timeout in range(3, 9):
        ready(launchers, 1)
        request = launchers.request("small")
        launchers.fulfilled(request)  # its check logs in
        counts.append(len(list(tasks.iterdir())))
        launchers.give_back(request, launchers.take(request))
        launchers.configure(launcher, rack(farm, 0) | {"boot-timeout": timeout}, labels=labels)
        launcher.reload()
        launchers.until(lambda number=timeout - 2: launcher.said.count("reloaded") >= number, "it took over the file")
    launchers.until(lambda: len(list(tasks.iterdir())) <= counts[0] + 2, f"threads end; there were {counts}")


def of_three_slots(launchers: LauncherFleet, farm: Farm) -> tuple[list[str], dict[str, str | None]]:
    """Three requests that have the slots of one machine, and the nodes."""
    document = rack(farm, 0)
    document["pools"][0]["nodes"][0]["max-parallel-jobs"] = 3  # type: ignore[index,call-overload]
    launcher = launchers.launcher(document)
    launcher.configure(ssh=farm.settings())
    launcher.start()
    nodes = ready(launchers, 3)
    requests = [launchers.request("small") for _ in range(3)]
    for each in requests:
        launchers.fulfilled(each)
    return requests, nodes


def test_each_returned_slot_is_a_new_ready_node_with_one_entry_of_the_return(
    launchers: LauncherFleet, farm: Farm
) -> None:
    requests, nodes = of_three_slots(launchers, farm)
    for each in requests:
        launchers.give_back(each, launchers.take(each))
    launchers.until(lambda: not nodes.keys() & launchers.nodes().keys(), "the returned nodes are gone")
    after = launchers.nodes(PoolNodeState.READY)
    assert sorted(node.slot or 0 for node in after.values()) == [0, 1, 2]
    assert all(node.allocated_to is None and node.hostname == farm.address(0)[0] for node in after.values())
    assert all(node.host_keys == farm.records()[0][1].host_keys for node in after.values())
    reasons = [each.reason for each in entries(launchers) if each.verb == "delete node"]
    assert reasons == ["it was returned; its slot is ready again"] * 3


def test_returned_slots_of_a_machine_that_died_are_deleted_and_their_launch_says_why(
    launchers: LauncherFleet, farm: Farm
) -> None:
    requests, nodes = of_three_slots(launchers, farm)
    locks = [launchers.take(each) for each in requests]
    farm.kill(0)
    for each, held in zip(requests, locks, strict=True):
        launchers.give_back(each, held)
    launchers.until(lambda: not nodes.keys() & launchers.nodes().keys(), "the returned nodes are gone")
    launchers.until(lambda: len(launchers.nodes(PoolNodeState.FAILED)) == 3, "their launches fail")
    assert all("connect: " in (node.reason or "") for node in launchers.nodes().values())


def test_a_returned_node_without_a_lock_is_deleted_and_its_slot_is_a_new_node(
    launchers: LauncherFleet, farm: Farm
) -> None:
    launchers.launcher(rack(farm, 0)).start()
    (node,) = ready(launchers, 1)
    request = launchers.request("small")
    launchers.fulfilled(request)
    launchers.give_back(request, launchers.take(request))
    launchers.until(lambda: node not in launchers.nodes(), "its second node has no lock so far")
    (second,) = ready(launchers, 1)
    assert launchers.session.children(paths.pool_node_lock(second)) is None
    launchers.mark(second, PoolNodeState.USED)
    launchers.until(lambda: second not in launchers.nodes(), "it goes, too")
    assert ready(launchers, 1).keys().isdisjoint({node, second})
