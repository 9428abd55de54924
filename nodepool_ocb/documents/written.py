"""JSON values as YAML that ``plainyaml`` reads as the very same: in their order, without anchors, line for line to compare."""

from __future__ import annotations

from typing import Any

import yaml

from nodepool_ocb.model.records import Json


class _WrittenDumper(yaml.CSafeDumper):
    """PyYAML's, for readers of YAML 1.2."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        return True


def _text(dumper: _WrittenDumper, text: str) -> yaml.ScalarNode:
    """Lines stay lines. Text that a reader of YAML 1.2 takes for a number is quoted, though PyYAML takes it for text."""
    style = "|" if "\n" in text else "'" if text[:1] in "0123456789.+-" else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_WrittenDumper.add_representer(str, _text)


def text(value: Json, exact: bool = False) -> str:
    r"""The value as a document; ``exact``: in ASCII, with all else escaped.

    >>> print(text({"version": "1e3", "script": "a\nb\n", "on": ["yes", True]}), end="")
    version: '1e3'
    script: |
      a
      b
    'on':
    - 'yes'
    - true
    """
    return str(yaml.dump(value, Dumper=_WrittenDumper, sort_keys=False, allow_unicode=not exact, width=10_000))
