"""A provider that refuses launches for a quota that it does not report: few orders, and a free machine ends the wait."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from nodepool_ocb.model.pool import PoolNode, PoolNodeState, RequestState, launch_facts
from nodepool_ocb.pool.launches.refusals import FIRST_SECONDS
from tests.launcher.launcher_fleet import LauncherFleet


def test_a_full_provider_gets_one_order_more_for_each_machine_that_goes(launchers: LauncherFleet) -> None:
    options = {"quota": {"instances": 1}, "reported-quota": {}}
    launchers.launcher(launchers.cloud("north", options=options)).start()
    first = launchers.request("small")
    launchers.fulfilled(first)
    others = [launchers.request("small") for _ in range(4)]
    launchers.until(lambda: launchers.nodes(PoolNodeState.ABORTED), "the provider refuses")
    launchers.until(lambda: not launchers.nodes(PoolNodeState.INIT, PoolNodeState.BUILDING), "the launches are over")
    launchers.until(_steady(lambda: launchers.calls("north").count("create")), "no order more for a second")
    orders, refused = launchers.calls("north").count("create"), launchers.nodes(PoolNodeState.ABORTED)
    for node in refused.values():
        facts = launch_facts(node)
        assert facts is not None
        assert (facts.party, facts.beside) == ("quota", 1)
        assert facts.refusals <= 1 + _tries(launchers, refused)
    launchers.give_back(first, launchers.take(first))
    launchers.until(lambda: any(_fulfilled(launchers, each) for each in others), "a launch is tried at once", 8.0)
    assert launchers.calls("north").count("create") <= orders + 3 + _tries(launchers, refused)


def _steady(number: Callable[[], int]) -> Callable[[], bool]:
    """Whether a number has been the same for a second."""
    seen = [(number(), time.monotonic())]

    def same() -> bool:
        if (now := number()) != seen[-1][0]:
            seen.append((now, time.monotonic()))
        return time.monotonic() > seen[-1][1] + 1.0

    return same


def _tries(launchers: LauncherFleet, refused: Mapping[str, PoolNode]) -> int:
    """The launches that the time since the first refusal permits; none on a host that is not busy."""
    return int((launchers.session.now() - min(each.state_time for each in refused.values())) / FIRST_SECONDS)


def _fulfilled(launchers: LauncherFleet, request: str) -> bool:
    record = launchers.read(request)
    return record is not None and bool(record.nodes)


def test_the_quota_is_read_before_the_first_launch(launchers: LauncherFleet) -> None:
    launchers.launcher(launchers.cloud("north", options={"reported-quota": {"instances": 0}})).start()
    launchers.until(lambda: "quota" in launchers.calls("north"), "the quota is read")
    record = launchers.until_state(launchers.request("small"), RequestState.FAILED)
    assert "quota" in (record.reason or "").lower()
    assert "create" not in launchers.calls("north")
