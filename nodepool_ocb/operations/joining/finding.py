"""One registration, and one rule of adoption, by name. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from nodepool_ocb.engine.world import Stored
from nodepool_ocb.model.joining import AdoptionRule, MachineRegistration
from nodepool_ocb.operations.names import unknown
from nodepool_ocb.provisioning.addressing import macs


def registration_of(
    found: Mapping[str, Stored[MachineRegistration]], text: str
) -> tuple[str, Stored[MachineRegistration]]:
    """The machine with this MAC, which may be any of its MACs. Raises NotFound or Invalid."""
    [mac] = macs.checked([text])
    for name, stored in found.items():
        if name == mac or mac in stored.record.macs:
            return name, stored
    raise unknown("registration", mac, found)


def rule_of(found: Mapping[str, Stored[AdoptionRule]], name: str) -> Stored[AdoptionRule]:
    """Raises NotFound."""
    if name not in found:
        raise unknown("adoption", name, found)
    return found[name]
