"""Claim, finish, release: each one transaction, and the transaction is the whole check (docs/zookeeper.md).

The fence of a node only ever rises: its version plus the node's epoch_base is the epoch of the newest claim. A claim carries
the versions of the records that it was decided from. Each write for a run carries the fence of its claim, so that no
annealer changes anything after its node was taken over.

A claim below a cluster carries the version of the cluster's gate instead of one for each member. ``writes`` is the only
place that writes the record of an existing noderole. It raises the gates of a member that ceases to be satisfied. Neighbours
are written as far as one transaction has room (limits); the annealers that watch them settle the others.

Three changes make a noderole satisfied: the end of its run, SKIP and ALLOW. Their transaction carries the versions of its other
parents, and of the gates of its clusters (``standing``). Otherwise a parent that is redeployed at the same time would be
missed: the children of this noderole would start before it.

Pure: returns the changes; store.session writes them.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec.structs
from msgspec.structs import replace

from nodepool_ocb.engine.noderole import Event, Forecast, after, satisfied
from nodepool_ocb.engine.structure import gates_raised
from nodepool_ocb.engine.world import ClusterView, NodeView, Vertex, World, ordered_with
from nodepool_ocb.errors import Conflict
from nodepool_ocb.model import limits, paths
from nodepool_ocb.model.records import Change, Check, Claim, Create, Delete, Fence, NodeRole, Run, Set, State

#: No transaction is planned before: noderoles have the records of the world.
AS_STORED: Final[Forecast[Vertex]] = Forecast()


class Grant(msgspec.Struct, frozen=True):
    """The claim and the epoch with which an annealer works on a node."""

    vertex: Vertex
    record: NodeRole  # the noderole in TRANSITION, as the claim wrote it
    annealer: str
    run: str
    epoch: int
    fence: int  # the version of the node's fence in this epoch
    started: float
    claim_version: int = 0  # of the claim's znode: it rises when the claim passes to the next noderole
    previous_epoch: int | None = None  # of the run that is taken over
    jig: str | None = None  # that the run is ordered with; of a run that is taken over, that it was ordered with
    queued: float | None = None  # when it came to be TODO; None of a take-over, and of a refresh

    @property
    def fqdn(self) -> str:
        return self.vertex.node.name


def take(world: World, vertex: Vertex, annealer: str, run: str, now: float) -> Grant:
    """The grant that a claim of the noderole would give."""
    return take_as(world, vertex, vertex.record, annealer, run, now)


def take_next(world: World, grant: Grant, vertex: Vertex, record: NodeRole, run: str, now: float) -> Grant:
    """The grant for the next noderole of the node; ``record``: as the end of ``grant`` leaves it."""
    following = take_as(world, vertex, record, grant.annealer, run, now)
    return msgspec.structs.replace(
        following, epoch=grant.epoch + 1, fence=grant.fence + 1, claim_version=grant.claim_version + 1
    )


def take_as(world: World, vertex: Vertex, record: NodeRole, annealer: str, run: str, now: float) -> Grant:
    """The grant for a noderole that will have this record."""
    taking_over = record.state is State.TRANSITION
    epoch, fence = vertex.node.epoch + 1, vertex.node.fence + 1
    claimed = replace(after(record, Event.CLAIM, now, by=annealer), run=run, epoch=epoch)
    role = world.role_of(vertex)
    if "destructive" in role.flags and claimed.check is None:
        claimed = claimed.amended(once="started")
    jig = ordered_with(vertex) if taking_over else None
    previous = record.epoch if taking_over else None
    return Grant(
        vertex,
        claimed,
        annealer,
        run,
        epoch,
        fence,
        now,
        previous_epoch=previous,
        jig=jig or role.jig,
        queued=record.since if record.state is State.TODO else None,
    )


def claiming(world: World, grant: Grant, recorded: bool = False) -> list[Change]:
    """The transaction of a claim; ``recorded``: the run that is taken over has its record already.

    Raises Conflict if the view is not whole enough to claim from: a parent or the deployment is missing.
    """
    vertex, node = grant.vertex, grant.vertex.node
    return [
        *conditions(world, vertex, grant.record, written={}),
        Set(paths.fence(node.name), fence_of(grant), node.fence),
        Create(paths.claim(node.name), claim_of(grant), ephemeral=True),
        *writes(vertex, grant.record),
        *(
            ()
            if recorded
            else accounted(vertex, grant.started, "abandoned", f"taken over by {grant.annealer} as run {grant.run}")
        ),
    ]


def finishing(
    grant: Grant, moved: Mapping[Vertex, NodeRole], run: Run | None, results: Iterable[Change] = ()
) -> list[Change]:
    """The transaction that ends a run and gives the node back.

    ``moved``: the new records of the noderole and of the neighbours that it moves; ``results``: the changes of its wall.
    """
    together = [
        Check(paths.fence(grant.fqdn), grant.fence),
        *outcome(grant, run, results),
        Delete(paths.claim(grant.fqdn), grant.claim_version),
    ]
    return settling(moved, (grant.vertex,), together)


def passing_on(
    world: World,
    grant: Grant,
    moved: Mapping[Vertex, NodeRole],
    run: Run,
    following: Grant,
    results: Iterable[Change] = (),
) -> list[Change]:
    """The transaction that ends a run and claims the next noderole of the same node in its place."""
    moved = {**moved, following.vertex: following.record}
    first = dict.fromkeys([grant.vertex, following.vertex])
    if len(moved) > len(first):
        first |= dict.fromkeys(parent for parent in following.vertex.parents if parent in moved)
    together = [  # raises Conflict as claiming() does
        *conditions(world, following.vertex, following.record, {each: moved[each] for each in first if each in moved}),
        Set(paths.fence(grant.fqdn), fence_of(following), grant.fence),
        *outcome(grant, run, results),
        Set(paths.claim(grant.fqdn), claim_of(following), grant.claim_version),
    ]
    return settling(moved, first, together)


def giving_back(view: NodeView) -> list[Change]:
    """Delete a claim by which no annealer works, as it is in the view."""
    return [Check(paths.fence(view.name), view.fence), Delete(paths.claim(view.name), view.claim_version)]


def releasing(grant: Grant) -> list[Change]:
    """Give the node back and leave the noderole in TRANSITION: another annealer attaches to its run at once."""
    return [Check(paths.fence(grant.fqdn), grant.fence), Delete(paths.claim(grant.fqdn), grant.claim_version)]


def leaving(grant: Grant, reason: str) -> list[Change]:
    """Release the claim as releasing() does, with ``reason`` in the noderole's record for the next annealer. An unreadable record
    is not written."""
    vertex = grant.vertex
    if vertex.unreadable:
        return releasing(grant)
    return [*releasing(grant), *writes(vertex, vertex.record.amended(reason=reason))]


def superseded(world: World, grant: Grant) -> bool:
    """Whether the noderole, or its node, went on without the run of this grant: then its result is ignored."""
    vertex, record = grant.vertex, grant.vertex.record
    return (
        world.vertex(vertex.name) is not vertex
        or record.state is not State.TRANSITION
        or record.run != grant.run
        or vertex.node.fence != grant.fence
    )


def conditions(
    world: World,
    vertex: Vertex,
    record: NodeRole,
    written: Mapping[Vertex, NodeRole],
    known: Container[str] = (),
) -> Iterable[Check]:
    """The checks of a claim; ``written``: the records that the same transaction writes. Raises Conflict if a condition fails.

    ``known``: the paths that the transaction checks already, of this world.
    """
    node = paths.node(vertex.node.name)
    if node not in known:
        yield Check(node, vertex.node.version)
    if record.rare.cancel_reason is not None:  # nothing begins: its run must be ended, in any state of its parents
        return
    deployment, above = world.deployments.get(record.deployment), vertex.above
    if deployment is None or len(above) != len(vertex.record.parents):
        raise Conflict(f"{vertex.name}: its deployment or a parent does not exist")
    if paths.deployment(record.deployment) not in known:
        yield from _pausable(world, record.deployment)
    for parent in above:
        if isinstance(parent, ClusterView):
            yield _gate(vertex, parent, written)
            continue
        if not satisfied(written.get(parent, parent.record)):
            raise Conflict(f"{vertex.name}: its parent {parent.name} is {parent.record.state}")
        if parent not in written:  # a record that this transaction writes is checked by the write
            yield Check(paths.noderole(parent.role, parent.node.name), parent.version)


def _pausable(world: World, deployment: str) -> Iterable[Check]:
    """Its deployment, and all above it: none of them was paused since this was decided."""
    for name in world.line(deployment):
        if (stored := world.deployments.get(name)) is not None:
            yield Check(paths.deployment(name), stored.version)


def _gate(
    vertex: Vertex, cluster: ClusterView, written: Mapping[Vertex, NodeRole], forecast: Forecast[Vertex] = AS_STORED
) -> Check:
    """Every member is satisfied, as this transaction leaves it, and stays so until it is written."""
    fewer = forecast.fewer.get(cluster, 0) + sum(
        satisfied(record) - satisfied(forecast.record(member))
        for member, record in written.items()
        if member in cluster.members
    )
    if cluster.waiting - fewer or cluster.gate < 0:
        raise Conflict(f"{vertex.name}: not every member of {cluster.name} is ACTIVE")
    return Check(paths.gate(cluster.deployment, cluster.role), cluster.gate + forecast.gates.get(cluster, 0))


def fence_of(grant: Grant) -> Fence:
    """The fence's record of the newest claim."""
    return Fence(run=grant.run, annealer=grant.annealer, jig=grant.jig)


