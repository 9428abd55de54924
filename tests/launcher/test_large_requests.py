"""Records that other clients fill to their limit: each ends with a reason, and none is tried again and again."""

from __future__ import annotations

from typing import Any

import pytest

from nodepool_ocb.model import limits, paths
from nodepool_ocb.model.pool import NodeRequest, PoolNodeState, RequestState
from nodepool_ocb.pool.configuration import PoolConfiguration
from nodepool_ocb.pool.deciding import decide
from nodepool_ocb.pool.instructions import DeclineRequest
from nodepool_ocb.pool.views import RequestView
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.pool.tables import RequestTable
from tests.launcher.launcher_fleet import LauncherFleet
from tests.pool.poolworld import configuration, held, launcher, members, pool, request, view
from tests.store.pool.test_pool_cache import add_request
from tests.store.pool.test_pool_writes import Launcher


def asked(fleet: LauncherFleet, size: int) -> str:
    """A request with a record of about so many bytes."""
    return fleet.request("small", requestor_data="x" * (size - 800))


def test_a_request_without_room_for_its_nodes_fails_one_time_with_the_reason(launchers: LauncherFleet) -> None:
    fleet = launchers
    fleet.launcher(fleet.cloud("north")).start()
    fleet.fulfilled(fleet.request("small"))
    large = [asked(fleet, limits.REQUEST_BYTES + 2000), asked(fleet, limits.FAILED_BYTES - 200)]
    for id in large:
        record = fleet.until_state(id, RequestState.FAILED)
        assert record.reason is not None
        assert f"launchers serve records of at most {limits.REQUEST_BYTES}" in record.reason
        assert set(record.requestor_data) == {"x"}, "it is stored unchanged"
    fleet.fulfilled(asked(fleet, limits.REQUEST_BYTES - 2000))


def test_a_request_without_room_for_any_answer_is_left_out_and_others_are_served(launchers: LauncherFleet) -> None:
    fleet = launchers
    started = fleet.launcher(fleet.cloud("north")).start()
    full = asked(fleet, limits.RECORD_BYTES)
    before = fleet.session.get(paths.request(full))
    assert before is not None
    assert limits.FAILED_BYTES < len(before.data) <= limits.RECORD_BYTES
    fleet.fulfilled(fleet.request("small"))
    fleet.until(lambda: started.metric("nodepool_ocb_quarantined") == 1, "it is counted")
    after = fleet.session.get(paths.request(full))
    assert after is not None
    assert after.version == before.version == 0
    table = RequestTable()
    table.read(fleet.session, [full])
    assert f"nodepool-ocb record delete {paths.request(full)}" in table.quarantined[paths.request(full)]


def test_the_node_of_a_client_that_filled_its_record_is_deleted(launchers: LauncherFleet) -> None:
    fleet = launchers
    fleet.launcher(fleet.cloud("north")).start()
    id = fleet.request("small")
    fleet.fulfilled(id)
    locks = fleet.take(id)
    (node,) = fleet.nodes()
    room = limits.RECORD_BYTES - len(fleet.znode(node).data)
    fleet.mark(node, PoolNodeState.USED, user_data="x" * (room - 20))
    fleet.locks.release(locks[0])
    fleet.until(lambda: not fleet.nodes(), "the node is deleted")
    assert fleet.machines("north") == []


@pytest.fixture
def two() -> PoolConfiguration:
    return configuration(pool("main", "small"))


def failing(wanted: PoolConfiguration, each: RequestView, session: int, *sessions: int) -> list[Any]:
    """The steps for this request by one of these launchers."""
    seen = view(wanted, each, members=members(wanted, *sessions))
    return list(decide(seen, wanted, launcher(wanted, session), 1_000_000.0).steps)


def test_one_of_two_launchers_fails_a_large_request(two: PoolConfiguration) -> None:
    large = request("1", "small", bytes=limits.REQUEST_BYTES + 1)
    steps = [step for session in (1, 2) for step in failing(two, large, session, 1, 2)]
    assert [(type(step), step.failed) for step in steps] == [(DeclineRequest, True)]
    mine = held("1", "small", bytes=limits.REQUEST_BYTES + 1)
    assert [type(step) for step in failing(two, mine, 1, 1, 2)] == [DeclineRequest]
    assert all(
        not isinstance(step, DeclineRequest)
        for step in failing(two, request("1", "small", bytes=limits.REQUEST_BYTES), 1, 1)
    )


def test_pools_of_launchers_that_ended_do_not_fill_a_request(zk_session: Session) -> None:
    served = Launcher(zk_session)
    ids = [f"host-PoolWorker.{'p' * 100}-main-{number:032x}" for number in range(2000)]
    id = add_request(zk_session)
    served.requests.claim(served.request(id))
    served.requests.decline(served.request(id), ids, "r" * 100_000)
    znode = zk_session.get(paths.request(id))
    assert znode is not None
    assert len(znode.data) < limits.RECORD_BYTES - limits.REQUEST_BYTES
    assert codec.decode(NodeRequest, znode).declined_by[-1] == ids[-1]
