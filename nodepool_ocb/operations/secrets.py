"""Secret attributes of a role: encrypted before they are written. Pure: each function yields its lookups."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from nodepool_ocb.engine import attributes
from nodepool_ocb.errors import Invalid
from nodepool_ocb.model import secrecy
from nodepool_ocb.model.records import Json, Role
from nodepool_ocb.operations.operation import Steps
from nodepool_ocb.operations.reads.secrets import RevealAttributes, SealValue
from nodepool_ocb.views.noderoles import Layers

READS: Final = (SealValue,)


def sealed(
    known: Mapping[str, Role], role: str, after: Mapping[str, Json], before: Mapping[str, Json]
) -> Steps[Mapping[str, Json]]:
    """A role's attributes as they may be written: each secret of the role encrypted. Raises Sealed without a key.

    ``before``: the present attributes. A value that stays the same keeps its encrypted form.
    """
    from nodepool_ocb.catalogue import rules  # here, since jsonschema takes long to import

    secrecy.checked(after, before)
    for place in rules.secret_places(known, role):
        value = attributes.at(after, place)
        if value is attributes.MISSING or value is None or secrecy.is_secret(value):
            continue
        if secrecy.holds(value):
            raise Invalid(
                f"{place} is secret as a whole; give all of it at once, or a reference, as {{$secret: file:/PATH}}"
            )
        hidden = yield from SealValue(place, value, attributes.at(before, place, None))
        after = attributes.write(after, place, hidden)
    return after


def shown(layers: Layers) -> Steps[Layers]:
    """A noderole's attributes in plain text; raises Sealed without the key."""
    user = yield from RevealAttributes(layers.user)
    system = yield from RevealAttributes(layers.system)
    wall = yield from RevealAttributes(layers.wall)
    return Layers(user=user, system=system, wall=wall)
