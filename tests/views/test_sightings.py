"""Machines that look like the one that is installed are shown to people, with the next step."""

from __future__ import annotations

from typing import Any

from nodepool_ocb.engine.world import Stored, World
from nodepool_ocb.model.installation import Installation, InstallStep
from nodepool_ocb.model.joining import Inventory, MachineFacts, MachineRegistration
from nodepool_ocb.model.records import Node
from nodepool_ocb.views.provisioning import sightings

NODE, MAC, OTHER = "n1.example.com", "52:54:00:00:00:01", "52:54:00:00:00:02"


def world(step: InstallStep = InstallStep.IDENTIFIED) -> World:
    made = World()
    made.put_node(NODE, Node(macs=(MAC,)), 1)
    installation = Installation(
        noderole=f"os@{NODE}", generation=1, run="r1", epoch=1, since=100.0, started=100.0, deadline=900.0,
        nonce="0" * 32, token_digest="0" * 64, step=step,
    )  # fmt: skip
    made.put(Stored(installation, 0), NODE)
    made.put(Stored(Inventory(facts=MachineFacts(serial="S7")), 0), NODE)
    return made


def seen(mac: str, **fields: Any) -> list[str]:
    serial = fields.pop("serial", "")
    made = {"seen": 130.0, "address": "10.1.0.7", "macs": (mac,), **fields}
    machine = MachineRegistration(digest="0" * 64, facts=MachineFacts(serial=serial), **made)
    return list(sightings.sentences(world().nodes[NODE], {mac: Stored(machine, 0)}, 140.0))


def test_a_machine_with_a_mac_or_the_serial_number_of_the_node_is_shown_with_its_address_and_age() -> None:
    [looping] = seen(MAC, rival="10.1.0.8")
    assert looping.startswith(
        f"a machine with its MAC {MAC} asked to join from 10.1.0.7 10s ago: it boots the network again"
    )
    assert looping.endswith(f", which 10.1.0.8 claims, too; see: nodepool-ocb registration show {MAC}")
    [replaced] = seen(OTHER, serial="S7")
    assert replaced.startswith("a machine with its serial number S7 asked to join from 10.1.0.7")
    assert replaced.endswith(f"nodepool-ocb node set {NODE} macs={OTHER}")


def test_other_machines_and_those_of_before_the_installation_are_not_shown() -> None:
    assert seen(OTHER, serial="S8") == []
    assert seen(OTHER, serial="") == [], "two machines without a serial number are not the same one"
    assert seen(MAC, seen=99.0) == []
    assert sightings.wanted(world().nodes[NODE])
    assert not sightings.wanted(world(InstallStep.ALIVE).nodes[NODE])
