"""Noderoles that run again and again: after two hundred runs nothing has grown."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final

import pytest

from nodepool_ocb.engine.noderole import Event
from nodepool_ocb.testing.processes import CutDaemon
from tests.annealer.runs.test_old_runs import _quiet
from tests.journeys.fleet import Fleet

ROLES: Final = ("one", "two", "three")
SETTLING: Final = 12  # rounds until as much is kept as is ever kept
LOG_BYTES: Final = 100_000
MORE_BYTES: Final = 16 << 20


def znodes(fleet: Fleet, path: str = "/ocb") -> int:
    below = fleet.session.children(path) or []
    return 1 + sum(znodes(fleet, f"{path}/{name}") for name in below)


def files(folder: Path) -> list[Path]:
    return [file for file in folder.rglob("*") if file.is_file()]


def taken(fleet: Fleet, annealer: CutDaemon) -> dict[str, int]:
    """What there is of everything that could grow."""
    return {
        "znodes": znodes(fleet),
        "files on the machine": len(files(fleet.farm.state_dir(fleet.nodes[0]))),
        "bytes on the machine": sum(file.stat().st_size for file in files(fleet.farm.state_dir(fleet.nodes[0]))),
        "logs": len(files(annealer.config.parent / "runs")),
        "descriptors": len(os.listdir(f"/proc/{annealer.pid}/fd")),
        "threads": len(os.listdir(f"/proc/{annealer.pid}/task")),
        "memory": annealer.resident_bytes,
    }


ROOM: Final = {
    "znodes": 60,  # records of old runs are tidied up some at a time
    "files on the machine": 120,  # twenty to thirty runs are kept
    "bytes on the machine": 1 << 20,
    "logs": 5,
    "descriptors": 5,
    "threads": 5,
    "memory": MORE_BYTES,
}


@pytest.mark.parametrize("rounds", [10, pytest.param(200, marks=pytest.mark.long)])
def test_three_noderoles_that_run_again_and_again_leave_everything_level(fleet: Fleet, rounds: int) -> None:
    for role in ROLES:
        fleet.add_role(role, fleet.work(0.0, "head -c 5000 /dev/zero | tr '\\0' x"))
    noderoles = [fleet.bind(role, fleet.nodes[0]) for role in ROLES]
    annealer = fleet.annealer(log_keep=5, log_total_bytes=LOG_BYTES).begin()

    def again(times: int) -> None:
        for _ in range(times):
            fleet.until(lambda: all(_quiet(fleet, noderole) for noderole in noderoles), "all are ACTIVE", 60.0)
            for noderole in noderoles:
                fleet.happens(noderole, Event.REFRESH)
        fleet.until(lambda: all(_quiet(fleet, noderole) for noderole in noderoles), "all are ACTIVE", 60.0)

    again(SETTLING)
    before = taken(fleet, annealer)
    said = annealer.said.count("\n")
    again(rounds)
    deadline = time.monotonic() + 30.0
    while grown := _grown(before, taken(fleet, annealer)):
        assert time.monotonic() < deadline, f"this has grown: {grown}"
        time.sleep(0.2)
    logs = annealer.config.parent / "runs"
    fleet.until(lambda: sum(file.stat().st_size for file in files(logs)) <= LOG_BYTES, "logs are within their bound")
    assert annealer.said.count("\n") - said <= rounds, "the daemon's own log says nothing of runs that end well"
    assert not fleet.faults()


def _grown(before: dict[str, int], now: dict[str, int]) -> dict[str, int]:
    return {what: now[what] - before[what] for what in now if now[what] > before[what] + ROOM[what]}
