"""What is deleted and made again under the same name: its machine, which forgets nothing, never takes it for the first."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner

from nodepool_ocb.cli.main import cli
from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.engine.noderole import Event
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Node, Role, Set, State, Structure
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.world.load import load_world
from tests.journeys.fleet import DEPLOYMENT, Fleet
from tests.journeys.history import Event as Noted

Ocb = Callable[[str], None]


@pytest.fixture
def ocb(fleet: Fleet, zk_settings: ZooKeeperSettings, monkeypatch: pytest.MonkeyPatch) -> Ocb:
    """Run a line of the command line, which must succeed."""
    monkeypatch.setenv("NODEPOOL_OCB_ZOOKEEPER", zk_settings.hosts)
    assert fleet.session.get(paths.CLUSTER) is not None

    def run(line: str, *more: str) -> None:
        result = CliRunner().invoke(cli, [*line.split(), *more], prog_name="nodepool-ocb")
        assert result.exit_code == 0, (line, result.output)

    return run


def life(fleet: Fleet, number: int) -> Role:
    """A role whose script says in which life it ran; it stays the same role for the machine."""
    return Role(barclamp="fleet", jig="script", script=f"echo {number} >>{fleet.folder}/lives\n")


def lives(fleet: Fleet) -> list[int]:
    return [int(word) for word in (fleet.folder / "lives").read_text().split()]


def refreshed(fleet: Fleet, noderole: str, times: int) -> None:
    """Runs that often, so that the machine knows later generations and epochs than a new noderole's first."""
    for _ in range(times):
        before = fleet.record(noderole).generation
        fleet.happens(noderole, Event.REFRESH)
        fleet.until(partial(_done, fleet, noderole, before), f"{noderole} ran again")


def _done(fleet: Fleet, noderole: str, before: int) -> bool:
    record = fleet.record(noderole)
    return record.state is State.ACTIVE and not record.refresh and record.generation > before


def test_a_node_that_is_deleted_and_created_again_runs_its_new_script_once_and_no_order_is_refused(
    fleet: Fleet, ocb: Ocb
) -> None:
    fqdn, machine = fleet.farm.records()[0]
    fleet.add_role("setup", life(fleet, 1))
    noderole = fleet.bind("setup", fqdn)
    fleet.annealer().begin()
    fleet.until_state(noderole, State.ACTIVE)
    refreshed(fleet, noderole, 2)
    before = fleet.record(noderole)
    ocb(f"node delete {fqdn} --yes")
    fleet.session.commit([Set(paths.role("setup"), life(fleet, 2), 0)])
    ocb(
        f"node create {fqdn} --deployment {DEPLOYMENT} --address {machine.addresses[0]} --user {machine.user}",
        "--host-key", machine.host_keys[0],
    )  # fmt: skip
    ocb(f"node bind {fqdn} setup")
    ocb(f"node commit {fqdn}")
    fleet.until_state(noderole, State.ACTIVE)
    after = fleet.record(noderole)
    assert lives(fleet) == [1, 1, 1, 2]
    assert fleet.noted(Noted.FENCED)[noderole] == 0
    assert fleet.noted(Noted.ADOPTED)[noderole] == 0
    assert [run.outcome for run in fleet.runs(noderole).values()] == ["succeeded"]
    assert after.generation > before.generation
    assert after.epoch > before.epoch
    assert load_world(fleet.session).nodes[fqdn].epoch == after.epoch


def test_a_noderole_that_is_unbound_and_bound_again_runs_again(fleet: Fleet, ocb: Ocb) -> None:
    fqdn = fleet.nodes[0]
    fleet.add_role("setup", life(fleet, 1))
    noderole = fleet.bind("setup", fqdn)
    fleet.annealer().begin()
    fleet.until_state(noderole, State.ACTIVE)
    ocb(f"noderole unbind {noderole} --yes")
    fleet.session.commit([Set(paths.role("setup"), life(fleet, 2), 0)])
    ocb(f"node bind {fqdn} setup")
    ocb(f"noderole commit {noderole}")
    fleet.until_state(noderole, State.ACTIVE)
    assert lives(fleet) == [1, 2]
    assert fleet.noted(Noted.ADOPTED)[noderole] == 0


