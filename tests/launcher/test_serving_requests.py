"""A launcher serves requests: from the request to nodes, and from the returned nodes to their deletion."""

from __future__ import annotations

from nodepool_ocb.model.pool import PoolNodeState, RequestState
from tests.launcher.launcher_fleet import LauncherFleet


def test_a_request_is_fulfilled_by_a_launched_node_which_is_deleted_after_its_use(launchers: LauncherFleet) -> None:
    launchers.launcher(launchers.cloud("north")).start()
    request = launchers.request("small")
    (node,) = launchers.fulfilled(request)
    (machine,) = launchers.machines("north")
    assert (node.state, node.allocated_to) == (PoolNodeState.READY, request)
    assert node.python_path == "auto"  # the default of a cloud image
    assert (node.external_id, node.hostname) == (machine["machine"]["external_id"], machine["machine"]["name"])
    locks = launchers.take(request)
    launchers.give_back(request, locks)
    launchers.until(lambda: not launchers.nodes(), "the node is deleted")
    assert launchers.machines("north") == []


def test_a_request_for_a_label_that_no_pool_has_fails_with_the_reason(launchers: LauncherFleet) -> None:
    launchers.launcher(launchers.cloud("north")).start()
    record = launchers.until_state(launchers.request("huge"), RequestState.FAILED)
    assert record.reason is not None
    assert "huge" in record.reason


def test_the_volume_of_a_machine_counts_after_its_launch_though_its_cloud_tells_the_flavor_alone(
    launchers: LauncherFleet,
) -> None:
    cloud = launchers.cloud("north", max_volume_gb=25)
    cloud["pools"][0]["labels"][0] |= {"boot-from-volume": True, "volume-size": 20}
    launchers.launcher(cloud).start()
    (node,) = launchers.fulfilled(launchers.request("small"))
    assert node.resources == {"instances": 1, "cores": 4, "ram": 8192, "volumes": 1, "volume-gb": 20}
    second, third = launchers.request("small"), launchers.request("huge")
    launchers.until_state(third, RequestState.FAILED)  # decided after the second one
    assert launchers.machines("north")[1:] == []
    assert launchers.until_state(second, RequestState.PENDING).nodes == ()
