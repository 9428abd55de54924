"""Executions: the lookups that rollouts and runs of tasks share. A subclass names its kind."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

from nodepool_ocb.model import paths
from nodepool_ocb.model.executions import ExecutionKind
from nodepool_ocb.model.records import LockOwner, Pointer
from nodepool_ocb.operations.operation import Lookup

if TYPE_CHECKING:
    from nodepool_ocb.operations.performer import Reader


class ListedExecution(Protocol):
    """An execution among others."""

    @property
    def deployment(self) -> str: ...

    @property
    def id(self) -> str: ...


L = TypeVar("L", bound=ListedExecution)


class ReadNewest(Lookup["str | None"], frozen=True):
    """The id of a deployment's newest execution; None before its first."""

    kind: ClassVar[ExecutionKind[Any]]

    deployment: str

    def answer(self, reader: Reader) -> str | None:
        from nodepool_ocb.store.driven import pointers

        path = self.kind.pointer_path(self.deployment)
        known: Pointer = pointers.read(reader.session, path, self.kind.pointers)[0]
        return known.newest


class ReadDriver(Lookup["LockOwner | None"], frozen=True):
    """The annealer that drives an execution; None if none does."""

    kind: ClassVar[ExecutionKind[Any]]

    deployment: str
    identity: str

    def answer(self, reader: Reader) -> LockOwner | None:
        from nodepool_ocb.store.locks import holders

        return holders(reader.session, [self.kind.lock(self.deployment, self.identity)])[0]


class AnnealerRuns(Lookup[bool], frozen=True):
    """True if an annealer is running."""

    records = "daemons"

    def answer(self, reader: Reader) -> bool:
        return bool(reader.session.children(paths.daemons("annealer")))


def newest_first(found: Iterable[L]) -> list[L]:
    """Executions by deployment, the newest first."""
    return sorted(found, key=lambda each: (each.deployment, -int(each.id)))
