"""Which tests run: those that take minutes only with ``--long``. None fails because the machine is busy."""

from __future__ import annotations

import gc
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import settings

#: What tests of several folders stand on.
pytest_plugins = [
    f"tests.fixtures.{name}"
    for name in (
        "apis",
        "builders",
        "commands",
        "corpora",
        "engines",
        "examples",
        "fleets",
        "joining",
        "launchers",
        "upstream",
    )
]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect without garbage collections, and leave the modules and tests out of all later ones: they never become garbage."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(
    file_path: Path,
) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Search for doctests only in files that have an example: most have none, tests above all."""
    found = yield
    if file_path.suffix == ".py" and ">>>" not in file_path.read_text():
        found = [each for each in found if type(each).__name__ != "DoctestModule"]
    return found


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="also run tests that take minutes")


def pytest_configure(config: pytest.Config) -> None:
    settings.load_profile("long" if config.getoption("--long") else "busy")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--long"):
        for item in items:
            if item.get_closest_marker("long"):
                item.add_marker(pytest.mark.skip(reason="takes minutes; runs with --long"))
