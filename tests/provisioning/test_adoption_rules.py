"""Machines that wait and rules of adoption: facts, selectors, names and bounds as tables, without a server."""

from __future__ import annotations

from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from nodepool_ocb.engine import selection
from nodepool_ocb.engine.selection import SelectionFacts
from nodepool_ocb.engine.selection.expression import BEGINNINGS
from nodepool_ocb.engine.world import NodeView, Stored, World
from nodepool_ocb.errors import Conflict, Invalid, TooLarge, TooMany
from nodepool_ocb.model import tokens
from nodepool_ocb.model.joining import (
    AdoptionRule,
    Inventory,
    MachineDisk,
    MachineFacts,
    MachineNic,
    MachineRegistration,
)
from nodepool_ocb.model.records import Node
from nodepool_ocb.operations.completion import selectors
from nodepool_ocb.provisioning.joining import adoption, inventories, registrations, ruling
from nodepool_ocb.provisioning.joining.registrations import Rival

MAC, OTHER = "52:54:00:12:34:56", "52:54:00:12:34:57"
GIB: Final = 1024**3
BIG: Final = MachineFacts(
    cpus=16,
    memory=64 * GIB,
    serial="ABC 12/3",
    disks=(MachineDisk(name="sda", size=500 * GIB), MachineDisk(name="sdb", size=4000 * GIB)),
    nics=(MachineNic(name="eth0", mac=MAC, speed=25_000_000_000, lldp_switch="sw7", lldp_port="Eth1/4"),),
)


def machine(facts: MachineFacts = BIG, **fields: Any) -> MachineRegistration:
    return MachineRegistration(**{"macs": (MAC,), "digest": tokens.digest("secret"), "facts": facts, **fields})


def another(**fields: Any) -> MachineRegistration:
    """Another machine that registers."""
    parts: dict[str, Any] = {"by": "join", **fields}
    return machine(replace(BIG, serial="another"), **parts)


def checked(words: list[str]) -> AdoptionRule:
    pairs = [(key, value) for key, _, value in (word.partition("=") for word in words)]
    return adoption.checked(ruling.assigned(AdoptionRule(name=""), pairs))


def selected(selector: str, **inventories_of: MachineFacts) -> list[str]:
    """Of a world with these nodes, and one without an inventory."""
    world = World()
    for name in [*inventories_of, "bare"]:
        world.nodes[name] = NodeView(name, world, Node())
    for name, facts in inventories_of.items():
        world.put(Stored(Inventory(facts=facts), 0), name)
    found = selection.nodes(world, selection.parse(selector), SelectionFacts(0.0, lambda _: ()))
    return [view.name for view in found]


@pytest.mark.parametrize(
    ("selector", "fits"),
    [
        ("memory>=64G", True),
        ("memory>64G", False),
        ("memory<64.5g", True),
        ("memory=65536M", True),
        ("disks>=2 cpus>8", True),
        ("disks>2", False),
        ("disk-size>3T", True),
        ("disk-size<100G", False),
        ("nic-speed>=25G nics=1", True),
        ("nic-speed>25G", False),
        ("serial:'ABC 12/3'", True),
        ("lldp-switch:sw* lldp-port:Eth1/4", True),
        (f"mac:{MAC}", True),
        ("not memory>=64G", False),
        ("memory>100G or (cpus=16 disks<3)", True),
    ],
)
def test_a_selector_compares_the_facts_of_nodes_and_of_machines_that_wait(selector: str, fits: bool) -> None:
    assert selected(selector, big=BIG) == (["big"] if fits else ["bare"] if "not" in selector else [])
    assert (adoption.missed(selection.parse(selector), BIG) is None) is fits


def test_no_comparison_holds_for_a_node_without_facts() -> None:
    assert selected("memory<1P or cpus<99 or disks<99 or nics<99") == []
    assert selected("memory<1P or nic-speed<1P", unknown=MachineFacts()) == []


