"""YAML that every reader takes for the same value: PyYAML, Ruby's, those of YAML 1.1 and of 1.2.

Texts are in double quotes, and so are keys that could be read as anything but a text. Readers disagree on the values of ``yes``,
``1e3``, ``12:30``, ``1,000`` and ``:name``. No line is folded, nothing is an alias. Pure.
"""

from __future__ import annotations

import re
from typing import Final

import yaml

from nodepool_ocb.model.records import Json

_PLAIN: Final = re.compile(r"(?!(y|n|yes|no|on|off|true|false|null|inf|nan)\Z)[a-z_][a-z0-9_-]*\Z", re.IGNORECASE)


class _TaskListDumper(yaml.SafeDumper):
    def ignore_aliases(self, _data: Json) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.Node:
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style='"')


def _mapping(dumper: yaml.SafeDumper, value: dict[str, Json]) -> yaml.Node:
    node = dumper.represent_mapping("tag:yaml.org,2002:map", value.items())
    for key, _ in node.value:
        if _PLAIN.match(key.value):
            key.style = None
    return node


_TaskListDumper.add_representer(str, _text)
_TaskListDumper.add_representer(dict, _mapping)


def dumped(value: Json) -> str:
    """A JSON value as YAML, in blocks.

    >>> print(dumped({"uid": "1", "on": True, "roles": ["compute"], "timeout": 30}), end="")
    uid: "1"
    "on": true
    roles:
    - "compute"
    timeout: 30
    """
    return yaml.dump(
        value, Dumper=_TaskListDumper, default_flow_style=False, allow_unicode=True, sort_keys=False, width=float("inf")
    )
