"""Names modules and folders that may hold a second subject, in the product and in the tests.

``tools/check`` prints each warning, and fails above the limit. A warning asks for a look: a long table may stay as it is.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

PRODUCT: Final = ("nodepool_ocb", "annealer", "builder", "launcher", "schemas")
TESTS: Final = ("tests",)


class Bound(NamedTuple):
    """Sizes from which a warning is printed, and above which the check fails."""

    warning: int
    limit: int


LINES: Final = Bound(400, 600)  # of a module of the product
MODULES: Final = Bound(16, 24)  # of a folder of the product, without its __init__.py
TEST_LINES: Final = Bound(600, 1000)
TEST_MODULES: Final = Bound(24, 48)


class Finding(NamedTuple):
    """``text``: one sentence; ``refused``: it is above the limit."""

    text: str
    refused: bool


def findings(root: Path) -> Iterator[Finding]:
    """Each module and folder below ``root`` that is above the size of a warning."""
    yield from _large(root, PRODUCT, LINES, MODULES)
    yield from _large(root, TESTS, TEST_LINES, TEST_MODULES)


def _large(root: Path, folders: tuple[str, ...], lines: Bound, modules: Bound) -> Iterator[Finding]:
    files = sorted(file for folder in folders for file in (root / folder).rglob("*.py"))
    for file in files:
        yield from _judged(f"{file.relative_to(root)} has", file.read_bytes().count(b"\n"), "lines", lines)
    for folder in sorted({file.parent for file in files}):
        count = sum(file.parent == folder and file.name != "__init__.py" for file in files)
        yield from _judged(f"{folder.relative_to(root)} has", count, "modules", modules)


def _judged(subject: str, size: int, unit: str, bound: Bound) -> Iterator[Finding]:
    if size > bound.limit:
        yield Finding(f"{subject} {size} {unit}; the limit is {bound.limit}: divide it by subject", refused=True)
    elif size > bound.warning:
        yield Finding(f"{subject} {size} {unit}: look for a second subject in it", refused=False)


def main() -> int:
    """Print each finding; gives the exit status."""
    found = list(findings(Path(__file__).parent.parent))
    for finding in sorted(found, key=lambda finding: not finding.refused):
        print(finding.text)
    return 1 if any(finding.refused for finding in found) else 0


if __name__ == "__main__":
    sys.exit(main())