def claim_of(grant: Grant) -> Claim:
    """The record of the claim itself."""
    return Claim(
        annealer=grant.annealer, noderole=grant.vertex.name, run=grant.run, epoch=grant.epoch, since=grant.started
    )


def accounted(vertex: Vertex, now: float, outcome: str, reason: str) -> Iterable[Change]:
    """The record of a run that its annealer will not write: one for the run of a noderole in TRANSITION, else nothing."""
    before = vertex.record
    if before.state is State.TRANSITION and before.run is not None:
        reason = f"{reason}; {before.reason}" if before.reason else reason
        run = Run(
            annealer=before.by or "unknown",
            started=before.since,
            ended=now,
            outcome=outcome,
            generation=before.generation,
            epoch=before.epoch,
            reason=reason,
        )
        yield Create(paths.run(vertex.role, vertex.node.name, before.run), run)


def outcome(grant: Grant, run: Run | None, results: Iterable[Change] = ()) -> Iterable[Change]:
    """The results of a run: the changes of its wall, and its record."""
    yield from results
    if run is not None:
        yield Create(paths.run(grant.vertex.role, grant.fqdn, grant.run), run)


# -- records --


def writes(vertex: Vertex, record: NodeRole, forecast: Forecast[Vertex] = AS_STORED) -> list[Change]:
    """The changes that write this record of an existing noderole."""
    change = Set(paths.noderole(vertex.role, vertex.node.name), record, _version(vertex, forecast))
    if vertex.record.rare.serves and satisfied(forecast.record(vertex)) and not satisfied(record):
        return [*gates_raised(vertex), change]
    return [change]


