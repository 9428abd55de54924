"""One machine with a real sshd for each test that asks for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from nodepool_ocb.testing.machines import Farm
from tests.jigs.workshop import Annealer, Machine


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    with Farm(1, tmp_path / "farm") as farm:
        yield Machine(farm, tmp_path / "logs" / "run.log")
    assert not farm.processes(0), "nothing is left behind"


@pytest.fixture
def annealer(machine: Machine) -> Iterator[Annealer]:
    one = Annealer(machine.settings())
    yield one
    one.jig.close()


@pytest.fixture
def another(machine: Machine) -> Iterator[Annealer]:
    one = Annealer(machine.settings())
    yield one
    one.jig.close()
