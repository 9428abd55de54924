"""A machine registers, a rule makes its node, and its roles wait for those that test it: with a real annealer and sshd."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from msgspec.structs import replace

from nodepool_ocb.catalogue import files
from nodepool_ocb.config import Settings
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Attrib, Role, Set, State
from nodepool_ocb.operations.barclamps.importing import BarclampImport
from nodepool_ocb.operations.deployments.configuring import DeploymentSet
from nodepool_ocb.operations.joining.registering import RegistrationCreate
from nodepool_ocb.operations.joining.reporting import NodeInventory
from nodepool_ocb.operations.joining.rules import AdoptionSet
from nodepool_ocb.operations.noderoles.acting import NoderoleRetry
from nodepool_ocb.operations.noderoles.explaining import NoderoleExplain
from nodepool_ocb.operations.operation import Call, Operation
from nodepool_ocb.operations.performer import Performer
from nodepool_ocb.store import subtree
from nodepool_ocb.store.client import codec
from nodepool_ocb.testing.zookeeper.server import Server
from tests.catalogue.test_shipped_barclamps import SHIPPED
from tests.journeys.fleet import Fleet
from tests.journeys.installing import MAC, Quiet

FQDN: Final = "m0.farm.example.com"  # the first machine of a farm
MEMORY, WORK = f"commission-memory@{FQDN}", f"work@{FQDN}"
FACTS: Final = {"arch": os.uname().machine, "nics": [{"name": "eth0", "lldp_switch": "sw1", "lldp_port": "Eth1/4"}]}


@pytest.fixture
def fleet(zookeeper: Server, chroot: str, tmp_path: Path) -> Iterator[Fleet]:
    with Fleet(zookeeper, chroot, tmp_path) as fleet:
        yield fleet


def perform(fleet: Fleet, operation: Operation[Any], login: str = "ann") -> Any:
    """The answer of an operation."""
    settings = Settings(zookeeper=fleet.settings(30.0))
    return Performer(Call(login=login, host="127.0.0.1"), Quiet(), lambda: settings).perform(operation).answer


def adopted(fleet: Fleet) -> None:
    """The machine of the farm registers, and becomes a node of a rule whose roles wait for a test of the memory."""
    [(name, machine)] = fleet.farm.records()
    fleet.session.commit(subtree.removal(fleet.session, paths.node(name)))
    assert name == FQDN
    base = fleet.folder / "base.yml"  # without the discovery roles, which would write to this host
    base.write_text("barclamp: {name: base}\nroles: [{name: machine-base, jig: noop, flags: [implicit]}]\n")
    perform(fleet, BarclampImport(files=files.read([base, SHIPPED / "provisioner.yml", SHIPPED / "commissioning.yml"])))
    place = paths.role("commission-memory")
    znode = fleet.session.get(place)
    assert znode is not None
    role = codec.decode(Role, znode)
    own = f"OCB_ROOT=/\n{role.script}"  # machines of a farm have another root, below which nothing is tested
    fleet.session.commit([Set(place, replace(role, script=own), znode.version)])
    script = '. "$OCB_LIBRARY"\nwrite_attribute work/port "$(read_attribute machine/lldp_port)"\n'
    port = Attrib(name="work_port", map="work/port")
    fleet.add_role("work", Role(barclamp="fleet", jig="script", script=script, attribs=(port,)))
    words = (f"name={FQDN}", "roles=work", "commission=commission-memory", "commit=true")
    perform(fleet, AdoptionSet(rule="lab", assignments=words))
    bounds = ("memory_least_mib=1000000000", "memory_test_mib=0")
    perform(fleet, DeploymentSet(name="system", role="commission-memory", assignments=bounds))
    keys = machine.host_keys
    made = perform(fleet, RegistrationCreate(macs=(MAC,), inventory=FACTS, host_keys=keys), "join")
    assert made.node == FQDN
    fleet.set_node(FQDN, addresses=machine.addresses, user=machine.user, alive=True)


def reason(fleet: Fleet, noderole: str) -> str:
    """The words of ``explain``."""
    [(_, words)] = perform(fleet, NoderoleExplain(noderoles=(noderole,)))
    return str(words)


@pytest.mark.long
def test_the_roles_of_a_rule_wait_for_its_commissioning_which_names_its_observation(fleet: Fleet) -> None:
    adopted(fleet)
    fleet.annealer().begin()
    fleet.until_state(MEMORY, State.ERROR)
    assert "MiB of memory, and 1000000000 must be there" in (fleet.record(MEMORY).reason or "")
    assert fleet.state(WORK) is State.BLOCKED
    assert MEMORY in reason(fleet, WORK)
    assert "and 1000000000 must be there" in reason(fleet, MEMORY)
    perform(fleet, DeploymentSet(name="system", role="commission-memory", assignments=("memory_least_mib=1",)))
    perform(fleet, NoderoleRetry(noderoles=(MEMORY,)))
    fleet.until_state(WORK, State.ACTIVE)
    assert fleet.blob(paths.wall("work", FQDN)) == {"work": {"port": "Eth1/4"}}, "a run sees the port of the switch"


@pytest.mark.long
def test_a_new_inventory_is_noticed_by_the_role_that_compares_it_and_reruns_nothing(fleet: Fleet) -> None:
    adopted(fleet)
    perform(fleet, DeploymentSet(name="system", role="commission-memory", assignments=("memory_least_mib=1",)))
    fleet.annealer().begin()
    fleet.until_all_active()
    before = fleet.starts()
    perform(fleet, NodeInventory(node=FQDN, inventory={**FACTS, "arch": "another"}), "machine")
    discover = f"provisioner-discover@{FQDN}"
    fleet.until(lambda: "machine/arch" in reason(fleet, discover), "explain names the fact")
    assert "machine/arch" not in reason(fleet, WORK)
    assert fleet.starts() == before
