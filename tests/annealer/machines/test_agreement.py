"""A machine is dead by agreement, and an annealer that is wrong about machines says that it is at fault itself."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Daemon, State
from nodepool_ocb.store.client import codec
from nodepool_ocb.testing.processes import CutDaemon
from nodepool_ocb.testing.zookeeper.server import Server
from tests.annealer.machines.test_host_faults import SICK, not_ready
from tests.journeys.fleet import Fleet

MACHINES = 20


@pytest.fixture
def many(zookeeper: Server, chroot: str, tmp_path: Path) -> Iterator[Fleet]:
    with Fleet(zookeeper, chroot, tmp_path, machines=MACHINES) as fleet:
        yield fleet


@pytest.fixture
def two(zookeeper: Server, chroot: str, tmp_path: Path) -> Iterator[Fleet]:
    with Fleet(zookeeper, chroot, tmp_path, machines=2) as fleet:
        yield fleet


def with_key(annealer: CutDaemon, key: Path) -> CutDaemon:
    """The same with this private key, not started yet."""
    settings = yaml.safe_load(annealer.config.read_text())
    settings["ssh"]["key_files"] = [str(key)]
    annealer.config.write_text(yaml.safe_dump(settings))
    return annealer


def registered(fleet: Fleet) -> list[Daemon]:
    names = fleet.session.children(paths.daemons("annealer")) or ()
    znodes = fleet.session.get_many([paths.daemon("annealer", name) for name in names])
    return [codec.decode(Daemon, znode) for znode in znodes if znode]


def test_an_annealer_whose_key_no_machine_takes_kills_none_beside_a_good_one_and_says_what_it_is(many: Fleet) -> None:
    fleet = many
    fleet.add_role("wipe", fleet.work(0.0, flags=("destructive",)))
    since = {node: fleet.node(node).since for node in fleet.nodes}
    good = fleet.annealer(probe_seconds=1.0).start()
    key = fleet.folder / "bad"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    bad = with_key(fleet.annealer(probe_seconds=1.0), key).begin()
    fleet.until(lambda: fleet.living() == 2, "both are there")
    noderoles = [fleet.bind("wipe", node) for node in fleet.nodes]
    fleet.until_all_active(90.0)
    fleet.until(lambda: "no machine takes my key" in not_ready(bad), "it says that it is at fault", 60.0)
    fleet.until(lambda: any("no machine takes my key" in (each.trouble or "") for each in registered(fleet)), "to all")
    failed = 'nodepool_ocb_probes_total{outcome="failed"}'
    before = bad.metric(failed)
    fleet.until(lambda: bad.metric(failed) >= before + 3, "it tries again and again")
    assert all(fleet.starts()[noderole] == 1 for noderole in noderoles)
    assert {node: fleet.node(node).since for node in fleet.nodes} == since, "no node was dead at any time"
    fleet.until(lambda: not any(fleet.node(node).suspicion for node in fleet.nodes), "no suspicion is left")
    assert good.ready()
    key.write_bytes(Path(fleet.farm.settings()["key_files"][0]).read_bytes())
    fleet.until(bad.ready, "a good key is found by itself", 60.0)
    assert not fleet.faults()


@pytest.mark.parametrize("busy", [True, False], ids=["runs", "probes"])
def test_an_annealer_that_is_alone_with_a_key_that_no_machine_takes_kills_none_and_is_not_ready(
    two: Fleet, busy: bool
) -> None:
    fleet = two
    fleet.add_role("first", fleet.work(0.0))
    since = {node: fleet.node(node).since for node in fleet.nodes}
    key = fleet.folder / "bad"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    noderoles = [fleet.bind("first", node) for node in fleet.nodes] if busy else []
    bad = with_key(fleet.annealer(probe_seconds=1.0), key).begin()
    fleet.until(lambda: "no machine takes my key" in not_ready(bad), "it says that it is at fault", 60.0)
    assert f"offered: {key}; see that user's authorized_keys" in not_ready(bad)
    fleet.until(lambda: any("no machine takes my key" in (each.trouble or "") for each in registered(fleet)), "to all")
    failed = 'nodepool_ocb_probes_total{outcome="failed"}'
    before = bad.metric(failed)
    fleet.until(lambda: bad.metric(failed) >= before + 3, "it tries again and again")
    assert {node: fleet.node(node).since for node in fleet.nodes} == since, "no node was dead at any time"
    key.write_bytes(Path(fleet.farm.settings()["key_files"][0]).read_bytes())
    fleet.until(bad.ready, "a good key is found by itself", 60.0)
    fleet.until_all_active(90.0)
    assert all(fleet.starts()[noderole] == 1 for noderole in noderoles)
    assert {node: fleet.node(node).since for node in fleet.nodes} == since, "nor after that"
    assert not fleet.faults()


def test_one_machine_that_refuses_the_key_of_an_annealer_that_is_alone_is_dead_with_the_name_of_the_key(
    two: Fleet,
) -> None:
    fleet = two
    config = fleet.farm.directory / "m0/sshd_config"
    config.write_text(config.read_text().replace("AuthorizedKeysFile ", "AuthorizedKeysFile /none"))
    fleet.farm.kill(0)
    fleet.farm.start(0)
    annealer = fleet.annealer(probe_seconds=1.0).begin()
    refusing, well = fleet.nodes
    fleet.until(lambda: not fleet.node(refusing).alive, "it is found dead", 60.0)
    assert f"offered: {fleet.farm.settings()['key_files'][0]}" in (fleet.node(refusing).reason or "")
    assert annealer.ready()
    assert fleet.node(well).alive


def test_a_machine_that_two_annealers_do_not_reach_is_dead(two: Fleet) -> None:
    fleet = two
    annealers = [fleet.annealer(probe_seconds=1.0).start() for _ in range(2)]
    fleet.farm.kill(0)
    dead, well = fleet.nodes
    fleet.until(lambda: not fleet.node(dead).alive, "it is found dead", 60.0)
    node = fleet.node(dead)
    assert (node.reason or "").startswith("connect:")
    assert node.suspicion is None
    assert sum("others are asked to look" in annealer.said for annealer in annealers) == 1
    assert all(annealer.ready() for annealer in annealers)
    assert fleet.node(well).alive


def test_where_the_other_annealer_is_not_ready_one_is_enough(two: Fleet) -> None:
    fleet = two
    with_key(fleet.annealer(), fleet.folder / "missing").begin()
    fleet.until(lambda: any(each.trouble for each in registered(fleet)), "it has no key, and says so")
    fleet.annealer(probe_seconds=1.0).start()
    fleet.farm.kill(0)
    fleet.until(lambda: not fleet.node(fleet.nodes[0]).alive, "it is found dead", 60.0)


def test_an_annealer_whose_turns_fail_says_so_and_is_not_asked_whether_a_machine_is_dead(two: Fleet) -> None:
    fleet = two
    fleet.annealer(probe_seconds=1.0).start()
    mark = fleet.folder / "sick"
    mark.touch()
    sick = fleet.annealer(launcher=SICK).begin(SICK="turn", SICK_FILE=str(mark))
    wrong = "its turns fail: OSError: no room at all"
    fleet.until(lambda: wrong in [each.trouble for each in registered(fleet)], "it says so to all")
    assert "no room at all" in not_ready(sick)
    fleet.farm.kill(0)
    fleet.until(lambda: not fleet.node(fleet.nodes[0]).alive, "it is found dead", 60.0)
    mark.unlink()
    fleet.until(lambda: [each.trouble for each in registered(fleet)] == [None, None], "its turns go well again", 90.0)
    fleet.until(sick.ready, "and it is ready")


@pytest.mark.long
def test_a_machine_that_dies_in_a_run_under_one_of_two_is_dead_and_its_run_is_done_anew_when_it_is_back(
    two: Fleet,
) -> None:
    fleet = two
    fleet.add_role("long", fleet.work(2.0))
    for _ in range(2):
        fleet.annealer(probe_seconds=1.0).start()
    noderole = fleet.bind("long", fleet.nodes[0])
    fleet.until_started(noderole)
    fleet.farm.kill(0)
    fleet.until(lambda: not fleet.node(fleet.nodes[0]).alive, "it is found dead", 60.0)
    fleet.farm.start(0)
    fleet.until_state(noderole, State.ACTIVE, 60.0)
    assert not fleet.faults()
