"""The facts of a machine as attributes: the weakest layer, and an input where a role declares or wants them alone."""

from __future__ import annotations

from typing import Final

import pytest
from msgspec.structs import replace

from nodepool_ocb.engine import inputs
from nodepool_ocb.engine.inputs import machine
from nodepool_ocb.engine.world import Stored, World
from nodepool_ocb.model.joining import Inventory, MachineDisk, MachineFacts, MachineNic
from nodepool_ocb.model.records import Attrib, Json, Node, NodeRole, Role, State

HERE: Final = "n1.example.com"
FACTS: Final = MachineFacts(
    memory=1024,
    serial="S1",
    boot_id="boot-1",
    disks=(MachineDisk(name="sda", size=7),),
    nics=(MachineNic(name="eth0"), MachineNic(name="eth1", lldp_switch="sw1", lldp_port="Eth1/4")),
)
MEMORY: Final = Attrib(name="memory_bytes", map="machine/memory")
ROLES: Final = {
    "declares": Role(barclamp="b", jig="script", attribs=(MEMORY,)),
    "wants": Role(barclamp="b", jig="script", wants_attribs=("memory_bytes",)),
    "neither": Role(barclamp="b", jig="script"),
}


def world(facts: MachineFacts | None, **hints: Json) -> World:
    """One node with a noderole of each role."""
    made = World()
    made.put_node(HERE, Node(hints=hints), 0)
    for name, role in ROLES.items():
        made.put(Stored(role, 0), name)
        made.put_noderole(HERE, name, NodeRole(state=State.ACTIVE, since=0.0), 0)
    if facts is not None:
        made.put(Stored(Inventory(facts=facts), 0), HERE)
    return made


def sources(made: World, role: str) -> inputs.InputSources:
    vertex = made.vertex(f"{role}@{HERE}")
    assert vertex is not None
    return inputs.sources(made, vertex, made.roles[role].record)


def number(made: World, role: str) -> int:
    """That stands for the inputs of a run now."""
    return inputs.judged(sources(made, role), {}).number


def test_a_run_sees_the_facts_of_its_machine_with_the_port_of_its_switch() -> None:
    found = inputs.visible(inputs.layers(sources(world(FACTS), "neither"), {}))["machine"]
    assert (found["memory"], found["serial"], found["disks"][0]["size"]) == (1024, "S1", 7)
    assert (found["lldp_switch"], found["lldp_port"], found["nics"][1]["lldp_port"]) == ("sw1", "Eth1/4", "Eth1/4")
    assert "boot_id" not in found
    assert "machine" not in inputs.visible(inputs.layers(sources(world(None), "neither"), {}))


def test_a_hint_of_the_node_is_stronger_than_a_fact() -> None:
    found = inputs.visible(inputs.layers(sources(world(FACTS, machine={"serial": "by hand"}), "neither"), {}))
    assert (found["machine"]["serial"], found["machine"]["memory"]) == ("by hand", 1024)


@pytest.mark.parametrize(("role", "counts"), [("declares", True), ("wants", True), ("neither", False)])
def test_a_changed_fact_counts_only_for_a_role_that_declares_or_wants_it(role: str, counts: bool) -> None:
    more, other = replace(FACTS, memory=2048), replace(FACTS, serial="S2", boot_id="boot-2")
    assert (number(world(FACTS), role) != number(world(more), role)) is counts
    assert number(world(FACTS), role) == number(world(other), role)


def test_the_source_of_a_fact_is_named() -> None:
    [layer] = inputs.layers(sources(world(FACTS), "neither"), {})
    assert str(layer) == f"machine of node {HERE}"


def test_no_text_of_a_machine_is_taken_for_a_reference_to_a_secret() -> None:
    hostile = MachineFacts(
        serial='{"$secret": "vault:a#b"}', nics=(MachineNic(name="$secret", lldp_switch="$secret"),), vendor="$secret"
    )
    assert not _keys(machine.of_facts(hostile)) & {"$secret"}


def _keys(value: Json) -> set[str]:
    if isinstance(value, dict):
        return {*value, *(key for each in value.values() for key in _keys(each))}
    return {key for each in value for key in _keys(each)} if isinstance(value, list) else set()
