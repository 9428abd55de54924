"""Noderoles with nothing to run on a machine: claimed and done in one transaction, as many of a node as it has room for.

Parents are done before their children, so that a chain of milestones costs one transaction and not one for each. The claim
is made and given back in that same transaction, which raises the fence once: whoever claims the node at the same time is
refused, or refuses it. Where a run has just ended, its end stands in the transaction, too. What there is no room for goes
into the next one. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol

import msgspec
from msgspec.structs import replace

from nodepool_ocb.engine import claim, inputs
from nodepool_ocb.engine.claim import Grant
from nodepool_ocb.engine.hooks.noderole import with_hook
from nodepool_ocb.engine.noderole import Event, Settling, after
from nodepool_ocb.engine.world import NodeView, Vertex, World
from nodepool_ocb.errors import Conflict, NotFound
from nodepool_ocb.model import limits, paths
from nodepool_ocb.model.records import Change, Create, Delete, NodeRole, Run, Set


class Ended(msgspec.Struct, frozen=True):
    """A run that is over: its grant, what becomes of its noderole, and what it leaves."""

    grant: Grant
    record: NodeRole
    run: Run
    results: Iterable[Change] = ()


class Annealer(Protocol):
    """Who carries the noderoles out."""

    @property
    def identity(self) -> str: ...

    def name_run(self, view: NodeView) -> str:
        """A name for a run, given once."""

    def at_once(self, view: NodeView, moved: Mapping[Vertex, NodeRole]) -> Iterable[Vertex]:
        """The noderoles of a node that may start and have nothing to run, ``moved`` being what is to be written with them."""


class Carried(msgspec.Struct, frozen=True):
    """The noderoles that one transaction does, each as its claim, and the transaction."""

    node: str
    done: list[Grant]
    changes: list[Change]


def carry(world: World, view: NodeView, by: Annealer, now: float, ended: Ended | None = None) -> Carried | None:
    """All that can be done at once on a free node, or behind the run that ``ended`` on it; None where that is nothing."""
    return _Carrying(world, view, by, now, ended).carry()


class _Carrying:
    def __init__(self, world: World, view: NodeView, by: Annealer, now: float, ended: Ended | None) -> None:
        self._world, self._view, self._by, self._now, self._ended = world, view, by, now, ended
        self._room: limits.Room | None = None  # made for the first that can be done
        self._settling: Settling[Vertex] = Settling(now)
        self._moved: dict[Vertex, NodeRole] = {}
        self._written: dict[Vertex, NodeRole] = {}
        self._checked: set[str] = set()  # paths that the transaction checks already
        self._done: list[Grant] = []

    def carry(self) -> Carried | None:
        tried: set[Vertex] = set()
        room = True
        if self._ended is not None:
            self._write(self._ended.grant.vertex, self._ended.record)
        while room and (ready := [v for v in self._by.at_once(self._view, self._moved) if v not in tried]):
            tried.update(ready)
            room = all(map(self._add, ready))
        if self._room is None or not self._done:
            return None
        for vertex, record in self._moved.items():
            if vertex not in self._written and not self._take(vertex, record):
                break  # settled by whoever watches it
        return Carried(self._view.name, self._done, self._room.changes)

    def _take(self, vertex: Vertex, record: NodeRole) -> bool:
        """Put in the record of a neighbour; False where there is no room. One that rests on a left-out record is left out."""
        assert self._room is not None
        try:
            needed = claim.standing(vertex, record, self._written)
        except Conflict:
            return True
        checks = [check for check in needed if check.path not in self._checked]
        if not self._room.take([*checks, *claim.writes(vertex, record)]):
            return False
        self._checked.update(check.path for check in checks)
        self._written[vertex] = record
        return True

    def _add(self, vertex: Vertex) -> bool:
        """Do a noderole; False where there is no room for more. One that cannot be done here is left out."""
        try:
            grant = self._grant(vertex)
            needed = list(claim.conditions(self._world, vertex, grant.record, self._written))
            done = after(grant.record, Event.SUCCEED, self._now, by=grant.annealer)
            done = replace(done, given=inputs.of_instant(self._world.role_of(vertex).jig))
        except (Conflict, NotFound):
            return True
        record = with_hook(vertex, done, before=grant.record.state)
        checks = [check for check in needed if check.path not in self._checked]
        if self._room is None:
            self._room = limits.Room(self._frame(grant))
        if not self._room.take([*checks, *claim.writes(vertex, record), *claim.outcome(grant, _run(grant, self._now))]):
            return False
        self._checked.update(check.path for check in checks)
        self._done.append(grant)
        self._write(vertex, record)
        return True

    def _write(self, vertex: Vertex, record: NodeRole) -> None:
        self._written[vertex] = record
        self._moved |= self._settling.move({vertex: record})

    def _grant(self, vertex: Vertex) -> Grant:
        record, run = self._moved.get(vertex, vertex.record), self._by.name_run(self._view)
        if self._ended is not None:
            return claim.take_next(self._world, self._ended.grant, vertex, record, run, self._now)
        return claim.take_as(self._world, vertex, record, self._by.identity, run, self._now)

    def _frame(self, first: Grant) -> Iterator[Change]:
        """What stands around the noderoles: the fence rises, and nobody else holds the node."""
        path = paths.claim(self._view.name)
        yield Set(paths.fence(self._view.name), claim.fence_of(first), first.fence - 1)
        if self._ended is None:
            yield from (Create(path, claim.claim_of(first), ephemeral=True), Delete(path, 0))
            return
        grant = self._ended.grant
        yield from claim.outcome(grant, self._ended.run, self._ended.results)
        checks = claim.standing(grant.vertex, self._ended.record, self._written)
        self._checked.update(check.path for check in checks)
        yield from (*checks, *claim.writes(grant.vertex, self._ended.record))
        yield Delete(path, grant.claim_version)


def _run(grant: Grant, now: float) -> Run:
    """One that took no time."""
    return Run(
        annealer=grant.annealer,
        started=now,
        ended=now,
        outcome="succeeded",
        generation=grant.record.generation,
        epoch=grant.epoch,
        queued=grant.queued,
        exit_code=0,
    )
