"""``tools/bench metal``: the ratio counts each part, and a host without virtual machines passes nothing."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def booting(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    from benchmarks import booting

    return booting


def test_the_ratio_is_that_of_all_parts_and_the_note_names_each(booting: ModuleType) -> None:
    boots = [booting.Part("network boot", 60.0, 50.0), booting.Part("disk boot", 60.0, 50.0)]
    floor = [*boots, booting.Part("dd", 40.0, 20.0), booting.Part("logins", 40.0, 5.0)]
    way = [booting.Part("registered", 70.0, 60.0), booting.Part("ACTIVE", 229.0, 165.0)]
    waiting, cpu = booting.figures([floor], [way], "load 0.1 before, 1.0 after")
    assert (waiting.ours, waiting.other, waiting.holds) == (299.0, 200.0, True)
    assert "dd 40.0" in waiting.note
    assert (cpu.ratio, cpu.holds) == (225.0 / 125.0, None)
    late = booting.figures([floor], [[booting.Part("ACTIVE", 301.0, 1.0)]], "")
    assert next(late).holds is False


def test_a_host_without_virtual_machines_passes_nothing(booting: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    from benchmarks.figure import Plan

    monkeypatch.setattr(booting, "why_not", lambda *_: "a virtual network needs root")
    found = list(booting.measure(Plan(rounds=1)))
    assert [figure.holds for figure in found] == [None, None]
    assert found[0].note == "a virtual network needs root"
