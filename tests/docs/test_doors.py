"""Which folder talks to what: each library of the outer world has one door, and the order within a folder."""

from __future__ import annotations

import ast
from collections.abc import Set
from functools import cache
from pathlib import Path
from typing import Final

import grimp
import pytest

PACKAGES: Final = ("nodepool_ocb", "nodepool_ocb_annealer", "nodepool_ocb_builder", "nodepool_ocb_launcher")
CLOUDS: Final = frozenset({"nodepool_ocb.providers"})
#: library → the folders that may import it
DOORS: Final = {
    "kazoo": frozenset({"nodepool_ocb.store", "nodepool_ocb.testing"}),
    "paramiko": frozenset({"nodepool_ocb.jigs"}),
    "docker": CLOUDS,
    "keystoneauth1": CLOUDS,
    "openstack": CLOUDS,
}
#: Folders that reach no effect, through whatever other folder.
DEEPLY_PURE: Final = ("nodepool_ocb.model", "nodepool_ocb.engine")
EFFECTS: Final = ("kazoo", "logging", "os", "paramiko", "random", "socket", "subprocess", "threading", "time")
#: The supervisor of builds starts without packages.
SUPERVISOR: Final = ("nodepool_ocb_builder.sandbox.supervisor", "nodepool_ocb_builder.sandbox.leftovers")
PACKAGES_OF_OTHERS: Final = ("nodepool_ocb", "jsonschema", "msgspec", "yaml")
ROLLOUT: Final = (
    {"observer", "blockers"},
    {"step"},
    {"rounds", "commands", "report"},
    {"groups", "plan"},
    {"selectors", "criteria", "records", "observation"},
)


ROOT: Final = Path(__file__).parents[2]
FOLDERS: Final = sorted(
    {file.parent for top in ("nodepool_ocb", "annealer", "builder", "launcher") for file in (ROOT / top).rglob("*.py")}
)


@cache
def graph() -> grimp.ImportGraph:
    return grimp.build_graph(*PACKAGES, include_external_packages=True)


def within(module: str, folders: Set[str]) -> bool:
    return any(module == folder or module.startswith(f"{folder}.") for folder in folders)


@pytest.mark.parametrize("library", DOORS)
def test_a_library_of_the_outer_world_has_one_door(library: str) -> None:
    importers = graph().find_modules_that_directly_import(library)
    assert importers, "nobody imports it any more: take it out of DOORS"
    assert not {module for module in importers if not within(module, DOORS[library])}


@pytest.mark.parametrize("effect", EFFECTS)
@pytest.mark.parametrize("folder", DEEPLY_PURE)
def test_values_and_the_engine_reach_no_effect_through_anybody(folder: str, effect: str) -> None:
    assert effect not in graph().modules or graph().find_shortest_chains(folder, effect) == set()


@pytest.mark.parametrize("library", PACKAGES_OF_OTHERS)
@pytest.mark.parametrize("module", SUPERVISOR)
def test_the_supervisor_of_builds_starts_without_packages(module: str, library: str) -> None:
    assert library not in graph().modules or not graph().chain_exists(module, library, as_packages=False)


def test_a_rollout_is_ordered_within_itself() -> None:
    assert not graph().find_illegal_dependencies_for_layers(layers=ROLLOUT, containers={"nodepool_ocb.rollout"})


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: str(folder.relative_to(ROOT)))
def test_a_folder_says_what_it_is(folder: Path) -> None:
    assert ast.get_docstring(ast.parse((folder / "__init__.py").read_text()))
