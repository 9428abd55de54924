"""Storms: many noderoles, and every second or so an annealer is killed, frozen or cut off, or ZooKeeper restarted.

What the machines noted must be as if nothing had happened. The seed of a storm is in its output; the same seed gives
the same faults in the same order.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Sequence
from itertools import cycle, islice
from pathlib import Path

import pytest
from fleet import SESSION_SECONDS, Fleet
from processes import Annealer

from nodepool_ocb.testing.zookeeper import Server

CALM_SECONDS = 90.0  # after the storm, until all is ACTIVE
EXCESS = 0.02  # more starts than noderoles: runs are attached to, not run again


def kill(annealer: Annealer) -> Callable[[], object]:
    annealer.kill()
    return annealer.start


def freeze(annealer: Annealer) -> Callable[[], object]:
    annealer.freeze()
    return annealer.thaw


def cut(annealer: Annealer) -> Callable[[], object]:
    annealer.proxy.cut()
    return annealer.proxy.heal


class Storm:
    """Breaks one thing at a time, or several, and mends each after a while."""

    def __init__(self, server: Server, annealers: Sequence[Annealer], seed: int) -> None:
        self._server, self._annealers = server, annealers
        self._chance = random.Random(seed)
        self._broken: dict[str, tuple[float, Callable[[], object]]] = {}  # when it is to be mended, and how
        self._pause = threading.Event()
        self.faults = 0

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
        what = self._chance.choice(["kill", "freeze", "cut", "restart"])
        index = self._chance.randrange(len(self._annealers))
        lasts = self._chance.choice([0.2, 1.0, SESSION_SECONDS + 1.5])
        self.faults += 1
        if what == "restart":
            self._server.restart()
        elif f"a{index}" not in self._broken:
            mend = {"kill": kill, "freeze": freeze, "cut": cut}[what](self._annealers[index])
            self._broken[f"a{index}"] = time.monotonic() + lasts, mend

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
        annealers = [fleet.annealer().start() for _ in range(3)]
        storm = Storm(server, annealers, seed)
        storm.blow(seconds, every_seconds)
        fleet.until_all_active(CALM_SECONDS)
        print(f"{storm.faults} faults, {sum(fleet.starts().values())} starts of {count} noderoles")
        assert not fleet.faults()
        assert sum(fleet.starts().values()) <= count * (1 + EXCESS)
