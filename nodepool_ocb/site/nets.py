"""The networks of a plan: made, or changed where they are otherwise. Fields that the files do not set stay. Pure."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from nodepool_ocb.engine import structure, unreadable
from nodepool_ocb.engine.world import Stored
from nodepool_ocb.errors import Invalid
from nodepool_ocb.model import paths
from nodepool_ocb.model.networks import Network
from nodepool_ocb.model.records import Change, Create, Set
from nodepool_ocb.provisioning.addressing import networks
from nodepool_ocb.site.desired_state import DesiredNetwork
from nodepool_ocb.site.steps import Planning


def made_and_changed(plan: Planning) -> None:
    """Every network is as it is wanted; raises Conflict or Invalid with the place."""
    for name, each in sorted(plan.wanted.networks.items()):
        with each.place.blamed():
            unreadable.refuse(plan.world, [paths.network(name)])
            known: Mapping[str, Stored[Network]] = plan.world.of(Network)
            stored = known.get(name)
            after = _merged(each, Network() if stored is None else stored.record)
            if stored is not None and after == stored.record:
                continue
            networks.checked(name, after, known)
            if stored is None:
                changes: list[Change] = [Create(paths.network(name), after), Create(paths.network_addresses(name))]
            else:
                networks.refuse_outside(name, after, plan.world)
                changes = [Set(paths.network(name), after, stored.version)]
            verb = "create" if stored is None else "change"
            plan.take(structure.raised(plan.world, changes), verb, "network", name, dict(each.fields))


def _merged(each: DesiredNetwork, before: Network) -> Network:
    try:
        return msgspec.convert({**msgspec.to_builtins(before), **each.fields}, Network)
    except msgspec.ValidationError as wrong:
        raise Invalid(f"{wrong}; correct this value") from None
