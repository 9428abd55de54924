"""After ZooKeeper was restored from an older copy: nothing that comes is taken for a part of the lost time.

Machines remember the lost time: the highest epoch, and the result of each role and generation. So all numbers begin anew
above every number of the lost time: at the clock, in milliseconds for epochs and generations, in seconds for ids. Nothing
counts as fast. Everything is paused first. A run that the copy has under way is ended: it is to run again, or its outcome is
not known. A destructive noderole that is not done may have been done in the lost time: it becomes ERROR instead of running.
Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from nodepool_ocb.engine import claim, maintenance, structure
from nodepool_ocb.engine.deployments import SYSTEM
from nodepool_ocb.engine.noderole import Event, after, settle
from nodepool_ocb.engine.world import Vertex, World
from nodepool_ocb.errors import Conflict
from nodepool_ocb.model import limits, paths
from nodepool_ocb.model.records import Change, Daemon, NodeRole, Set, State

ENDED = "ZooKeeper was restored from an older copy, so the outcome of this run is unknown"


def restored(
    world: World, daemons: Mapping[str, Mapping[str, Daemon | None]], now: float, by: str, reason: str | None
) -> Iterator[list[Change]]:
    """The transactions after ZooKeeper was restored. After a stop behind any of them, the same command goes on.

    ``daemons``: the registrations, by kind and id; None for one that cannot be read. Raises Conflict if a daemon is registered, a
    node is claimed, or a record cannot be read.
    """
    _refuse(world, daemons)
    number, ids = int(now * 1000), int(now)
    yield [*_pause(world, by, reason, now), *_structure(world, number, ids)]
    yield from limits.parts(limits.singly([*_nodes(world, number), *_pointers(world, ids)]))
    moved = _noderoles(world, number, now, by)
    yield from limits.parts(claim.writes(vertex, record) for vertex, record in moved.items())


def _refuse(world: World, daemons: Mapping[str, Mapping[str, Daemon | None]]) -> None:
    every = {**daemons, "annealer": world.annealers}
    registered = [(kind, *each) for kind, found in sorted(every.items()) for each in sorted(found.items())]
    for kind, identity, daemon in registered:
        on = f", on {daemon.host}" if daemon is not None else ""
        raise Conflict(
            f"{kind} {identity} is registered{on}: stop every daemon, and wait until its session is over;"
            " see: nodepool-ocb daemon list"
        )
    for view in world.nodes.values():
        if view.claim is not None:
            raise Conflict(
                f"node {view.name} is claimed by {view.claim.annealer}; wait until its session is over;"
                " see: nodepool-ocb daemon list"
            )
    for path in sorted(world.unreadable):
        raise Conflict(
            f"{path} cannot be read, so its numbers cannot be raised; first: nodepool-ocb record delete {path}"
        )


def _pause(world: World, by: str, reason: str | None, now: float) -> list[Change]:
    before = world.paused.get(SYSTEM)
    if not maintenance.holds(before, now):
        return maintenance.pause(world, SYSTEM, by, reason, now, None)
    if before.until is None:
        return []  # for a reason that stays
    stored = world.deployments[SYSTEM]  # a pause that ends by itself would end before a person has looked
    lasting = replace(stored.record, pause=replace(before, until=None))
    return [Set(paths.deployment(SYSTEM), lasting, stored.version)]


def _structure(world: World, number: int, ids: int) -> list[Change]:
    before = structure.stored(world)
    record = before.record
    raised = replace(
        record,
        generation=max(record.generation, number),
        epoch=max(record.epoch, number),
        rollout=max(record.rollout, ids),
    )
    return [Set(paths.STRUCTURE, raised, before.version)]


def _nodes(world: World, number: int) -> Iterator[Change]:
    for view in world.nodes.values():
        if view.record is not None:
            base = max(view.epoch + 1, number)
            yield Set(paths.node(view.name), replace(view.record, epoch_base=base), view.version)


def _pointers(world: World, ids: int) -> Iterator[Change]:
    for name, rollouts in world.rollouts.items():
        raised = replace(rollouts.record, id_base=max(rollouts.record.id_base, ids))
        yield Set(paths.rollouts(name), raised, rollouts.version)
    for name, runs in world.task_runs.items():
        above = replace(runs.record, id_base=max(runs.record.id_base, ids))
        yield Set(paths.task_runs(name), above, runs.version)


def _noderoles(world: World, number: int, now: float, by: str) -> dict[Vertex, NodeRole]:
    raised = {vertex: _raised(vertex, number, now, by) for vertex in world.vertices()}
    return settle(raised, now)


def _raised(vertex: Vertex, number: int, now: float, by: str) -> NodeRole:
    record = vertex.record
    if vertex.destructive and record.once is None and record.state is not State.ACTIVE:
        record = record.amended(once="started")
    if record.state is State.TRANSITION:
        record = _ended(record, now, by)
    return replace(record, generation=max(record.generation, number))


def _ended(record: NodeRole, now: float, by: str) -> NodeRole:
    """A run that is under way in the copy; a refresh runs again in place, so its children are not disturbed."""
    if record.cancel_reason is not None:
        return after(record, Event.FAIL, now, by, ENDED)
    if record.check is not None:
        return after(record, Event.CHECKED, now, by, ENDED)
    if record.refresh:
        return after(after(record, Event.SUCCEED, now, by), Event.REFRESH, now, by, ENDED)
    return after(record, Event.LOSE, now, by, ENDED)
