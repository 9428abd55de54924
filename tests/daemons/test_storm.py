"""Storms: many noderoles, and every second or so an annealer is killed, frozen or cut off, or ZooKeeper restarted.

What the machines noted must be as if nothing had happened. The seed of a storm is in its output; the same seed gives
the same faults in the same order.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import cycle, islice
from pathlib import Path
from typing import TypeAlias

import pytest
from fleet import SESSION_SECONDS, Annealer, Fleet

from nodepool_ocb.testing.zookeeper import Server

Mend: TypeAlias = Callable[[], object]

CALM_SECONDS = 90.0  # after the storm, until all is ACTIVE
EXCESS = 0.02  # more starts than noderoles: runs are attached to, not run again


def kill(annealer: Annealer) -> Mend:
    annealer.kill()
    return annealer.start


def freeze(annealer: Annealer) -> Mend:
    annealer.freeze()
    return annealer.thaw


def cut(annealer: Annealer) -> Mend:
    annealer.proxy.cut()
    return annealer.proxy.heal


def deafen(annealer: Annealer) -> Mend:
    """What it asks for is done, and it does not hear of it."""
    annealer.proxy.drop_answers()
    return annealer.proxy.heal


class Storm:
    """Breaks one thing after another, and mends each after a while: several may be broken at a time."""

    def __init__(self, fleet: Fleet, seed: int) -> None:
        self._fleet = fleet
        self._chance = random.Random(seed)
        self._broken: dict[str, tuple[float, Mend]] = {}  # when it is to be mended, and how
        self._pause = threading.Event()
        self.faults: Counter[str] = Counter()

    def blow(self, seconds: float, every_seconds: float) -> None:
        """A fault every few seconds, until the time is up; then everything is mended."""
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            self._break()
            until = time.monotonic() + every_seconds * self._chance.uniform(0.5, 1.5)
            while (left := until - time.monotonic()) > 0:
                self._pause.wait(min(left, 0.1))
                self._mend(time.monotonic())
        self._mend(float("inf"))

    def _break(self) -> None:
        number = self._chance.randrange(len(self._fleet.annealers))
        fault = self._chance.choice(
            [kill, freeze, cut, deafen, self._stop_server, self._kill_server, self._cut_machines]
        )
        lasts = self._chance.choice([0.2, 1.0, SESSION_SECONDS + 1.5])
        name = "server" if fault in (self._stop_server, self._kill_server) else f"a{number}"
        if name not in self._broken:
            self.faults[fault.__name__.strip("_")] += 1
            self._broken[name] = time.monotonic() + lasts, fault(self._fleet.annealers[number])

    def _stop_server(self, _: Annealer) -> Mend:
        self._fleet.server.stop()
        return self._fleet.server.cont

    def _kill_server(self, _: Annealer) -> Mend:
        self._fleet.server.kill()
        return self._fleet.server.start

    def _cut_machines(self, _: Annealer) -> Mend:
        """Every connection to some machines ends; they take new ones."""
        for number in self._chance.sample(range(len(self._fleet.nodes)), k=3):
            self._fleet.farm.cut(number)
        return lambda: None

    def _mend(self, now: float) -> None:
        for name, (due, mend) in list(self._broken.items()):
            if due <= now:
                del self._broken[name]
                mend()


def grid(fleet: Fleet, levels: int, seconds: Sequence[float]) -> int:
    """Each noderole has two parents one level up: on its own machine and on the next. Gives how many there are."""
    for level, lasts in enumerate(islice(cycle(seconds), levels)):
        flags = ("destructive",) if level % 5 == 2 else ()
        fleet.add_role(f"step-{level}", fleet.work(lasts, flags=flags))
    for level in range(levels):
        for index, node in enumerate(fleet.nodes):
            beside = fleet.nodes[(index + 1) % len(fleet.nodes)]
            above = {f"step-{level - 1}@{node}", f"step-{level - 1}@{beside}"} if level else set()
            fleet.bind(f"step-{level}", node, above)
    return levels * len(fleet.nodes)


@pytest.mark.parametrize(
    ("machines", "levels", "seconds", "every_seconds"),
    [
        pytest.param(8, 5, 20.0, 1.5, id="short"),
        pytest.param(20, 10, 300.0, 4.0, id="long", marks=pytest.mark.long),
    ],
)
def test_after_a_storm_every_promise_holds(
    chroot: str, tmp_path: Path, machines: int, levels: int, seconds: float, every_seconds: float
) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    lasting = (SESSION_SECONDS + 1, 0.5, SESSION_SECONDS + 2, 1.0, 2.0)
    if seconds > 60:
        lasting = tuple(each * 10 for each in lasting)
    with Server(fsync=False) as server, Fleet(server, chroot, tmp_path, machines=machines) as fleet:
        count = grid(fleet, levels, lasting)
        for _ in range(3):
            fleet.annealer().begin()
        storm = Storm(fleet, seed)
        storm.blow(seconds, every_seconds)
        fleet.until_all_active(CALM_SECONDS)
        assert all(annealer.running() for annealer in fleet.annealers), "nobody gave up"
        print(f"{dict(storm.faults)}, {sum(fleet.starts().values())} starts of {count} noderoles")
        assert not fleet.faults()
        assert sum(fleet.starts().values()) <= count * (1 + EXCESS)
        assert sum(work.begins for work in fleet.evidence().work) >= count, "the scripts witness it"
