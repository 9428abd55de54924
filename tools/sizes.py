"""Names product modules that are too long and folders that hold too many: there is a second thing in each.

Run by ``tools/check``. What is too large today stands in ``KNOWN``, and leaves it once it is divided.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final

MOST_LINES: Final = 400  # of a module
MOST_MODULES: Final = 16  # of a folder, without its __init__.py
PRODUCT: Final = ("nodepool_ocb", "annealer", "builder", "launcher", "schemas")
KNOWN: Final = frozenset[str]()


def faults(root: Path, known: Collection[str]) -> Iterator[str]:
    """What is too large below ``root``, and what of ``known`` is not, one sentence each."""
    modules = sorted(file for folder in PRODUCT for file in (root / folder).rglob("*.py"))
    lines = {str(file.relative_to(root)): file.read_bytes().count(b"\n") for file in modules}
    for name, count in lines.items():
        if count > MOST_LINES and name not in known:
            yield f"{name} has {count} lines, and may have {MOST_LINES}: divide it"
    for name in sorted(known):
        if lines.get(name, 0) <= MOST_LINES:
            yield f"{name} is no longer too long: take it out of KNOWN in tools/sizes.py"
    for folder in sorted({file.parent for file in modules}):
        count = sum(file.parent == folder and file.name != "__init__.py" for file in modules)
        if count > MOST_MODULES:
            yield f"{folder.relative_to(root)} has {count} modules, and may have {MOST_MODULES}: divide it"


def main() -> int:
    """Print each fault; gives the exit status."""
    found = list(faults(Path(__file__).parent.parent, KNOWN))
    for fault in found:
        print(fault)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
