"""What a fault of a barclamp document costs: nothing, a role, a section, or the document (decision 053)."""

from __future__ import annotations

from typing import Any, Final

from nodepool_ocb.documents.plainyaml import Fault, Key
from nodepool_ocb.documents.schema import schema_file

SCHEMA: Final = "barclamp.json"


def part(key: Key) -> Key:
    """What is lost by a fault at a key: a role, a section, or all, where nobody knows whose roles they are."""
    return key[:2] if key[:1] == ("roles",) else () if key[:1] == ("barclamp",) else key[:1]


def nothing(fault: Fault) -> bool:
    """Whether a fault lies in what has no meaning here, or is an unknown key that is like no known one."""
    return _meaningless(fault.key) if fault.unknown is None else fault.meant is None


def _meaningless(key: Key) -> bool:
    """Whether nobody reads what stands at a key."""
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
