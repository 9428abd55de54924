"""The places of the tests that judge a folder of the product.

Quick tests, which need no server, judge the pure folders. ``operations``, ``store`` and ``annealer`` are also judged by
tests of their own. These share one ZooKeeper and may start daemons; the mutant is in these daemons, too.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

#: Where the quick tests are, and the folders whose doctests are among them.
PURE: Final = ("documents", "engine", "catalogue", "images", "pool", "rollout", "views", "telemetry")
#: Each folder of the product that is judged with servers, and the folders of its tests. These judge no other folder.
SERVED: Final = {
    "nodepool_ocb/operations": ("tests/operations", "tests/cli"),
    "nodepool_ocb/store": ("tests/store",),
    "annealer/nodepool_ocb_annealer": ("tests/annealer",),
}

#: Tests of declarations, by the folder that declares: classes are read there, and no function runs.
DECLARED: Final = {"nodepool_ocb/operations": "tests/operations/test_table_of_operations.py"}


def places(root: Path, folders: Iterable[str]) -> tuple[str, ...]:
    """The tests that judge changes in these folders of the product, for pytest."""
    served = [place for folder in folders if folder in SERVED for place in (*SERVED[folder], folder)]
    if all(folder in SERVED for folder in folders):
        return tuple(served)
    pure = (place for name in PURE for place in (f"tests/{name}", f"nodepool_ocb/{name}"))
    return (*(place for place in pure if (root / place).is_dir()), *served)


def is_served(test: str) -> bool:
    """Whether this test, by pytest's id, may need servers."""
    return any(_is_in(test, folders) for folders in SERVED.values())


def may_judge(test: str, file: str) -> bool:
    """Whether this test, by pytest's id, may judge a change of this file: one that may need servers, only of its own folder."""
    return not is_served(test) or any(_is_in(file, (own,)) and _is_in(test, tests) for own, tests in SERVED.items())


def judges_declarations(test: str, file: str) -> bool:
    """Whether this test reads the declarations of this file, though it may reach no function in it."""
    return any(_is_in(file, (folder,)) and test.startswith(f"{tests}::") for folder, tests in DECLARED.items())


def _is_in(path: str, folders: Iterable[str]) -> bool:
    return path.startswith(tuple(f"{folder}/" for folder in folders))
