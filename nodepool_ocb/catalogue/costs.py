"""The part of a barclamp document that a fault disables: nothing, a role, a section, or the document (decision 053)."""

from __future__ import annotations

from typing import Any, Final

from nodepool_ocb.documents.plainyaml import Fault, Key
from nodepool_ocb.documents.schema import schema_file

SCHEMA: Final = "barclamp.json"


def part(key: Key) -> Key:
    """The part that a fault at a key disables: a role, a section, or () for all, if the fault is in the barclamp's own entry."""
    return key[:2] if key[:1] == ("roles",) else () if key[:1] == ("barclamp",) else key[:1]


def nothing(fault: Fault) -> bool:
    """Whether a fault disables nothing: its key has no meaning here, or is unknown and resembles no known key."""
    return _meaningless(fault.key) if fault.unknown is None else fault.meant is None


def _meaningless(key: Key) -> bool:
    """Whether the value at a key has no effect: the schema has no such key, or marks it or a key above it as deprecated."""
    rule: Any = schema_file(SCHEMA)
    definitions = rule["$defs"]
    for step in key:
        if isinstance(step, int):
            rule = rule.get("items", {})
        elif step not in rule.get("properties", {}) and rule.get("additionalProperties") is False:
            return True
        else:
            rule = rule.get("properties", {}).get(step, {})
        rule = definitions[rule["$ref"].rpartition("/")[2]] if "$ref" in rule else rule
        if rule.get("deprecated"):
            return True
    return False
