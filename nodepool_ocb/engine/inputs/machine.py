"""The facts of a node's machine as attributes: below ``machine/``, as the weakest values that a run sees. Pure.

A machine is not trusted. Its texts stand at places that this project names, and lists keep its names out of the keys. So no fact
is taken for a reference to a secret.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from nodepool_ocb.engine.world import NodeView
from nodepool_ocb.model.joining import Inventory, MachineFacts
from nodepool_ocb.model.records import Json

PLACE: Final = "machine"
#: Facts that are none of the machine's parts: they change with each boot.
_PASSING: Final = frozenset({"boot_id"})


def attributes(view: NodeView) -> Mapping[str, Json]:
    """The attributes of a node's machine; empty without an inventory."""
    stored = view.world.of(Inventory).get(view.name)
    return {} if stored is None else of_facts(stored.record.facts)


def of_facts(facts: MachineFacts) -> Mapping[str, Json]:
    """A fact that is not known is not there. The switch and its port are those of the first network card that has one.

    >>> from nodepool_ocb.model.joining import MachineNic
    >>> nic = MachineNic(name="eth0", speed=10, lldp_switch="sw1", lldp_port="Eth1/4")
    >>> found = of_facts(MachineFacts(memory=1024, boot_id="b", nics=(nic,)))["machine"]
    >>> sorted(found), found["lldp_port"], found["nics"][0]["lldp_port"]
    (['lldp_port', 'lldp_switch', 'memory', 'nics', 'virtual'], 'Eth1/4', 'Eth1/4')
    """
    found = {field: value for field, value in _fields(facts).items() if value and field not in _PASSING}
    found |= {part: [_fields(each) for each in getattr(facts, part)] for part in ("disks", "nics") if part in found}
    found["virtual"] = facts.virtual
    linked = next((nic for nic in facts.nics if nic.lldp_switch), None)
    if linked is not None:
        found |= {"lldp_switch": linked.lldp_switch, "lldp_port": linked.lldp_port}
    return {PLACE: found}


def _fields(part: msgspec.Struct) -> dict[str, Json]:
    """With those that have their default, too."""
    return {field: getattr(part, field) for field in part.__struct_fields__}
