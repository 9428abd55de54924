"""A label with roles: its node of /ocb is made with the machine's address and host keys, and ready waits for its roles."""

from __future__ import annotations

from typing import Any, Final

import pytest

from nodepool_ocb.model import paths
from nodepool_ocb.model.pool import PoolNodeState, RequestState
from nodepool_ocb.model.records import Create, Json, Node, NodeRole, Role, Set, State
from nodepool_ocb.store.client import codec
from tests.launcher.launcher_fleet import LauncherFleet

LABEL: Final[dict[str, Json]] = {"name": "small", "roles": ["dns"], "roles-timeout": 2}


@pytest.fixture
def fleet(launchers: LauncherFleet) -> LauncherFleet:
    """A role, and no annealer: the test plays it."""
    launchers.session.commit([Create(paths.role("dns"), Role(barclamp="dns", jig="script"))])
    return launchers


def noderole(fleet: LauncherFleet, **fields: Any) -> None:
    """The end of the run of the only noderole, as an annealer writes it."""
    found = the_node(fleet)
    path = paths.noderole("dns", found)
    znode = fleet.session.get(path)
    assert znode is not None
    fleet.session.commit([Set(path, codec.decode(NodeRole, znode).amended(**fields), znode.version)])


def names(fleet: LauncherFleet) -> list[str]:
    return fleet.session.children("/ocb/nodes") or []


def the_node(fleet: LauncherFleet) -> str:
    fleet.until(
        lambda: names(fleet) and fleet.session.children(paths.noderoles(names(fleet)[0])), "it is a node of /ocb"
    )
    (found,) = names(fleet)
    return found


def start(fleet: LauncherFleet, **label: Json) -> None:
    fleet.launcher(fleet.cloud("north"), labels=[LABEL | label]).start()


def test_a_node_is_ready_when_its_roles_are_active_and_goes_with_its_machine(fleet: LauncherFleet) -> None:
    start(fleet, **{"roles-timeout": 600})
    request = fleet.request("small")
    name = the_node(fleet)
    znode = fleet.session.get(paths.node(name))
    assert znode is not None
    node = codec.decode(Node, znode)
    assert (node.addresses, node.host_keys, node.user) == (("127.0.0.1",), ("ssh-rsa FAKEKEY",), "root")
    fleet.until(lambda: fleet.nodes(PoolNodeState.TESTING), "it waits for its roles")
    noderole(fleet, state=State.ACTIVE)
    fleet.fulfilled(request)
    fleet.give_back(request, fleet.take(request))
    fleet.until(lambda: not fleet.nodes(), "the node is deleted")
    assert names(fleet) == []
    assert fleet.machines("north") == []


def test_a_role_in_error_ends_the_launch_with_its_name(fleet: LauncherFleet) -> None:
    start(fleet, **{"roles-timeout": 600, "keep-failed": True})
    fleet.request("small")
    the_node(fleet)
    noderole(fleet, state=State.ERROR, reason="exit status 3")
    fleet.until(lambda: fleet.nodes(PoolNodeState.HOLD), "it is kept")
    (kept,) = fleet.nodes(PoolNodeState.HOLD).values()
    assert kept.reason == "role dns is in ERROR: exit status 3"
    assert len(fleet.machines("north")) >= 1


def test_without_an_annealer_the_deadline_says_so_and_the_request_fails_after_its_tries(fleet: LauncherFleet) -> None:
    start(fleet, **{"roles-timeout": 1})
    request = fleet.request("small")
    fleet.until(lambda: fleet.nodes(PoolNodeState.FAILED), "the first launch failed")
    reasons = {each.reason for each in fleet.nodes(PoolNodeState.FAILED).values()}
    assert reasons == {"deadline roles of 1 s is over: dns is TODO; no annealer is running, and one must be started"}
    found = fleet.read(request)
    assert found is not None
    assert found.state is RequestState.PENDING
    fleet.until(lambda: not fleet.machines("north"), "its machine is deleted")
    fleet.until(lambda: not names(fleet), "its node of /ocb is deleted")
