"""The name of a launched machine: the fields of ``hostname-format``, made a name that DNS accepts. Pure.

The id of the node is in each name, so two nodes of one cluster never share a name.
"""

from __future__ import annotations

import re
from string import Formatter
from typing import Final

#: The fields of a format, as they are written in braces.
HOSTNAME_FIELDS: Final = ("label.name", "provider.name", "pool.name", "node.id")
NODE_ID: Final = "node.id"
LONGEST_LABEL: Final = 63  # letters between two dots, by DNS

_ODD = re.compile("[^a-z0-9-]+")


def hostname_fault(format: str) -> str | None:
    """Why a format cannot be used; None if it can.

    >>> hostname_fault("{label.name}-{node.id}")
    >>> hostname_fault("{label.name}")
    'must have {node.id}; without it two machines would have one name'
    """
    fields = _fields(format)
    if fields is None or set(fields) - set(HOSTNAME_FIELDS):
        return f"may have {', '.join(f'{{{field}}}' for field in HOSTNAME_FIELDS)}, and nothing else in braces"
    if NODE_ID not in fields:
        return f"must have {{{NODE_ID}}}; without it two machines would have one name"
    return None


def machine_hostname(format: str, *, label: str, provider: str, pool: str, node: str, domain: str | None = None) -> str:
    """The name of a node's machine, in small letters. ``domain`` completes a name that has no dot.

    >>> machine_hostname("{label.name}-{node.id}", label="Big_VM", provider="p", pool="m", node="0000000007", domain="x.org")
    'big-vm-0000000007.x.org'
    """
    values = dict(zip(HOSTNAME_FIELDS, (label, provider, pool, node), strict=True))
    text = "".join(before + values.get(field or "", "") for before, field, *_ in Formatter().parse(format))
    parts = [_part(part, node) for part in text.lower().split(".")]
    name = ".".join(part for part in parts if part)
    return name if domain is None or "." in name else f"{name}.{domain}"


def _part(text: str, node: str) -> str:
    """A text between two dots as DNS accepts it; of a long one with the node's id, the id stays."""
    text = _ODD.sub("-", text).strip("-")
    if len(text) <= LONGEST_LABEL:
        return text
    rest = f"-{node}" if node in text else ""
    return text[: LONGEST_LABEL - len(rest)].rstrip("-") + rest


def _fields(format: str) -> list[str] | None:
    """The fields of a format; None where a field is converted or formatted, or a brace stays open."""
    try:
        found = [(field, rest) for _, field, *rest in Formatter().parse(format) if field is not None]
    except ValueError:
        return None
    return [field for field, _ in found] if all(rest == ["", None] for _, rest in found) else None
