"""The inventory that a machine sends, to the facts that a record keeps. Pure.

The machine is not trusted. A text is cut and loses its control characters, a number that is none counts as not known, and a key
that this project does not know is dropped. So no inventory makes a record larger than some kilobytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from nodepool_ocb.errors import Invalid, TooLarge
from nodepool_ocb.model.joining import MachineDisk, MachineFacts, MachineNic
from nodepool_ocb.model.records import Json
from nodepool_ocb.provisioning.addressing import macs

MOST_BYTES: Final = 64 * 1024  # of an inventory as JSON
MOST_PARTS: Final = 64  # disks, and network cards, of one machine
LONGEST: Final = 128  # of a text
LARGEST: Final = 10**15  # of a number


def facts_of(inventory: Json) -> MachineFacts:
    """Raises TooLarge, and Invalid for an inventory that is no JSON object.

    >>> found = facts_of({"memory": 1024, "cpus": "many", "disks": [{"name": "sda"}]})
    >>> found.memory, found.cpus, [disk.name for disk in found.disks]
    (1024, 0, ['sda'])
    """
    if not isinstance(inventory, Mapping):
        raise Invalid("the inventory is no JSON object; send {} if the machine knows nothing")
    if (size := len(msgspec.json.encode(inventory))) > MOST_BYTES:
        raise TooLarge(f"the inventory has {size} bytes, and may have {MOST_BYTES}; send the keys of docs/adoption.md")
    found: MachineFacts = _filled(MachineFacts, inventory)
    disks = tuple(_filled(MachineDisk, each) for each in _parts(inventory.get("disks")))
    nics = tuple(_filled(MachineNic, each) for each in _parts(inventory.get("nics")))
    nics = tuple(msgspec.structs.replace(nic, mac=_mac(nic.mac)) for nic in nics)
    return msgspec.structs.replace(found, disks=disks, nics=nics)


def _parts(value: Json) -> list[Mapping[str, Any]]:
    found = value if isinstance(value, list) else []
    return [each for each in found if isinstance(each, Mapping)][:MOST_PARTS]


def _filled(kind: type[Any], given: Mapping[str, Any]) -> Any:
    """The struct with the values that have the type of its default."""
    found: dict[str, Any] = {}
    for field in msgspec.structs.fields(kind):
        value = given.get(field.name)
        if isinstance(field.default, bool):
            found[field.name] = value is True
        elif isinstance(field.default, int):
            known = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LARGEST
            found[field.name] = value if known else 0
        elif isinstance(field.default, str):
            found[field.name] = _text(value)
    return kind(**found)


def _text(value: Json) -> str:
    """A printable text without spaces around it; empty for a value that is none."""
    if not isinstance(value, str):
        return ""
    return "".join(letter for letter in value[: 4 * LONGEST] if letter.isprintable()).strip()[:LONGEST]


def _mac(text: str) -> str:
    try:
        return macs.canonical(text)
    except ValueError:
        return ""
