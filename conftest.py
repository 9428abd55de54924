"""Which tests run: those that take minutes only with ``--long``. None fails because the machine is busy."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")

#: What tests of several folders stand on.
pytest_plugins = [
    f"tests.fixtures.{name}"
    for name in ("builders", "commands", "corpora", "engines", "fleets", "launchers", "upstream")
]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="also run tests that take minutes")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--long"):
        for item in items:
            if item.get_closest_marker("long"):
                item.add_marker(pytest.mark.skip(reason="takes minutes; runs with --long"))
