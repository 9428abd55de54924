"""An execution that is driven, and the interface of each kind for its driver (drivers)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Generic, Protocol, TypeVar

import msgspec

from nodepool_ocb.engine.world import Stored, World
from nodepool_ocb.model.records import Change, Pointer
from nodepool_ocb.store.world.changeset import ChangeSet
from nodepool_ocb_annealer.timer_kinds import TimerKind


class DrivenExecution(Protocol):
    """Something under way, as its driver knows it."""

    @property
    def deployment(self) -> str: ...
    @property
    def id(self) -> str: ...
    @property
    def name(self) -> str:
        """How the log names it."""

    @property
    def over(self) -> bool: ...
    @property
    def pointer(self) -> Pointer:
        """The deployment's own record, as it was read."""

    @property
    def version(self) -> int:
        """The version of the pointer."""


D = TypeVar("D", bound=DrivenExecution)


class DrivingStep(msgspec.Struct, Generic[D], frozen=True):
    """One transaction, and the execution after it; nothing to write if ``changes`` is empty."""

    changes: Sequence[Change]
    after: D
    due: float | None = None  # Unix time at which to look again
    quiet: bool = False  # no caller waits for it
    lines: Sequence[tuple[int, str]] = ()  # for the log, once it is written: each with its level


class Work(Protocol[D]):
    """A kind of thing that is driven."""

    @property
    def what(self) -> str:
        """The kind of the work, in one word."""

    @property
    def timer_kind(self) -> TimerKind:
        """Its timers."""

    @property
    def root(self) -> str:
        """The path that everything of it is below."""

    def pointers(self, world: World) -> Mapping[str, Stored[Pointer]]:
        """The pointers, by deployment."""

    def concerns(self, touched: ChangeSet) -> bool:
        """Whether a pointer changed."""

    def lock(self, deployment: str, identity: str) -> str: ...

    def read(self, deployment: str, identity: str) -> D | None:
        """The execution as it is now; None if it does not exist or was never begun."""

    def move(self, world: World, driven: D, now: float, quarantined: Iterable[str]) -> DrivingStep[D]:
        """The next transaction; ``quarantined``: the paths of records that the world does not have."""

    def nodes(self, driven: D) -> frozenset[str]:
        """The nodes with noderoles that it waits for."""

    def count(self, driven: int) -> None:
        """Have the metrics say how many this annealer drives."""

    def took(self, seconds: float) -> None:
        """... how long a look took."""

    def wrote(self) -> None:
        """... that something was written."""
