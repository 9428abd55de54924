"""Launchers side by side: one is killed, drained, cut off or reloaded, or its provider hangs."""

from __future__ import annotations

import json
import socket

import pytest

from nodepool_ocb.model import paths
from nodepool_ocb.model.maintenance import Maintenance
from nodepool_ocb.model.pool import PoolComponent, PoolNodeState
from nodepool_ocb.model.records import Create, DaemonPause, Delete
from nodepool_ocb.store import daemons, journal
from nodepool_ocb.store.client import codec
from tests.launcher.launcher_fleet import LauncherFleet


def components(fleet: LauncherFleet) -> list[PoolComponent]:
    folder = paths.components("pool")
    names = fleet.session.children(folder) or []
    found = fleet.session.get_many([f"{folder}/{name}" for name in names])
    return [codec.decode(PoolComponent, znode) for znode in found if znode is not None]


def test_two_launchers_serve_many_requests_and_no_node_is_given_twice(launchers: LauncherFleet) -> None:
    cloud = launchers.cloud("north", max_servers=6)
    for _ in range(2):
        launchers.launcher(cloud).start()
    requests = [launchers.request("small") for _ in range(6)]
    nodes = [launchers.fulfilled(each)[0].external_id for each in requests]
    assert len(set(nodes)) == 6
    assert len(launchers.machines("north")) == 6
    late = launchers.request("small")
    launchers.give_back(requests[0], launchers.take(requests[0]))
    launchers.fulfilled(late, 60.0)


@pytest.mark.long
def test_the_launches_of_a_killed_launcher_are_continued_by_another(launchers: LauncherFleet) -> None:
    cloud = launchers.cloud("north", options={"boot-seconds": 6})
    first = launchers.launcher(cloud).start()
    request = launchers.request("small")
    launchers.until(lambda: launchers.machines("north"), "the machine builds")
    first.kill()
    launchers.launcher(cloud).start()
    (node,) = launchers.fulfilled(request, 60.0)
    (machine,) = launchers.machines("north")
    assert node.external_id == machine["machine"]["external_id"]
    assert launchers.calls("north").count("create") == 1


@pytest.mark.long
def test_a_launcher_that_drains_leaves_its_launches_at_once_and_its_registrations_go(launchers: LauncherFleet) -> None:
    cloud = launchers.cloud("north", options={"boot-seconds": 6})
    first = launchers.launcher(cloud).start()
    request = launchers.request("small")
    launchers.until(lambda: launchers.machines("north"), "the machine builds")
    first.terminate()
    assert first.wait(10.0) == 0
    assert components(launchers) == []
    assert daemons.read(launchers.session, "launcher") == {}
    launchers.launcher(cloud).start()
    launchers.fulfilled(request, 60.0)
    assert launchers.calls("north").count("create") == 1


def test_a_launcher_that_lost_its_session_goes_on_in_a_new_one(launchers: LauncherFleet) -> None:
    launcher = launchers.launcher(launchers.cloud("north")).start()
    launchers.fulfilled(launchers.request("small"))
    before = [each.id for each in components(launchers)]
    launcher.proxy.cut()
    launchers.until(lambda: not components(launchers), "its session is over")
    launcher.proxy.heal()
    launchers.fulfilled(launchers.request("small"), 60.0)
    assert [each.id for each in components(launchers)] == before


def test_a_changed_file_is_taken_over_and_a_faulty_one_is_refused(launchers: LauncherFleet) -> None:
    launcher = launchers.launcher(launchers.cloud("north")).start()
    launchers.configure(launcher, launchers.cloud("north", "small", "big"), labels=[{"name": "small"}, {"name": "big"}])
    launchers.until(lambda: components(launchers)[0].supported_labels == ("big", "small"), "the label is offered")
    launchers.fulfilled(launchers.request("big"))
    launchers.configure(launcher, {"name": "north", "driver": "fake", "pools": 7})
    launcher.reload()
    launchers.until(lambda: "the former one stays in use" in launcher.said, "it is refused")
    launchers.fulfilled(launchers.request("big"))


def test_min_ready_nodes_are_launched_by_one_of_the_launchers(launchers: LauncherFleet) -> None:
    cloud = launchers.cloud("north")
    for _ in range(2):
        launchers.launcher(cloud, labels=[{"name": "small", "min-ready": 2}])
    for each in launchers.launchers:
        each.start()
    launchers.until(lambda: len(launchers.nodes(PoolNodeState.READY)) == 2, "two nodes are ready")
    assert len(launchers.machines("north")) == 2
    (node,) = launchers.fulfilled(launchers.request("small"))
    launchers.until(lambda: len(launchers.nodes(PoolNodeState.READY)) == 3, "the taken one is replaced")
    assert node.state is PoolNodeState.READY


