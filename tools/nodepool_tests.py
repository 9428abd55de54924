"""The page docs/nodepool-tests.md: Nodepool's own tests, from the verdicts of tests/interop/upstream/verdicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import yaml

VERDICTS: Final = Path(__file__).parents[1] / "tests/interop/upstream/verdicts"
MODULES: Final = ("test_builder", "test_commands", "test_launcher", "test_driver_static")
KINDS: Final = ("passes", "inapplicable", "fails")
SOURCE: Final = "tests/interop/upstream/verdicts"
INTRODUCTION: Final = """\
# Nodepool's own tests

The package `nodepool` 11.0.0 on PyPI brings tests of its daemons and commands. Here they run against the daemons of this
product. A process of ours takes the place of each of Nodepool's daemons, on the test's own `nodepool.yaml`, with
`layout: nodepool`. The commands are Nodepool's, unchanged. Each test has a tree of its own, and reaches it by TLS.

`tools/test --long tests/interop/upstream` installs the package and runs each test that passes. A test is *inapplicable* if it
tests the inside of Nodepool, or a feature that this product does not have; the reason stands beside it.
[from-nodepool.md](from-nodepool.md) is for people who come from Nodepool.
"""
#: Until a shim replaces launchers, too.
FOREIGN_LAUNCHER: Final = (
    "Some tests of test_commands start a launcher, too: it is Nodepool's own, beside our builder.\n"
)


def page() -> str:
    """The page without its notice. Modules without a file are left out."""
    known = {module: _verdicts(module) for module in MODULES if (VERDICTS / f"{module}.yaml").exists()}
    shim = VERDICTS.parent / "launcher_shim.py"
    parts = [INTRODUCTION, *([] if shim.exists() else [FOREIGN_LAUNCHER]), _totals(known)]
    parts += [f"## {module}\n\n" + "".join(_rows(verdicts)) for module, verdicts in known.items()]
    return "\n".join(parts)


def _verdicts(module: str) -> Mapping[str, tuple[str, str]]:
    """CLASS.TEST → kind and reason."""
    found = yaml.safe_load((VERDICTS / f"{module}.yaml").read_text()) or {}
    return {
        name: (value, "")
        if isinstance(value, str)
        else next((kind, " ".join(text.split())) for kind, text in value.items())
        for name, value in found.items()
    }


def _totals(known: Mapping[str, Mapping[str, tuple[str, str]]]) -> str:
    counts = {module: Counter(kind for kind, _ in verdicts.values()) for module, verdicts in known.items()}
    counts["all"] = sum(counts.values(), Counter())
    rows = [["module", "tests", *KINDS], ["---"] * (len(KINDS) + 2)]
    rows += [[module, str(count.total()), *(str(count[kind]) for kind in KINDS)] for module, count in counts.items()]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _rows(verdicts: Mapping[str, tuple[str, str]]) -> Iterator[str]:
    yield "| test | result | reason |\n| --- | --- | --- |\n"
    for name, (kind, reason) in verdicts.items():
        yield f"| `{name}` | {kind} | {reason} |\n"
