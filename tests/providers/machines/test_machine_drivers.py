"""Drivers of machines are found by their entry points, and tell faults before anything is asked of a provider."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from typing import Any

import pytest

from nodepool_ocb import extensions
from nodepool_ocb.errors import Invalid
from nodepool_ocb.pool.configuration import LaunchProvider, PoolLabel
from nodepool_ocb.providers import fake, launching
from nodepool_ocb.providers.machines import MACHINE_GROUP
from nodepool_ocb.telemetry import redaction
from tests.providers.machines.orders import SSH, fake_provider, opened


def test_the_drivers_of_the_project_are_installed() -> None:
    found = launching.installed()
    assert {"fake", "test"} <= set(found.usable)
    assert not {"fake", "test"} & {each.name for each in found.left_out}


def test_an_unknown_driver_is_named_with_those_that_exist() -> None:
    (fault,) = launching.faults(LaunchProvider(name="p", driver="fakee"))
    assert fault.startswith("no driver `fakee` launches machines here; there are ")
    assert fault.endswith("did you mean `fake`?")


class Raises(fake.FakeCloud):
    def __init__(self, *_: Any) -> None:
        raise ValueError("out of order")


class Half:
    def __init__(self, *_: Any) -> None: ...

    @staticmethod
    def faults(_: LaunchProvider) -> list[str]:
        return []

    @staticmethod
    def resources(*_: Any) -> dict[str, float]:
        return {"cores": 2}


class Wrong(fake.FakeCloud):
    @staticmethod
    def resources(*_: Any) -> Any:
        return {"cores": "many"}

    @staticmethod
    def faults(provider: LaunchProvider) -> list[str]:
        raise KeyError(provider.name)


class Old(fake.FakeCloud):
    def __init__(self, provider: LaunchProvider) -> None: ...


@pytest.fixture(autouse=True)
def drivers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drivers of another package."""
    real = extensions._offered

    def offered(group: str) -> list[EntryPoint]:
        added = [
            EntryPoint(name, f"{__name__}:{value}", group)
            for name, value in (
                ("raises", "Raises"),
                ("half", "Half"),
                ("wrong", "Wrong"),
                ("old", "Old"),
                ("lost", "Lost"),
            )
        ]
        return [*real(group), *added] if group == MACHINE_GROUP else real(group)

    monkeypatch.setattr(extensions, "_offered", offered)


def test_a_driver_that_breaks_the_contract_is_left_out_with_a_sentence() -> None:
    found = launching.installed()
    sentences = {each.name: each.sentence for each in found.left_out}
    assert set(sentences) == {"old", "lost"}
    assert "machines old is left out" in sentences["old"]
    assert "is called as __call__(provider, ssh)" in sentences["old"]
    assert "has no attribute 'Lost'" in sentences["lost"]
    assert {"fake", "half"} <= set(found.usable)


@pytest.mark.parametrize(
    ("driver", "fault"),
    [
        ("raises", "driver `raises`: it raised ValueError: out of order"),
        ("half", "driver `half`: it has no `create`"),
        ("wrong", "driver `wrong` raised KeyError"),
        ("old", "machines old is left out"),
    ],
)
def test_a_provider_of_a_broken_driver_is_refused_with_a_sentence(driver: str, fault: str) -> None:
    with pytest.raises(Invalid, match="provider p: ") as raised:
        opened(LaunchProvider(name="p", driver=driver))
    assert fault in str(raised.value)


def test_the_resources_of_a_driver_that_answers_nonsense_are_one_instance() -> None:
    label = PoolLabel(name="l")
    assert launching.resources(LaunchProvider(name="p", driver="wrong"), label) == {"instances": 1}
    assert launching.resources(LaunchProvider(name="p", driver="absent"), label) == {"instances": 1}
    assert launching.resources(LaunchProvider(name="p", driver="half"), label) == {"instances": 1, "cores": 2}


def test_credentials_among_the_options_are_hidden_in_log_lines() -> None:
    provider = fake_provider()
    options = {**provider.options, "auth": {"password": "swordfish9"}, "url": "tcp://me:opensesame@10.0.0.1:2375"}
    launching.open(LaunchProvider(name="p", driver="fake", options=options), SSH).close()
    line = redaction.masked("login with swordfish9 and opensesame")
    assert "swordfish9" not in line
    assert "opensesame" not in line
