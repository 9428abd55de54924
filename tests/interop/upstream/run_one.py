"""Run one test of Nodepool in its own Python: ``run_one.py MODULE.CLASS.TEST``; ``--list MODULE`` lists a module's tests.

The environment: OCB_PATHS has the folders of this product and of its requirements; they come after Nodepool's own. The working
directory is the folder of the package ``nodepool``, since configurations of its tests name programs from there. The packages
``OURS`` are those of this product: Nodepool requires older ones, and its classes work with both. Each shim of
``SHIMS`` that exists replaces the classes of Nodepool's daemons, by its function ``install()``, before the test begins. The exit
status is 0 if the test passes.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import os
import site
import sys
import unittest
from collections.abc import Iterator

SHIMS = ("builder_shim", "launcher_shim")
PACKAGE = "nodepool.tests.unit"
OURS = ("kazoo",)


def tests(suite: unittest.TestSuite | unittest.TestCase) -> Iterator[unittest.TestCase]:
    """Each test of a suite."""
    if isinstance(suite, unittest.TestCase):
        yield suite
        return
    for each in suite:
        yield from tests(each)


def load_from(folders: list[str], name: str) -> None:
    """Import a package from one of these folders, also if it is in another one as well."""
    spec = importlib.machinery.PathFinder.find_spec(name, folders)
    if spec is None or spec.loader is None:
        raise ImportError(f"{name} is in none of {folders}")
    sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules[name])


def main(words: list[str]) -> int:
    ours = os.environ["OCB_PATHS"].split(os.pathsep)
    for folder in ours:
        site.addsitedir(folder)  # with the packages that it links to
    for name in OURS:
        load_from(ours, name)
    load = unittest.defaultTestLoader.loadTestsFromName
    if words[0] == "--list":
        for each in tests(load(f"{PACKAGE}.{words[1]}")):
            print(each.id().removeprefix(f"{PACKAGE}."))
        return 0
    for name in SHIMS:
        if importlib.util.find_spec(name) is not None:
            importlib.import_module(name).install()
    result = unittest.TextTestRunner(verbosity=2).run(load(f"{PACKAGE}.{words[0]}"))
    return 0 if result.wasSuccessful() and result.testsRun == 1 else 1


if __name__ == "__main__":
    status = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # threads that a test left do not hold the process
