"""Names product modules that are too long and folders that hold too many: there is a second thing in each.

Run by ``tools/check``.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

MOST_LINES: Final = 400  # of a module
MOST_MODULES: Final = 16  # of a folder, without its __init__.py
PRODUCT: Final = ("nodepool_ocb", "annealer", "builder", "launcher", "schemas")


def faults(root: Path) -> Iterator[str]:
    """What is too large below ``root``, one sentence each."""
    modules = sorted(file for folder in PRODUCT for file in (root / folder).rglob("*.py"))
    for file in modules:
        lines = file.read_bytes().count(b"\n")
        if lines > MOST_LINES:
            yield f"{file.relative_to(root)} has {lines} lines, and may have {MOST_LINES}: divide it"
    for folder in sorted({file.parent for file in modules}):
        count = sum(file.parent == folder and file.name != "__init__.py" for file in modules)
        if count > MOST_MODULES:
            yield f"{folder.relative_to(root)} has {count} modules, and may have {MOST_MODULES}: divide it"


def main() -> int:
    """Print each fault; gives the exit status."""
    found = list(faults(Path(__file__).parent.parent))
    for fault in found:
        print(fault)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
