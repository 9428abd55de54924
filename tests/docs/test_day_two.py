"""docs/day-two.md works as printed, in its order, on twenty machines."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.testing.machines import Farm
from nodepool_ocb.testing.processes import DaemonProcess
from tests.docs.pages import EXIT_CODE, PROGRAM, ROOT, Fate, blocks
from tests.fixtures.commands import Ocb

PAGE = ROOT / "docs/day-two.md"
MACHINES = 20
BY_HAND = "vm.swappiness = 60\n"
#: What the lines of the page are to show, and what they are not to.
SHOWN = {
    "noderole list -l outdated  # first": ["sysctl@web01.example.com", "sysctl@web16.example.com"],
    "noderole drift": ["sysctl@web07.example.com"],
    "noderole drift sysctl@web07.example.com": ["-vm.swappiness = 60", "+vm.swappiness = 10"],
    "noderole attributes sysctl@web01.example.com sysctl/settings --explain": [
        "vm.swappiness = 10",
        "role sysctl of market",
    ],
    "history --since 1h": ["the market is swapping", "node import", "disk is swapped"],
    "history sysctl@web07.example.com": ["noderole refresh", "the market is swapping", "rollout start"],
}


def test_a_day_of_twenty_machines_goes_as_printed(
    ocb: Ocb, zk_settings: ZooKeeperSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert ocb("barclamp", "import", str(ROOT / "etc/barclamps")).exit_code == 0
    with Farm(MACHINES, tmp_path / "machines") as farm:
        machines = [(record.addresses[0], record.user) for _, record in farm.records()]
        sections = {"ssh": farm.settings(), "annealer": {"probe_seconds": 5.0, "dead_probe_seconds": 0.5, "slots": 8}}
        with DaemonProcess(zk_settings, tmp_path / "annealer", sections):
            followed = Day(ocb, machines, farm)
            for block in blocks(PAGE):
                followed.follow(block)
    assert followed.shown == set(SHOWN)


class Day:
    """The page, followed; ``shown``: what of SHOWN was looked at."""

    def __init__(self, ocb: Ocb, machines: list[tuple[str, str]], farm: Farm) -> None:
        self._ocb, self._machines, self._farm = ocb, machines, farm
        self.shown: set[str] = set()

    def follow(self, block: Any) -> None:
        if block.fate is Fate.FILE:
            Path(block.word).write_text(self._with_machines(block.text) if block.word.endswith(".csv") else block.text)
        elif block.fate is Fate.NOT_RUN and "/etc/sysctl.d" in block.text:
            self._settings(7).write_text(BY_HAND)
        elif block.fate is Fate.RUN:
            for line in block.text.splitlines():
                self._run(line)

    def _with_machines(self, table: str) -> str:
        """The same table, with the addresses and the login of the machines that are there."""
        head, *lines = table.strip().splitlines()
        assert len(lines) == MACHINES
        rows = (
            re.sub(r"198\.51\.100\.\d+", address, line) + f",{user}"
            for line, (address, user) in zip(lines, self._machines, strict=True)
        )
        return "\n".join([f"{head},user", *rows]) + "\n"

    def _settings(self, number: int) -> Path:
        [file] = (self._farm.directory / f"m{number - 1}").rglob("90-nodepool-ocb.conf")
        return file

    def _run(self, line: str) -> None:
        command = line.partition(" #")[0]
        command, _, file = command.strip().partition(" > ")
        words, expected = shlex.split(command), EXIT_CODE.search(line)
        result = self._ocb(*words[1:])
        assert (words[0], result.exit_code) == (PROGRAM, int(expected[1]) if expected else 0), (line, result.output)
        if file:
            Path(file).write_text(result.stdout)
        said = command.removeprefix(f"{PROGRAM} ")
        key = f"{said}  # first" if f"{said}  # first" in SHOWN and f"{said}  # first" not in self.shown else said
        if key in SHOWN:
            self.shown.add(key)
            for text in SHOWN[key]:
                assert text in result.stdout, (line, result.output)
