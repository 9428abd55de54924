"""Names the classes of the product that share a name; each class has a name of its own.

Run by ``tools/check``. Private classes and classes inside of functions count, too. The doubles of ``nodepool_ocb.testing`` do
not: tests may name them after the classes for which they stand.
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final

PRODUCT: Final = ("nodepool_ocb", "annealer", "builder", "launcher")
DOUBLES: Final = "nodepool_ocb/testing"


def places(root: Path) -> dict[str, list[str]]:
    """Each name of a class below ``root``, with the places of its classes: ``FILE:LINE``."""
    found = defaultdict[str, list[str]](list)
    for folder in PRODUCT:
        for file in sorted((root / folder).rglob("*.py")):
            text = file.read_text()
            if "class " in text and not file.is_relative_to(root / DOUBLES):  # two of five modules have none
                for each in ast.walk(ast.parse(text)):
                    if isinstance(each, ast.ClassDef):
                        found[each.name].append(f"{file.relative_to(root)}:{each.lineno}")
    return found


def faults(root: Path) -> Iterator[str]:
    """The shared names below ``root``, one sentence each."""
    for name, classes in sorted(places(root).items()):
        if len(classes) > 1:
            yield f"{' and '.join(classes)} have one name, {name}; rename all but one after their subjects"


def main() -> int:
    """Print each fault; gives the exit status."""
    faulty = list(faults(Path(__file__).parent.parent))
    for fault in faulty:
        print(fault)
    return 1 if faulty else 0


if __name__ == "__main__":
    sys.exit(main())
