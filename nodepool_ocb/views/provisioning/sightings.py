"""Machines that asked to join and look like the machine of a node: by a MAC of it, or by its serial number. Pure.

A machine that loops, or that comes back with another MAC, boots the environment for unknown machines. So does a second machine
with the same MAC. Anybody on the network can register, so a sighting is shown to people, and decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from nodepool_ocb.engine import installing
from nodepool_ocb.engine.world import NodeView, Stored
from nodepool_ocb.model.installation import ENDS
from nodepool_ocb.model.joining import Inventory, MachineRegistration
from nodepool_ocb.views.times import age


def wanted(view: NodeView) -> bool:
    """Whether sightings explain something: an installation of the machine has not succeeded."""
    found = installing.stored(view)
    return found is not None and found.record.step not in ENDS


def sentences(view: NodeView, registrations: Mapping[str, Stored[MachineRegistration]], now: float) -> Iterator[str]:
    """A sentence for each machine that was seen since the installation began."""
    found = installing.stored(view)
    since = found.record.started if found is not None else now
    own, inventory = set(installing.macs(view)), view.world.of(Inventory).get(view.name)
    facts = inventory.record.facts if inventory is not None else None
    for mac, stored in sorted(registrations.items()):
        machine = stored.record
        if machine.seen < since:
            continue
        asked = f"asked to join from {machine.address} {age(now - machine.seen)} ago"
        shared = sorted(own.intersection(machine.macs))
        if shared:
            yield (
                f"a machine with its MAC {shared[0]} {asked}: it boots the network again and again, or it is another machine with"
                f" this MAC{_rival(machine)}; see: nodepool-ocb registration show {mac}"
            )
        elif facts is not None and facts.serial and facts.serial == machine.facts.serial:
            yield (
                f"a machine with its serial number {facts.serial} {asked}, with MAC {', '.join(machine.macs)}, which is none of"
                f" the node's; if its card was replaced: nodepool-ocb node set {view.name} macs={','.join(machine.macs)}"
            )


def _rival(machine: MachineRegistration) -> str:
    return f", which {machine.rival} claims, too" if machine.rival else ""