def test_a_machine_that_another_node_ordered_before_tells_how_to_get_out_and_that_way_works(
    fleet: Fleet, ocb: Ocb
) -> None:
    fqdn = fleet.nodes[0]
    fleet.add_role("setup", life(fleet, 1))
    noderole = fleet.bind("setup", fqdn)
    state = fleet.farm.state_dir(fqdn)
    state.mkdir()
    (state / "epoch.0").write_text("90 other@1 90\n")
    fleet.annealer().begin()
    fleet.until_state(noderole, State.ERROR)
    reason = fleet.record(noderole).reason or ""
    assert "epoch 90" in reason
    assert "remove the directory ssh.state_dir" in reason
    state.rename(state.with_name("away"))
    ocb(f"noderole retry {noderole}")
    fleet.until_state(noderole, State.ACTIVE)
    assert lives(fleet) == [1]


def test_what_is_deleted_leaves_its_highest_numbers_and_nothing_else(fleet: Fleet, ocb: Ocb) -> None:
    fqdn = fleet.nodes[0]
    fleet.add_role("setup", life(fleet, 1))
    noderole = fleet.bind("setup", fqdn)
    fleet.annealer().begin()
    fleet.until_state(noderole, State.ACTIVE)
    refreshed(fleet, noderole, 1)
    ocb(f"node delete {fqdn} --yes")
    fleet.until(lambda: fleet.session.get(paths.node(fqdn)) is None, "the node is gone")
    znode = fleet.session.get(paths.STRUCTURE)
    assert znode is not None
    assert codec.decode(Structure, znode) == Structure(generation=2, epoch=3)
    ocb("node create other.example.com --no-address")
    made = load_world(fleet.session).nodes["other.example.com"].record
    assert isinstance(made, Node)
    assert made.epoch_base == 3


def test_a_machine_that_is_reinstalled_is_alive_again_when_a_first_contact_is_asked_for(fleet: Fleet, ocb: Ocb) -> None:
    fqdn = fleet.nodes[0]
    fleet.annealer(probe_seconds=0.3).begin()
    key = fleet.folder / "machines/m0/host_key"
    for _ in range(2):  # the key that was given, and one that was seen
        before = fleet.node(fqdn).host_keys
        reinstalled(fleet, key)
        fleet.until(lambda: not fleet.node(fqdn).alive, "its key is not the one that is pinned")
        assert fleet.node(fqdn).host_keys == before
        ocb(f"node set {fqdn} host_keys=")
        fleet.until(lambda: fleet.node(fqdn).alive, "it is alive")
        assert list(fleet.node(fqdn).host_keys) == [" ".join(key.with_suffix(".pub").read_text().split()[:2])]


def test_a_node_that_is_made_again_for_another_machine_at_the_same_address_is_a_first_contact(
    fleet: Fleet, ocb: Ocb
) -> None:
    fqdn, address = fleet.nodes[0], fleet.node(fleet.nodes[0]).addresses[0]
    fleet.annealer(probe_seconds=0.3).begin()
    fleet.set_node(fqdn, host_keys=())
    fleet.until(lambda: fleet.node(fqdn).host_keys, "its key was seen, and is pinned")
    ocb(f"node delete {fqdn} --yes")
    reinstalled(fleet, fleet.folder / "machines/m0/host_key")
    ocb(f"node create {fqdn} --deployment {DEPLOYMENT} --address {address} --user {fleet.farm.records()[0][1].user}")
    fleet.until(lambda: fleet.node(fqdn).alive, "it is alive")


def reinstalled(fleet: Fleet, key: Path) -> None:
    """The machine ``m0`` has another host key from here on."""
    fleet.farm.kill(0)
    key.unlink()
    key.with_suffix(".pub").unlink(missing_ok=True)
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", key], check=True)
    fleet.farm.start(0)