def standing(
    vertex: Vertex, record: NodeRole, written: Mapping[Vertex, NodeRole], forecast: Forecast[Vertex] = AS_STORED
) -> list[Check]:
    """The checks of a record that becomes satisfied: each parent and gate. A parent that is ``written`` here needs none.

    Empty if the record is not satisfied, or was satisfied before, or if a parent's record cannot be read. Raises Conflict if a
    parent is not satisfied.
    """
    if not satisfied(record) or satisfied(before := forecast.record(vertex)) or vertex.unknown:
        return []
    checks, ends = [], before.state is State.TRANSITION
    for parent in vertex.above:
        if isinstance(parent, ClusterView):
            if parent.gate >= 0 or not ends:  # a run ends though a hand deleted the gate
                checks.append(_gate(vertex, parent, written, forecast))
        elif not satisfied(written.get(parent) or forecast.record(parent)):
            raise Conflict(f"{vertex.name}: its parent {parent.name} is {forecast.record(parent).state}")
        elif parent not in written:
            checks.append(Check(paths.noderole(parent.role, parent.node.name), _version(parent, forecast)))
    return checks


def _version(vertex: Vertex, forecast: Forecast[Vertex]) -> int:
    return vertex.version + (forecast.writes(vertex) if forecast is not AS_STORED else 0)


