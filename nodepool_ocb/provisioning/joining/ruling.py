"""``KEY=VALUE`` of the rules of adoption. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import msgspec

from nodepool_ocb.documents.suggest import did_you_mean
from nodepool_ocb.errors import Invalid
from nodepool_ocb.model.joining import AdoptionRule


def _claim(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError("write true or false")
    return text == "true"


def _words(text: str) -> tuple[str, ...]:
    return tuple(word for word in (part.strip() for part in text.split(",")) if word)


FIELDS: Final[Mapping[str, Callable[[str], Any]]] = {
    "name": str,
    "when": lambda text: text or "*",
    "order": int,
    "deployment": str,
    "tags": _words,
    "network": lambda text: text or None,
    "user": str,
    "roles": _words,
    "commission": _words,
    "commit": _claim,
    "allow_install": _claim,
}
#: Fields with a name behind a dot: labels.KEY=TEXT, racks.SWITCH=RACK, racks.SWITCH/PORT=RACK.
MAPPINGS: Final = ("labels", "racks")
KEYS: Final = (*FIELDS, *(f"{name}." for name in MAPPINGS))


def assigned(rule: AdoptionRule, pairs: Iterable[tuple[str, str]]) -> AdoptionRule:
    """The rule with these values; an empty label or rack takes it out. Raises Invalid with each fault of a value."""
    changed: dict[str, Any] = {}
    mappings = {name: dict(getattr(rule, name)) for name in MAPPINGS}
    faults: list[str] = []
    for key, value in pairs:
        section, dot, name = key.partition(".")
        if dot and name and section in MAPPINGS:
            mappings[section][name] = value
        elif key in FIELDS:
            try:
                changed[key] = FIELDS[key](value)
            except ValueError as wrong:
                faults.append(f"{key}={value}: {wrong}")
        else:
            near = did_you_mean(key, KEYS) or f"; known are {', '.join(KEYS)}"
            faults.append(f"a rule of adoption has no field {key!r}{near}")
    if faults:
        raise Invalid(faults)
    changed |= {name: {key: text for key, text in each.items() if text} for name, each in mappings.items()}
    made = AdoptionRule(**{name: getattr(rule, name) for name in rule.__struct_fields__} | changed)
    try:
        return msgspec.convert(msgspec.to_builtins(made), AdoptionRule)
    except msgspec.ValidationError as wrong:
        raise Invalid(f"rule of adoption: {wrong}; write another value") from None
