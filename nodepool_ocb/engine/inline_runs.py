"""Inline runs: noderoles with nothing to run on a machine, claimed and completed in one transaction.

One transaction completes as many noderoles of a node as it has room for, parents before children, so a chain of milestones
costs one transaction. It creates and deletes the claim, and raises the fence once. If another annealer claims the node at the
same time, one of both is refused. If a run has just ended on the node, its end stands in the same transaction. Noderoles for
which there is no room wait for the next transaction. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from nodepool_ocb.engine import claim, inputs
from nodepool_ocb.engine.claim import Grant
from nodepool_ocb.engine.entering import with_hook
from nodepool_ocb.engine.noderole import Event, Propagation, after, claimable
from nodepool_ocb.engine.readiness import runnable
from nodepool_ocb.engine.world import NodeView, Vertex, World
from nodepool_ocb.errors import Conflict, NotFound
from nodepool_ocb.model import limits, paths
from nodepool_ocb.model.records import Change, Create, Delete, NodeRole, Role, Run, Set, State


class EndedRun(msgspec.Struct, frozen=True):
    """A run that has ended on the node: its grant, the record that its noderole gets, its own record, and its results."""

    grant: Grant
    record: NodeRole
    run: Run
    results: Iterable[Change] = ()


class InlineRunner(msgspec.Struct, frozen=True):
    """The annealer that completes the noderoles.

    ``jigs``: the names of its jigs; ``instant``: those of them that run nothing on a machine. Its runs are named by ``token``
    and by numbers from ``first_run``; the caller must use no number twice.
    """

    identity: str
    jigs: Collection[str]
    instant: Collection[str]
    token: str
    first_run: int


class InlineBatch(msgspec.Struct, frozen=True):
    """The noderoles that one transaction completes, each as its claim, and the transaction."""

    node: str
    done: list[Grant]
    changes: list[Change]


def run_name(view: NodeView, token: str, number: int) -> str:
    """The name of a coming run on the node. Names sort by epoch; the pair of token and number makes each unique."""
    return f"{view.epoch + 1:010d}-{token}{number:x}"


def runs_inline(role: Role, jig: str, instant: Collection[str]) -> bool:
    """Whether a run of the role by ``jig`` has nothing to do on a machine. ``instant``: the jigs without work on a machine."""
    return jig in instant and jig == role.jig and "on_transition" not in role.hooks


def begins_inline(world: World, vertex: Vertex, instant: Collection[str]) -> bool:
    """Whether the next run of the noderole has nothing to do on a machine. A run that is under way is not inline."""
    if vertex.record.state is State.TRANSITION or vertex.record.check is not None:
        return False
    role = world.role_of(vertex)
    return runs_inline(role, role.jig, instant)


def claimables(view: NodeView, moved: Mapping[Vertex, NodeRole], tried: Collection[Vertex] = ()) -> list[Vertex]:
    """The noderoles of a node in a state that can be claimed, with the records ``moved`` written, but for those ``tried``."""
    ready = view.ready
    left = [vertex for vertex in ready if vertex not in tried] if tried else list(ready)
    left += [vertex for vertex in moved if vertex.node is view and vertex not in ready and vertex not in tried]
    return [vertex for vertex in left if claimable(moved.get(vertex, vertex.record))] if moved else left


def complete_inline(
    view: NodeView,
    by: InlineRunner,
    now: float,
    ended: EndedRun | None = None,
    inline: Sequence[Vertex] | None = None,
) -> InlineBatch | None:
    """One transaction that completes every inline noderole of the node that may start; None if there is none.

    The caller has seen that the node is free, or that ``ended`` has just ended on it. ``inline``: its inline noderoles that may
    start now, where the caller has looked already.
    """
    return _Completing(view, by, now, ended).batch(inline)


class _Completing:
    def __init__(self, view: NodeView, by: InlineRunner, now: float, ended: EndedRun | None) -> None:
        self._world, self._view, self._by, self._now, self._ended = view.world, view, by, now, ended
        self._room: limits.Room | None = None  # made for the first that can be done
        self._settling: Propagation[Vertex] = Propagation(now)
        self._moved: dict[Vertex, NodeRole] = {}
        self._written: dict[Vertex, NodeRole] = {}
        self._checked: set[str] = set()  # paths that the transaction checks already
        self._done: list[Grant] = []

    def batch(self, inline: Sequence[Vertex] | None) -> InlineBatch | None:
        tried: set[Vertex] = set()
        room = True
        if self._ended is not None:
            self._write(self._ended.grant.vertex, self._ended.record)
        ready = self._startable(tried) if inline is None else inline
        while room and ready:
            tried.update(ready)
            room = all(map(self._add, ready))
            ready = self._startable(tried)
        if self._room is None or not self._done:
            return None
        for vertex, record in self._moved.items():
            if vertex not in self._written and not self._take(vertex, record):
                break  # an annealer that watches it settles it later
        return InlineBatch(self._view.name, self._done, self._room.changes)

    def _startable(self, tried: Collection[Vertex]) -> list[Vertex]:
        return [
            vertex
            for vertex in claimables(self._view, self._moved, tried)
            if runnable(self._world, vertex, self._now, self._by.jigs, self._moved)
            and begins_inline(self._world, vertex, self._by.instant)
        ]

    def _next_name(self) -> str:
        return run_name(self._view, self._by.token, self._by.first_run + len(self._done))

    def _take(self, vertex: Vertex, record: NodeRole) -> bool:
        """Add the record of a neighbour; False if there is no room. A record that rests on a left-out one is left out."""
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
        """Complete a noderole; False if there is no room for more. A noderole that cannot be completed here is left out."""
        try:
            grant = self._grant(vertex)
            needed = list(claim.conditions(self._world, vertex, grant.record, self._written, self._checked))
            done = after(grant.record, Event.SUCCEED, self._now, by=grant.annealer)
            done = replace(done, given=inputs.of_instant(self._world.role_of(vertex).jig))
        except (Conflict, NotFound):
            return True
        record = with_hook(vertex, done, grant.record)
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
        record, run = self._moved.get(vertex, vertex.record), self._next_name()
        if self._ended is not None:
            return claim.take_next(self._world, self._ended.grant, vertex, record, run, self._now)
        return claim.take_as(self._world, vertex, record, self._by.identity, run, self._now)

    def _frame(self, first: Grant) -> Iterator[Change]:
        """Around the noderoles: raise the fence, and claim and release the node, or release the claim of ``ended``."""
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
