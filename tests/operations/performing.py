"""A performer without a command line: the caller is a list of notes. Each operation and each answer passes through JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

import pytest
from msgspec.structs import replace

from nodepool_ocb.config import Settings, ZooKeeperSettings
from nodepool_ocb.engine.world import World
from nodepool_ocb.errors import Conflict
from nodepool_ocb.model.records import Change
from nodepool_ocb.operations.operation import Call, Near, Operation, Performed
from nodepool_ocb.operations.performer import Performer
from nodepool_ocb.operations.wire import codec
from nodepool_ocb.store.client.session import Session, Stats

T = TypeVar("T")


class ListeningCaller:
    """Keeps its notes; agrees to everything, or to nothing."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.agreed: list[str] = []
        self.agrees = True

    def note(self, text: str) -> None:
        self.notes.append(text)

    def agree(self, text: str, details: Sequence[str]) -> bool:
        self.agreed += [*details, text]
        if not self.agrees:
            raise Conflict(f"refused: {text}")
        return True


class InterruptedPerformer(Performer):
    """A performer; another writer acts after its first read of the world, and before its first commit."""

    def __init__(self, settings: ZooKeeperSettings, meanwhile: Callable[[], object], **call: object) -> None:
        self.heard = ListeningCaller()
        super().__init__(Call(login="ann", host="desk", **call), self.heard, lambda: Settings(zookeeper=settings))  # type: ignore[arg-type]
        self._meanwhile: Callable[[], object] | None = meanwhile
        self.reads = 0

    def perform(self, operation: Operation[T], opened: Session | None = None) -> Performed[T]:
        kind = type(operation)
        if opened is None or not kind.__module__.startswith("nodepool_ocb."):
            return super().perform(operation, opened)
        sent = codec.decode_operation(kind, codec.encode_fields(operation))
        assert sent == operation
        performed = super().perform(sent, opened)
        received = tuple(codec.decode_answer(kind, codec.encode_answer(each)) for each in performed.answers)
        assert received == performed.answers
        return replace(performed, answers=received)

    def load(self, opened: Session) -> World:
        return self._read(super().load(opened))

    def load_near(self, opened: Session, near: Near | None) -> World:
        before = self.reads
        world = super().load_near(opened, near)
        return world if self.reads > before else self._read(world)

    def _read(self, world: World) -> World:
        self.reads += 1
        meanwhile, self._meanwhile = self._meanwhile, None
        if meanwhile is not None:
            meanwhile()
        return world


def calm(settings: ZooKeeperSettings, **call: object) -> InterruptedPerformer:
    """A performer that is alone."""
    return InterruptedPerformer(settings, lambda: None, **call)


@contextmanager
def faster_writer(meanwhile: Callable[[], object]) -> Iterator[list[int]]:
    """Another writer acts before the first commit within the block; the list has an item when it has acted."""
    real, done = Session.commit, list[int]()

    def commit(session: Session, changes: Sequence[Change]) -> Stats:
        if not done:
            done.append(1)
            meanwhile()
        return real(session, changes)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Session, "commit", commit)
        yield done