@pytest.mark.parametrize(
    ("selector", "said"),
    [
        ("memroy>=64G", "'memroy' is no number of a machine; did you mean `memory`?"),
        ("memory>=many", "'many' is no number with K, M, G, T or P behind it, such as memory>=64G"),
        ("disks>=2G", "'2G' is no number, such as disks>=2"),
        ("memory=>64G", "there is no operator '=>'"),
        ("memory:64G", "memory is a number: write memory>=VALUE"),
        ("seral:x", "there is no criterion 'seral'; did you mean `serial`?"),
    ],
)
def test_a_wrong_criterion_of_facts_is_named_with_the_next_step(selector: str, said: str) -> None:
    with pytest.raises(Invalid, match=r"selector, character [1-7]: ") as wrong:
        selection.parse(selector)
    assert said in str(wrong.value)


@pytest.mark.parametrize("beginning", BEGINNINGS)
def test_each_criterion_that_completion_offers_is_the_beginning_of_one(beginning: str) -> None:
    offered = selectors.offers(selectors.typed(beginning.rstrip(":>=")), {})
    assert beginning in offered
    values = {
        "admin": "yes",
        "virtual": "yes",
        "alive": "yes",
        "available": "yes",
        "state": "ACTIVE",
        "drift": "drifted",
    }
    value = (
        "2" if beginning.endswith(">=") else values.get(beginning.rstrip(":"), "a=b" if beginning == "label:" else "x")
    )
    bare = "" if beginning[-1].isalpha() else value
    selection.parse(f"{beginning}{bare}")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["name=web-{m}.example.com"], "name: there is no {m}; there is: n, serial"),
        (["name=web-{serail}.example.com"], "did you mean `serial`?"),
        (["name={n}-{n}.example.com"], "more than one time"),
        (["name=Web.example.com"], "is no template of a name"),
        (["name=a.b", "when=tag:web"], "a machine that waits has no tag (web); it has: memory, cpus"),
        (["name=a.b", "when=has(failed)"], "a machine that waits has none"),
        (["name=a.b", "when=memory>="], "is no number"),
        (["nam=a.b"], "a rule of adoption has no field 'nam'; did you mean `name`?"),
        (["name=a.b", "order=x"], "order=x: invalid literal"),
        (["name=a.b", "roles=a", "commission=a"], "commission: a would wait for itself"),
        (["name=a.b", "deployment=La b"], "rule of adoption: "),
    ],
)
def test_each_fault_of_a_rule_names_its_key(words: list[str], said: str) -> None:
    with pytest.raises(Invalid) as wrong:
        checked(words)
    assert said in str(wrong.value)


def test_the_first_rule_by_order_counts_and_each_that_does_not_fit_has_a_reason() -> None:
    rules = {
        "a": AdoptionRule(name="a.b", order=2),
        "b": AdoptionRule(name="b.b", order=1),
        "c": AdoptionRule(name="c.b", when="memory>1T"),
    }
    assert adoption.chosen(rules, machine())[::2] == ("b", "rule b")
    assert adoption.chosen({"c": rules["c"]}, machine()).reason == "no rule fits; c: not memory>1T"
    limited = adoption.chosen(rules, machine(deployments=("lab",)))
    assert limited.rule is None
    assert "b: the join token is limited to lab" in limited.reason
    assert adoption.chosen({}, machine()).reason == "there is no rule of adoption"


def test_a_name_has_the_facts_of_the_machine_and_the_lowest_free_number() -> None:
    rule = AdoptionRule(name="{rack}-{n:02}-{serial}.example.com", racks={"sw7": "R 1", "sw7/Eth1/4": "R 2"})
    assert adoption.node_name(rule, machine(), {"r-2-01-abc-12-3.example.com"}) == "r-2-02-abc-12-3.example.com"
    assert adoption.rack_of(rule, BIG) == "R 2"
    with pytest.raises(Conflict, match="the machine has no uuid, and the name"):
        adoption.node_name(AdoptionRule(name="{uuid}.example.com"), machine(), ())


