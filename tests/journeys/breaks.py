"""Breaks of the product that no test noticed once, each with the test that notices it now."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[2]
PACKAGES: Final = ("nodepool_ocb", "annealer/nodepool_ocb_annealer", "builder/nodepool_ocb_builder")
SCHEMAS: Final = "schemas/nodepool_ocb_schemas"
SEES: Final = "tests/engine/test_jig_inputs.py"
HOOKS: Final = "tests/annealer/test_hooks.py"


class Break(NamedTuple):
    """``old`` stands once in the product, and is ``new`` where that is broken; ``test`` fails then."""

    old: str
    new: str
    test: str


BREAKS: Final = {
    "the layers of siblings are dropped": Break(
        "for source in sources.beside for each in _of(Origin.BESIDE",
        "for source in () for each in _of(Origin.BESIDE",
        f"{SEES}::test_all_that_an_active_sibling_says_is_seen_below_what_the_noderole_depends_on",
    ),
    "the defaults of the own role, and what its deployment says, are dropped": Break(
        "yield from self.shared",
        "yield from ()",
        f"{SEES}::test_defaults_of_the_own_role_stand_above_those_of_a_parent",
    ),
    "the wall is never written": Break(
        "wall_changes(grant.vertex, read, partial(_sealed, secrets, sent, added))",
        "[]",
        f"{HOOKS}::test_a_jig_sees_what_on_transition_set_and_what_it_gives_back_is_on_the_wall",
    ),
    "hooks of nodes never run": Break(
        "if view and view.record and (view.record.hooks or view.record.deleting):",
        "if False:",
        f"{HOOKS}::test_a_hook_of_a_node_changes_the_node_and_has_noderoles_run_again",
    ),
    "hooks of deployments never run": Break(
        "if stored.record.hooks or stored.record.deleting:",
        "if False:",
        f"{HOOKS}::test_a_hook_of_a_deployment_sets_its_attributes",
    ),
    "on_transition is never called": Break(
        'if "on_transition" not in attempt.role.hooks or attempt.checking:',
        "if True:",
        f"{HOOKS}::test_a_jig_sees_what_on_transition_set_and_what_it_gives_back_is_on_the_wall",
    ),
    "what a hook says is to run again does not": Break(
        "found = map(context.world.vertex, wishes.refresh)",
        "found = map(context.world.vertex, ())",
        f"{HOOKS}::test_a_hook_of_a_node_changes_the_node_and_has_noderoles_run_again",
    ),
    "what a hook sets at a node is not set": Break(
        "if wishes.node:",
        "if False:",
        f"{HOOKS}::test_a_hook_of_a_node_changes_the_node_and_has_noderoles_run_again",
    ),
    "a new node gets discovery roles whose jig nobody has": Break(
        "if flag in stored.record.flags and (jigs is None or stored.record.jig in jigs)",
        "if flag in stored.record.flags",
        "tests/engine/test_binding.py::test_a_new_node_gets_no_discovery_role_whose_jig_nobody_has",
    ),
}


def places(broken: Break) -> list[Path]:
    """Where the text stands that is changed: each file as often as it is there."""
    files = (file for package in PACKAGES for file in (ROOT / package).rglob("*.py"))
    return [file for file in files for _ in range(file.read_text().count(broken.old))]


def tests(file: str) -> set[str]:
    """The tests that stand in a file, as pytest names them."""
    functions = ast.parse((ROOT / file).read_text()).body
    return {f"{file}::{each.name}" for each in functions if isinstance(each, ast.FunctionDef)}


def copy(folder: Path) -> Path:
    """The product and its tests, side by side in a folder: Python that begins there takes nothing from elsewhere."""
    ignored = shutil.ignore_patterns("__pycache__", ".*")
    for package in (*PACKAGES, SCHEMAS, "tests"):
        shutil.copytree(ROOT / package, folder / Path(package).name, ignore=ignored)
    for file in ("setup.cfg", "conftest.py"):
        shutil.copy(ROOT / file, folder)
    return folder


def change(folder: Path, broken: Break) -> None:
    """Break the copy, at the only place."""
    (place,) = places(broken)
    package = next(ROOT / package for package in PACKAGES if place.is_relative_to(ROOT / package))
    file = folder / place.relative_to(package.parent)
    file.write_text(file.read_text().replace(broken.old, broken.new))


def run(folder: Path, test: str) -> subprocess.CompletedProcess[str]:
    """One test, in the copy, by daemons of the copy."""
    command = [sys.executable, "-m", "pytest", "-n", "0", "-p", "no:cacheprovider", "--rootdir", str(folder), test]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHONPATH", "PYTEST_"))}
    return subprocess.run(
        [*command, f"--basetemp={folder / 'temporary'}"],
        cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=600.0,
    )  # fmt: skip
