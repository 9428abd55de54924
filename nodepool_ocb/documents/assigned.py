"""The values of ``KEY=VALUE``, as the fields of records take them. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from nodepool_ocb.documents.suggest import did_you_mean
from nodepool_ocb.errors import Invalid

T = TypeVar("T", bound=msgspec.Struct)


def claim(text: str) -> bool:
    """``true`` or ``false``; raises ValueError for any other text."""
    if text not in ("true", "false"):
        raise ValueError("write true or false")
    return text == "true"


def words(text: str) -> tuple[str, ...]:
    """The words between commas.

    >>> words("a, b,")
    ('a', 'b')
    """
    return tuple(word for word in (part.strip() for part in text.split(",")) if word)


def keys(fields: Iterable[str], sections: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """All keys that ``with_values`` takes; a section with any names ends in its dot.

    >>> keys(["mtu"], {"ranges": ("host",), "labels": ()})
    ('mtu', 'ranges.host', 'labels.')
    """
    return (*fields, *(f"{section}.{name}" for section, names in sections.items() for name in names or ("",)))


def with_values(
    record: T,
    thing: str,
    pairs: Iterable[tuple[str, str]],
    fields: Mapping[str, Callable[[str], Any]],
    sections: Mapping[str, Sequence[str]],
) -> T:
    """The record with these values.

    ``thing``: its name in messages. ``fields``: the reading of a text, by key. ``sections``: fields that are mappings of texts,
    with their keys; none for any. ``SECTION.NAME=`` takes an entry out. Raises Invalid with each fault of a value.
    """
    changed: dict[str, Any] = {}
    mappings = {section: dict(getattr(record, section)) for section in sections}
    faults: list[str] = []
    for key, value in pairs:
        section, _, name = key.partition(".")
        if name and section in sections and (not sections[section] or name in sections[section]):
            mappings[section][name] = value
        elif key in fields:
            try:
                changed[key] = fields[key](value)
            except ValueError as wrong:
                faults.append(f"{key}={value}: {wrong}")
        else:
            known = keys(fields, sections)
            near = did_you_mean(key, known) or f"; known are {', '.join(known)}"
            faults.append(f"{thing} has no field {key!r}{near}")
    if faults:
        raise Invalid(faults)
    changed |= {section: {key: text for key, text in each.items() if text} for section, each in mappings.items()}
    made: T = type(record)(**{name: getattr(record, name) for name in record.__struct_fields__} | changed)
    return valid(made, thing.partition(" ")[2])


def valid(record: T, name: str) -> T:
    """The record; raises Invalid for a value outside of the limits of its field."""
    try:
        return msgspec.convert(msgspec.to_builtins(record), type(record))
    except msgspec.ValidationError as wrong:
        raise Invalid(f"{name}: {wrong}; write another value") from None
