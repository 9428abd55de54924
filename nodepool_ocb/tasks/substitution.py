"""Facts in the texts of a task's parameters: ``{CLUSTER_ID}`` becomes its value.

The given facts are inserted in texts within lists and mappings, but not in keys. All other braces stay as they are: unknown
names, ``{{...}}``, the ``${...}`` of shells, ``{SETTINGS...}``. An inserted value is not searched again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, TypeAlias

from nodepool_ocb.model.records import Json

Fact: TypeAlias = str | int | float

_NAMED: Final = re.compile(r"(?<![{$])\{([A-Za-z_][A-Za-z0-9_]*)\}")


def substituted(value: Json, facts: Mapping[str, Fact]) -> Json:
    """The same value with the facts in its texts.

    >>> substituted({"cmd": "keys -i {CLUSTER_ID} -h {NAME}", "{uid}": ["{{uid}}", "${uid}", 3]}, {"CLUSTER_ID": 7, "uid": "1"})
    {'cmd': 'keys -i 7 -h {NAME}', '{uid}': ['{{uid}}', '${uid}', 3]}
    """
    if isinstance(value, str):
        return _NAMED.sub(lambda found: str(facts.get(found[1], found[0])), value) if "{" in value else value
    if isinstance(value, Mapping):
        return {key: substituted(inner, facts) for key, inner in value.items()}
    return [substituted(inner, facts) for inner in value] if isinstance(value, list | tuple) else value


def named(value: Json) -> frozenset[str]:
    """The names in braces that ``substituted`` would look for.

    >>> sorted(named(["{uid}/{CLUSTER_ID}", {"path": "{{x}}"}]))
    ['CLUSTER_ID', 'uid']
    """
    if isinstance(value, str):
        return frozenset(_NAMED.findall(value))
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ()
    return frozenset().union(*map(named, inner))
