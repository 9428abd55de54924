"""An execution without content, and the part of an annealer that its driver needs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import SimpleNamespace
from typing import Any

import msgspec

from nodepool_ocb.config import AnnealerSettings
from nodepool_ocb.daemon.timers import Timers
from nodepool_ocb.engine.world import Stored, World
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Change, Check, Pointer, RolloutPointer
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.driven import pointers
from nodepool_ocb.store.world.changeset import ChangeSet
from nodepool_ocb_annealer.driving.work import DrivingStep
from nodepool_ocb_annealer.timer_kinds import Timer, TimerKind

LAB, ID, ME = "lab", "0000000001", "annealer-1"
POINTER = paths.rollouts(LAB)


class Execution(msgspec.Struct, frozen=True):
    """An execution without content: its driver has one transaction to write."""

    pointer: Pointer
    version: int
    deployment: str = LAB
    id: str = ID
    name: str = "rollout lab/1"
    over: bool = False


class Executions:
    """The ``Work`` of a driver: executions as they stand in ZooKeeper."""

    what = "rollout"
    timer_kind = TimerKind.ROLLOUT
    root = paths.ROLLOUTS

    def __init__(self, session: Session) -> None:
        self.session = session

    def pointers(self, _world: World) -> Mapping[str, Stored[Pointer]]:
        pointer, version = pointers.read(self.session, POINTER, RolloutPointer)
        return {LAB: Stored(pointer, version)}

    def concerns(self, _touched: ChangeSet) -> bool:
        return True

    def lock(self, _deployment: str, identity: str) -> str:
        return f"{POINTER}/{identity}/lock"

    def read(self, _deployment: str, _identity: str) -> Execution:
        return Execution(*pointers.read(self.session, POINTER, RolloutPointer))

    def move(
        self, _world: World, driven: Execution, _now: float, _quarantined: Iterable[str]
    ) -> DrivingStep[Execution]:
        return DrivingStep([Check(POINTER, driven.version)], driven)

    def nodes(self, _driven: Execution) -> frozenset[str]:
        return frozenset()

    def count(self, driven: int) -> None: ...

    def took(self, seconds: float) -> None: ...

    def wrote(self) -> None: ...


class Annealer:
    """The part of an annealer that a driver needs; ``sent`` has the transactions that the driver wrote."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.world = World()
        self.cache: Any = SimpleNamespace(quarantined=())
        self.timers: Timers[Timer] = Timers()
        self.ranking: Any = SimpleNamespace(of=lambda _: 0)
        self.identity = ME
        self.registration: Any = SimpleNamespace(record=SimpleNamespace(host="h", pid=1))
        self.settings = AnnealerSettings()
        self.resting = False
        self.sent: list[list[Change]] = []

    def send(self, changes: list[Change], _then: Callable[[Any], None], _about: str) -> None:
        self.sent.append(changes)
