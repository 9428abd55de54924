"""A node record that becomes unreadable: its machine stays and counts, and other requests go on."""

from __future__ import annotations

import threading
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

from nodepool_ocb.model import paths
from nodepool_ocb.model.pool import RequestState
from nodepool_ocb.model.records import Set
from nodepool_ocb.pool.idle.leaks import LeakSightings
from nodepool_ocb.providers.machines import Machine, MachineStamp
from nodepool_ocb.views.history.pooling import EntryAuthor
from nodepool_ocb_launcher.upkeep import ProviderUpkeep
from tests.launcher.launcher_fleet import LauncherFleet


def test_after_a_restart_a_spoiled_record_counts_at_the_provider_with_its_machine(launchers: LauncherFleet) -> None:
    cloud = launchers.cloud("north", max_servers=2)
    first = launchers.launcher(cloud).start()
    request = launchers.request("small")
    launchers.fulfilled(request)
    (spoiled,) = launchers.nodes()
    first.terminate()
    assert first.wait(10.0) == 0
    path = paths.pool_node(spoiled)
    launchers.session.commit([Set(path, {"schema": 9, "state": "thawing"}, launchers.znode(spoiled).version)])
    second = launchers.launcher(cloud, leak_seconds=0.2).start()
    launchers.until(lambda: launchers.calls("north").count("list") >= 3, "the machines are listed")
    others = [launchers.request("small") for _ in range(2)]

    def states() -> list[RequestState]:
        return [record.state for each in others if (record := launchers.read(each)) is not None]

    launchers.until(lambda: RequestState.FULFILLED in states(), "one request goes on")
    listed = launchers.calls("north").count("list")
    launchers.until(lambda: launchers.calls("north").count("list") >= listed + 3, "time for another launch passes")
    assert states().count(RequestState.FULFILLED) == 1
    assert len(launchers.machines("north")) == 2
    assert launchers.session.get(path) is not None
    assert second.running()


def _compared(unreadable: set[str]) -> tuple[ProviderUpkeep, list[str]]:
    """A leak that was seen long ago is listed once more; gives the machines that are deleted."""
    stamp = MachineStamp(cluster="ours", provider="north", pool="main", node="0000000007", key="5f")
    machine = Machine(external_id="m7", name="m7", stamp=stamp)
    deleted: list[str] = []
    calls = SimpleNamespace(delete=lambda id, _stamp: deleted.append(id))
    session = SimpleNamespace(now=lambda: 1000.0)
    noted = SimpleNamespace(commit=lambda _changes, _entry: None)
    author = partial(EntryAuthor, "h", 1000.0)
    context = SimpleNamespace(
        cluster="ours", session=session, records=lambda: ({}, unreadable), author=author, journal=noted
    )
    upkeep = ProviderUpkeep(cast(Any, context), threading.Event().set, lambda act: act())
    upkeep._sightings["north"] = LeakSightings(since={("m7", "5f"): 0.0})
    upkeep._compare("north", cast(Any, calls), (machine,))
    upkeep.wait(10.0)
    return upkeep, deleted


def test_the_machine_of_an_unreadable_record_is_no_leak() -> None:
    assert _compared(set())[1] == ["m7"]
    upkeep, deleted = _compared({"0000000007"})
    assert deleted == []
    assert upkeep.tagged == {"north": {"0000000007": "main"}}
