"""Secrets in site files: as they are stored, or as references; never in plain text. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from nodepool_ocb.catalogue import rules
from nodepool_ocb.engine import attributes
from nodepool_ocb.engine.inputs.references import refuse_unresolvable
from nodepool_ocb.engine.world import World
from nodepool_ocb.errors import Invalid
from nodepool_ocb.model import secrecy
from nodepool_ocb.model.records import Json, Role


def refuse(
    world: World, catalogue: Mapping[str, Role], role: str, user: Mapping[str, Json], before: Mapping[str, Json]
) -> None:
    """Raises Invalid, without the value, where an attribute that is secret stands in plain text.

    Also where a reference is none, and Conflict where no annealer that runs can resolve it. ``before``: what stood there.
    """
    secrecy.checked(user, before)
    refuse_unresolvable(world, user, before)
    for place in rules.secret_places(catalogue, role):
        value = attributes.at(user, place)
        if value is not attributes.MISSING and value is not None and not secrecy.is_secret(value):
            raise Invalid(
                f"{place} of role {role} is secret, and stands here in plain text; write a reference, as"
                " {$secret: file:/PATH}, or what `export` prints; or give it by: nodepool-ocb noderole set ROLE@FQDN"
                f" {place}=-"
            )
