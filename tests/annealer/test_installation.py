"""The installation of seed 000, with the hooks that docs/hooks.md shows: once, and each discovery role once after it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nodepool_ocb.engine import liveness
from nodepool_ocb.model import paths
from nodepool_ocb.model.aliveness import Marker
from nodepool_ocb.model.records import State
from nodepool_ocb.testing.processes import CutDaemon
from nodepool_ocb.testing.zookeeper.server import Server
from tests.docs.pages import ROOT, blocks
from tests.journeys.fleet import Fleet
from tests.stories.test_annealer import package

INSTALL, DHCP = "provisioner-os-install", "provisioner-dhcp-database"


@pytest.fixture
def two(zookeeper: Server, chroot: str, tmp_path: Path) -> Iterator[Fleet]:
    """The first machine is to be installed, the second has the DHCP server."""
    with Fleet(zookeeper, chroot, tmp_path, machines=2) as fleet:
        yield fleet


def hooks_of_the_page() -> str:
    (shown,) = [each.text for each in blocks(ROOT / "docs/hooks.md") if "class ProvisionerOsInstall" in each.text]
    return shown


def discovered(fleet: Fleet) -> tuple[CutDaemon, list[str], str]:
    """An annealer, the discovery roles of the machine, which have run once, and the noderole of the database, which has too."""
    machine, server = fleet.nodes
    for role in ("ohai", "managed"):
        fleet.add_role(role, fleet.work(0.0, flags=("discovery",)))
    fleet.add_role(DHCP, fleet.work(0.0, hooks=("on_node_change",)))
    fleet.add_role(INSTALL, fleet.work(0.0, 'touch "$HOME/reboot"', flags=("destructive",), hooks=("on_active",)))
    ohai, database = fleet.bind("ohai", machine), fleet.bind(DHCP, server)
    managed = fleet.bind("managed", machine, [ohai])
    folder = package(fleet.folder / "site", hooks_of_the_page(), (INSTALL, DHCP))
    annealer = fleet.annealer(sweep_seconds=1.0, probe_seconds=1.0).begin(PYTHONPATH=str(folder))
    fleet.until_all_active()
    return annealer, [ohai, managed], database


def says(fleet: Fleet, **word: Any) -> None:
    """The machine, of itself."""
    machine = fleet.nodes[0]
    fleet.write(
        lambda world: liveness.changed(
            world, world.nodes[machine], fleet.session.now(), machine, marker=Marker.MACHINE, **word
        )
    )


def version(fleet: Fleet, path: str) -> int:
    znode = fleet.session.get(path)
    assert znode is not None
    return znode.version


def written(fleet: Fleet, noderoles: list[str]) -> int:
    """How often the machine and all noderoles were written."""
    places = [paths.noderole(*paths.split_noderole(name)) for name in noderoles]
    return sum(version(fleet, place) for place in (paths.node(fleet.nodes[0]), *places))


def test_a_machine_is_installed_once_and_each_discovery_role_runs_once_after_it(two: Fleet) -> None:
    fleet, (machine, server) = two, two.nodes
    annealer, discovery, database = discovered(fleet)
    system = paths.system(DHCP, server)
    install = fleet.bind(INSTALL, machine, [discovery[-1]])
    everything = [*discovery, database, install]
    before = written(fleet, [*discovery, database])
    fleet.until(lambda: fleet.starts()[database] == 2 and fleet.state(database) is State.ACTIVE, "the database is told")
    assert fleet.blob(system) == {"bootenvs": {machine: "installer"}}
    assert (fleet.node(machine).alive, fleet.state(discovery[0])) == (False, State.TODO)
    fleet.farm.kill(0)
    fleet.farm.lose_state(0)  # the disk is written anew
    says(fleet, bootenv="local")
    fleet.until(lambda: fleet.starts()[database] == 3 and fleet.state(database) is State.ACTIVE, "it is told again")
    assert fleet.blob(system) == {"bootenvs": {machine: "local"}}
    fleet.farm.start_another(0)
    says(fleet, alive=True)
    fleet.until_all_active()
    fleet.until(lambda: fleet.node(machine).host_keys and not fleet.node(machine).hooks, "its new key is pinned")
    total, sweeps = written(fleet, everything), annealer.metric("nodepool_ocb_sweeps_total")
    fleet.until(lambda: annealer.metric("nodepool_ocb_sweeps_total") > sweeps + 2, "it looks at everything, often")
    assert fleet.starts() == {discovery[0]: 2, discovery[1]: 2, database: 3, install: 1}
    assert written(fleet, everything) == total, "and writes no more"
    assert total - before <= 30
    assert not fleet.faults()