def test_a_stranger_renews_no_registration_and_a_machine_that_went_silent_frees_its_mac() -> None:
    there = {MAC: Stored(machine(seen=100.0, address="192.0.2.7"), 0)}
    assert registrations.admitted(there, another(macs=(OTHER, MAC)), ["secret"], 200.0).renewed == MAC
    with pytest.raises(Rival, match="two machines with one MAC, or a stranger") as rival:
        registrations.admitted(there, another(), ["guess", ""], 100.0 + registrations.SILENT_SECONDS - 1)
    assert rival.value.mac == MAC
    later = registrations.admitted(there, another(), [""], 100.0 + registrations.SILENT_SECONDS)
    assert (later.renewed, later.replaced) == (None, (MAC,))


UNLIKE: Final = {
    "a part of the MACs": {"macs": (MAC, OTHER)},
    "another serial number": {"facts": replace(BIG, serial="other")},
    "another join token": {"by": "of another site"},
    "another UUID": {"facts": replace(BIG, uuid="U")},
    "another vendor": {"facts": replace(BIG, vendor="V")},
    "another product": {"facts": replace(BIG, product="P")},
    "one disk": {"facts": replace(BIG, disks=BIG.disks[:1])},
    "a disk with a serial number": {"facts": replace(BIG, disks=(BIG.disks[0], replace(BIG.disks[1], serial="D")))},
    "a disk with a WWN": {"facts": replace(BIG, disks=(BIG.disks[0], replace(BIG.disks[1], wwn="W")))},
    "another size": {"facts": replace(BIG, disks=(BIG.disks[0], replace(BIG.disks[1], size=1)))},
}


@pytest.mark.parametrize("fields", UNLIKE.values(), ids=UNLIKE)
def test_a_machine_that_differs_from_the_waiting_one_is_no_boot_of_it(fields: dict[str, Any]) -> None:
    there = {MAC: Stored(machine(), 0)}
    with pytest.raises(Rival):
        registrations.admitted(there, machine(**fields), ["fresh"], 1.0)


def test_a_waiting_machine_that_boots_again_is_the_same_and_its_disks_may_have_other_names() -> None:
    there = {MAC: Stored(machine(), 0)}
    renamed = tuple(replace(disk, name=f"x{disk.name}") for disk in reversed(BIG.disks))
    booted = machine(replace(BIG, boot_id="b", disks=renamed), host_keys=("ssh-ed25519 AAAA",))
    found = registrations.admitted(there, booted, ["fresh"], 1.0)
    assert (found.renewed, found.again, found.replaced) == (MAC, True, ())
    assert not registrations.admitted(there, booted, ["secret"], 1.0).again


@pytest.mark.parametrize(
    "fields",
    [
        {"node": "n1.example.com"},
        {"rival": "192.0.2.8"},
        {"facts": replace(BIG, serial="")},
        {"former": tokens.digest("fresh")},
    ],
    ids=["it has a node", "two were seen", "no serial number and no UUID", "the secret of before"],
)
def test_no_boot_is_guessed(fields: dict[str, Any]) -> None:
    waiting = machine(**fields)
    with pytest.raises(Rival):
        registrations.admitted({MAC: Stored(waiting, 0)}, machine(waiting.facts), ["fresh"], 1.0)


def test_too_many_machines_of_one_token_are_refused_and_those_that_wait_stay() -> None:
    many = {f"{number:04}": Stored(machine(macs=(), by="join", seen=1.0), 0) for number in range(256)}
    with pytest.raises(TooMany, match="256 machines wait that registered with token join"):
        registrations.admitted(many, another(), [""], 2.0)
    assert registrations.admitted(many, another(by="other"), [""], 2.0).replaced == ()
    nodes = {name: Stored(replace(each.record, node="n1.example.com"), 0) for name, each in many.items()}
    assert registrations.admitted(nodes, another(), [""], 2.0).replaced == (), "an adopted one takes no place"
    full = {f"{number:04}": Stored(machine(macs=(), by=f"t{number % 3}", seen=1.0), 0) for number in range(512)}
    with pytest.raises(TooMany, match="512 machines are registered"):
        registrations.admitted(full, another(by="fresh"), [""], 2.0)
    day = 1.0 + registrations.FORGOTTEN_SECONDS
    assert len(registrations.admitted(full, another(by="fresh"), [""], day).forgotten) == registrations.SWEPT