class Records:
    """A transaction that is being filled with records of noderoles, each with the checks that go with it.

    ``changes`` is its content, ``written`` the records among them. ``forecast``: of the transactions before it.
    """

    def __init__(
        self,
        together: Sequence[Change] = (),
        first: Mapping[Vertex, NodeRole] | None = None,
        forecast: Forecast[Vertex] = AS_STORED,
    ) -> None:
        self.written: dict[Vertex, NodeRole] = dict(first or {})
        self._forecast = forecast
        self._checked = {change.path for change in together if isinstance(change, Check)}
        stands = list(together)
        for vertex, record in self.written.items():
            stands += [*self._unchecked(standing(vertex, record, self.written)), *writes(vertex, record)]
        self._room = limits.Room(stands)

    @property
    def changes(self) -> list[Change]:
        return self._room.changes

    def take(self, vertex: Vertex, record: NodeRole, *more: Change) -> bool:
        """Add a record and its checks; False if there is no room for all of it.

        A record that rests on another one outside this transaction is left out: the annealer that watches it settles it later.
        """
        try:
            needed = standing(vertex, record, self.written, self._forecast)
        except Conflict:
            return True
        checks = [each for each in needed if each.path not in self._checked]
        if not self._room.take([*checks, *writes(vertex, record, self._forecast), *more]):
            return False
        self._checked.update(each.path for each in checks)
        self.written[vertex] = record
        return True

    def take_all(self, moved: Mapping[Vertex, NodeRole]) -> None:
        """Add these records, in their order, until there is no room for one."""
        for vertex, record in moved.items():
            if vertex not in self.written and not self.take(vertex, record):
                break

    def _unchecked(self, checks: Iterable[Check]) -> list[Check]:
        left = [each for each in checks if each.path not in self._checked]
        self._checked.update(each.path for each in left)
        return left


def settling(
    moved: Mapping[Vertex, NodeRole], first: Iterable[Vertex] = (), together: Sequence[Change] = ()
) -> list[Change]:
    """One transaction: ``together``, the records of ``first`` as far as they moved, and as many others as there is room for.

    A record that is left out is settled by the annealer that watches it. Raises Conflict if a record of ``first`` rests on one
    that is left out.
    """
    records = Records(together, {vertex: moved[vertex] for vertex in first if vertex in moved})
    records.take_all(moved)
    return records.changes


def settlings(moved: Mapping[Vertex, NodeRole]) -> Iterator[list[Change]]:
    """All of these records, in as few transactions as possible; a record that rests on another one outside them is left out."""
    records, earlier = Records(), dict[Vertex, NodeRole]()
    for vertex, record in moved.items():
        if not records.take(vertex, record, *_set_back(vertex, record, records.written, earlier)):
            yield records.changes
            earlier |= records.written
            records = Records()
            records.take(vertex, record, *_set_back(vertex, record, records.written, earlier))
    if records.changes:
        yield records.changes


def _set_back(
    vertex: Vertex, record: NodeRole, written: Mapping[Vertex, NodeRole], earlier: Mapping[Vertex, NodeRole]
) -> list[Check]:
    """The check of a record that goes back to BLOCKED: an unsatisfied parent is still as it was seen.

    A world may have the newest record of a noderole and an older one of its parent: without the check, a noderole that is ACTIVE
    by right would run again. Empty if the parent is ``written`` in the same transaction, absent or unreadable. ``earlier``: the
    records of the transactions before it.
    """
    if record.state is not State.BLOCKED or vertex.record.state is State.BLOCKED:
        return []
    for above in vertex.above:
        for parent in above.members if isinstance(above, ClusterView) else (above,):
            if satisfied(written.get(parent) or earlier.get(parent) or parent.record):
                continue
            if parent in written:
                return []
            if not parent.unreadable:
                return [Check(paths.noderole(parent.role, parent.node.name), parent.version + (parent in earlier))]
    return []


def written(moved: Mapping[Vertex, NodeRole], changes: Iterable[Change]) -> dict[Vertex, NodeRole]:
    """The records that a transaction writes."""
    there = {change.path for change in changes if isinstance(change, Set)}
    return {v: record for v, record in moved.items() if paths.noderole(v.role, v.node.name) in there}
