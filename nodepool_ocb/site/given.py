"""The attributes of site files: judged as by the single commands. Plain text of a secret is always refused. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from nodepool_ocb.catalogue import rules
from nodepool_ocb.engine.inputs import concealing
from nodepool_ocb.engine.inputs.references import refuse_unresolvable
from nodepool_ocb.engine.world import World
from nodepool_ocb.errors import Conflict, Invalid
from nodepool_ocb.model import secrecy
from nodepool_ocb.model.records import Json, Role
from nodepool_ocb.site.desired_state import Blob
from nodepool_ocb.site.steps import Planning


def refuse(plan: Planning, role: str, user: Blob, below: Blob, before: Blob) -> None:
    """Raises Invalid with all that is wrong; of files that say ``as_stored`` only plain text of a secret, and notes the rest.

    ``below``: the layers under these attributes; ``before``: the values that stood there, which are not refused again.
    """
    catalogue = plan.catalogue
    refuse_plain(catalogue, role, user)
    found = [*problems(catalogue, role, user, below, before), *_unresolvable(plan.world, user, before)]
    if found and not plan.wanted.as_stored:
        raise Invalid(found)
    plan.notes += [f"taken as it was stored: {each}" for each in found]


def problems(catalogue: Mapping[str, Role], role: str, user: Blob, below: Blob, before: Blob) -> Iterator[str]:
    """A sentence for each name without an attribute, each value that does not fit, and each reference that is not
    valid.
    """
    yield from rules.slips(catalogue, role, user, before)
    yield from rules.faults(catalogue, role, user, below)
    try:
        secrecy.checked(user, before)
    except Invalid as wrong:
        yield from (f"role {role}: {each}" for each in wrong.problems)


def _unresolvable(world: World, user: Blob, before: Blob) -> Iterator[str]:
    try:
        refuse_unresolvable(world, user, before)
    except Conflict as wrong:
        yield str(wrong)


def refuse_plain(catalogue: Mapping[str, Role], role: str, user: Mapping[str, Json]) -> None:
    """Raises Invalid, without the value, where an attribute that is secret stands in plain text."""
    for place, _ in concealing.plain(catalogue, role, user):
        raise Invalid(
            f"{place} of role {role} is secret, and stands here in plain text; write a reference, as"
            " {$secret: file:/PATH}, or the form that `export` prints; or leave it out, and then:"
            f" nodepool-ocb noderole set ROLE@FQDN {place}=-"
        )
