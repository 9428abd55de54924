"""``KEY=VALUE`` of the rules of adoption. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from nodepool_ocb.documents.assigned import claim, keys, with_values, words
from nodepool_ocb.model.joining import AdoptionRule

FIELDS: Final[Mapping[str, Callable[[str], Any]]] = {
    "name": str,
    "when": lambda text: text or "*",
    "order": int,
    "deployment": str,
    "tags": words,
    "network": lambda text: text or None,
    "user": str,
    "roles": words,
    "commission": words,
    "commit": claim,
    "allow_install": claim,
}
#: Fields with a name behind a dot: labels.KEY=TEXT, racks.SWITCH=RACK, racks.SWITCH/PORT=RACK.
MAPPINGS: Final[Mapping[str, Sequence[str]]] = {"labels": (), "racks": ()}
KEYS: Final = keys(FIELDS, MAPPINGS)


def assigned(rule: AdoptionRule, pairs: Iterable[tuple[str, str]]) -> AdoptionRule:
    """The rule with these values; an empty label or rack takes it out. Raises Invalid with each fault of a value."""
    return with_values(rule, "a rule of adoption", pairs, FIELDS, MAPPINGS)