def test_a_refused_machine_is_not_forgotten_and_takes_no_place_of_its_token() -> None:
    refused = {"macs": (), "by": "join", "seen": 1.0, "refused": "a laptop", "refused_by": "ann"}
    many = {f"{number:04}": Stored(machine(**refused), 0) for number in range(256)}
    late = registrations.admitted(many, another(), [""], 2.0 + registrations.FORGOTTEN_SECONDS)
    assert (late.forgotten, late.replaced) == ((), ())
    there = {OTHER: Stored(machine(macs=(OTHER, MAC), refused="a laptop", refused_by="ann"), 0)}
    with pytest.raises(Conflict, match=r"it was refused by ann: a laptop; .* nodepool-ocb registration delete"):
        registrations.admitted(there, another(), ["secret"], 1e9)


def test_an_inventory_of_any_content_becomes_a_small_record() -> None:
    hostile = {
        "memory": -1,
        "cpus": True,
        "serial": "\x1b[31m" + "x" * 9999,
        "disks": [1, {"size": 10**30}],
        "more": {},
    }
    facts = inventories.facts_of({**hostile, "nics": [{"mac": "52-54-00-AB-CD-EF"}] * 999})
    assert (facts.memory, facts.cpus, len(facts.serial), facts.disks) == (0, 0, 128, (MachineDisk(),))
    assert "\x1b" not in facts.serial
    assert len(facts.nics) == 64
    assert facts.nics[0].mac == "52:54:00:ab:cd:ef"
    with pytest.raises(TooLarge, match="and may have 65536"):
        inventories.facts_of({"more": "x" * 70_000})
    with pytest.raises(Invalid, match="no JSON object"):
        inventories.facts_of([])


FACTS = st.builds(
    lambda memory, serial, port: MachineFacts(
        memory=memory, serial=serial, nics=(MachineNic(lldp_switch="sw", lldp_port=port),)
    ),
    st.integers(0, 4),
    st.sampled_from(["", "A", "B 1"]),
    st.sampled_from(["", "1"]),
)
RULES = st.builds(
    AdoptionRule,
    name=st.sampled_from(["n{n}.x.y", "{serial}-{n}.x.y", "{serial}.x.y", "{rack}.x.y"]),
    when=st.sampled_from(["*", "memory>2", "not memory>2", "serial:A", "lldp-port:1 or memory<2"]),
    order=st.integers(0, 2),
    racks=st.sampled_from([{}, {"sw": "r"}]),
)


@given(st.lists(FACTS, max_size=8), st.dictionaries(st.sampled_from("abc"), RULES, max_size=3))
def test_names_stay_unique_and_no_machine_becomes_two_nodes(found: list[MachineFacts], rules: dict[str, Any]) -> None:
    """Each machine has one node at most; a second look at all of them makes nothing."""
    nodes: dict[str, int] = {}
    for place, facts in enumerate(found):
        chosen = adoption.chosen(rules, machine(facts))
        assert (chosen.rule is None) == all(adoption.missed(selection.parse(r.when), facts) for r in rules.values())
        if chosen.rule is None:
            continue
        try:
            name = adoption.node_name(chosen.rule, machine(facts), nodes)
        except Conflict:
            continue
        if "{n}" in chosen.rule.name:
            assert name not in nodes
        nodes.setdefault(name, place)
    assert len({*nodes.values()}) == len(nodes)