def test_a_provider_that_hangs_delays_no_other(launchers: LauncherFleet) -> None:
    slow = launchers.cloud("south", "huge")
    launchers.faults("south", {"call": "create", "do": "hang", "seconds": 60})
    labels = [{"name": "small"}, {"name": "huge"}]
    launchers.launcher(launchers.cloud("north"), slow, labels=labels).start()
    for _ in range(3):
        launchers.request("huge")
    launchers.until(lambda: launchers.calls("south").count("create") == 3, "its calls hang")
    for _ in range(3):
        launchers.fulfilled(launchers.request("small"), 5.0)


@pytest.mark.parametrize("party", ["machine", "provider"])
def test_a_failed_launch_is_tried_again_and_leaves_no_machine(launchers: LauncherFleet, party: str) -> None:
    cloud = launchers.cloud("north")
    launchers.faults("north", {"call": "create", "do": "refuse", "at": [1], "when": "after", "party": party})
    launchers.launcher(cloud).start()
    launchers.fulfilled(launchers.request("small"), 60.0)
    launchers.until(lambda: len(launchers.machines("north")) == 1, "the machine of the first try is deleted")


def test_a_paused_launcher_begins_nothing_until_it_is_resumed(launchers: LauncherFleet) -> None:
    launchers.launcher(launchers.cloud("north")).start()
    path = paths.daemon_pause("launcher", socket.gethostname())
    launchers.session.ensure(paths.daemon_pauses("launcher"))
    pause = Maintenance(reason="a change of the network", by="ann", since=launchers.session.now())
    launchers.session.commit([Create(path, DaemonPause(pause=pause))])
    launchers.until(lambda: components(launchers)[0].paused, "its pools are paused")
    request = launchers.request("small")

    def registered() -> bool:
        (daemon,) = daemons.read(launchers.session, "launcher").values()
        return daemon is not None and daemon.paused is not None

    launchers.until(registered, "its registration says so, too")
    launchers.session.commit([Delete(path, 0)])
    launchers.fulfilled(request)
    assert launchers.calls("north").count("create") == 1


@pytest.mark.long
def test_a_machine_that_no_record_names_is_deleted_and_others_stay(launchers: LauncherFleet) -> None:
    launchers.launcher(launchers.cloud("north"), leak_seconds=1.0).start()
    launchers.fulfilled(launchers.request("small"))
    (kept,) = launchers.machines("north")
    folder = launchers.folder / "clouds" / "north" / "machines"
    for name, part in (("lost", {"key": "other"}), ("foreign", {"cluster": "other"})):
        machine = {**kept["machine"], "external_id": name, "stamp": {**kept["machine"]["stamp"], **part}}
        (folder / f"{name}.json").write_text(json.dumps({**kept, "machine": machine}))
    launchers.until(lambda: not (folder / "lost.json").exists(), "the leak is deleted", 120.0)
    assert len(launchers.machines("north")) == 2

    def entries() -> list[tuple[str, tuple[str, ...]]]:
        found = journal.read(launchers.session, journal.numbers(launchers.session, pool=True), pool=True)
        return [(each.entry.verb, each.entry.subjects) for each in found if each.entry is not None]

    (node,) = launchers.nodes()
    launchers.until(lambda: ("delete leak", ("lost", node)) in entries(), "the journal has it")


def test_the_machine_of_a_launcher_that_lost_its_session_during_a_creation_goes_to_another(
    launchers: LauncherFleet,
) -> None:
    cloud = launchers.cloud("north")
    launchers.faults("north", {"call": "create", "do": "hang", "at": [1], "when": "after", "seconds": 60})
    first = launchers.launcher(cloud).start()
    request = launchers.request("small")
    launchers.until(lambda: launchers.machines("north"), "the machine exists, and its creation does not end")
    first.proxy.cut()
    launchers.launcher(cloud).start()
    (node,) = launchers.fulfilled(request, 60.0)
    first.proxy.heal()
    launchers.until(lambda: len(components(launchers)) == 2, "it is back")
    (machine,) = launchers.machines("north")
    assert node.external_id == machine["machine"]["external_id"]
    assert launchers.calls("north").count("create") == 1
    launchers.until(lambda: first.metric("nodepool_ocb_work_failures_total") == 0.0, "no work of it failed")
