"""The structure: the set of roles, deployments, nodes and noderoles, and the links between them.

A decision may rest on a record that does *not* exist (no conflict, no child, nothing left in a deployment). No record's
version covers that. So every transaction that changes the structure raises the version of one znode, as read before the
decision. If two decisions rest on the same version, one of them is refused, and must be made again. Claims, runs, commits and
settling leave this znode alone, so annealers never wait for one another. A decision that rests on the structure without
changing it carries ``unchanged``.

The same record keeps the highest generation, epoch and rollout id of all deleted records. So a new record of the same name
never uses a number that a machine or a person knows from the deleted one.

If a member of a cluster is deleted, the same transaction raises the cluster's gate. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from nodepool_ocb.engine import drift
from nodepool_ocb.engine.world import ClusterView, NodeView, Stored, Vertex, World
from nodepool_ocb.errors import Conflict, Stale
from nodepool_ocb.model import kinds, limits, paths
from nodepool_ocb.model.networks import Network
from nodepool_ocb.model.records import (
    Change,
    Check,
    Create,
    Delete,
    Deployment,
    DeploymentRole,
    Fence,
    Gate,
    Node,
    NodeRole,
    Raise,
    Role,
    RolloutPointer,
    Set,
    Structure,
    TaskRunPointer,
)

LOST_ADVICE: Final = (
    "it was deleted by hand: stop every annealer, then zkCli.sh -server HOST create PATH '{\"schema\":1}',"
    " and start them"
)
FENCE_ADVICE: Final = (
    "; a new fence begins at 0, and the machine obeys no epoch below its newest: before the start write"
    ' "epoch_base":{} or more into the record of the node'
)


#: The records that the structure is the set of.
_MEMBERS: Final = frozenset({Role, Deployment, DeploymentRole, Node, NodeRole, Network})
#: Those that count with their content: links between roles; subnets, which must not overlap, and ranges of addresses.
_WHOLE: Final = frozenset({Role, Network})


def raised(world: World, changes: Iterable[Change]) -> list[Change]:
    """The transaction, with the structure's version raised if it changes the structure.

    Raises Stale if it deletes a noderole or node that the world does not show: no decision has covered that.
    """
    transaction = _with_gates(world, changes)
    if not _raises(transaction) and any(_comes_or_goes(each) or _leaves(world, each) for each in transaction):
        before = stored(world)
        transaction.append(Set(paths.STRUCTURE, _above_all_deleted(world, before.record, transaction), before.version))
    return transaction


def unchanged(world: World) -> Check:
    """The check for a decision that rests on the structure and does not change it."""
    return Check(paths.STRUCTURE, stored(world).version)


def in_parts(world: World, groups: Iterable[Sequence[Change]]) -> Iterator[list[Change]]:
    """The changes of ``raised`` in as few transactions as have room for all groups. Each group stays whole.

    Write each before taking the next: the world's structure goes along.
    """
    own = Set(paths.STRUCTURE, Structure(), 0)
    for part in limits.parts((_with_gates(world, group) for group in groups), beside=(own,)):
        yield from written(world, part)


def written(world: World, part: Iterable[Change]) -> Iterator[list[Change]]:
    """One transaction as ``in_parts`` gives it."""
    transaction = raised(world, part)
    yield transaction
    for change in transaction:
        if isinstance(change, Set) and isinstance(change.data, Structure):
            world.put(Stored(change.data, change.version + 1))


def forgotten(transaction: Sequence[Change]) -> bool:
    """Whether a record is created, deleted or defined anew, and the structure's version is not raised.

    The first transaction of a cluster creates the structure.
    """
    return any(map(_comes_or_goes, transaction)) and not _raises(transaction)


def gates_raised(member: Vertex) -> Iterator[Change]:
    """The changes that raise the gates of a member that is deleted, or ceases to be satisfied."""
    for role in member.record.serves:
        yield Raise(paths.gate(member.record.deployment, role), Gate(by=member.name))


def _with_gates(world: World, changes: Iterable[Change]) -> list[Change]:
    transaction = list(changes)
    for change in list(transaction):
        match change.path.split("/")[2:], change:
            case ["nodes", fqdn, "noderoles", role], Delete():
                vertex = world.vertex(paths.noderole_name(role, fqdn))
                gates = gates_raised(vertex) if vertex is not None else ()
                there = {each.path for each in transaction}
                transaction += [gate for gate in gates if gate.path not in there]
    return transaction


def _raises(transaction: Sequence[Change]) -> bool:
    return any(isinstance(change, Set | Create) and change.path == paths.STRUCTURE for change in transaction)


def _comes_or_goes(change: Change) -> bool:
    found = kinds.find(change.path)
    if found is None or found.kind.record not in _MEMBERS:
        return False
    return isinstance(change, Create | Delete) or (found.kind.record in _WHOLE and not isinstance(change, Check))


def _leaves(world: World, change: Change) -> bool:
    """Whether a node goes to another deployment or address, or gets another MAC; or something is marked as to be deleted."""
    match change.path.split("/")[2:], getattr(change, "data", None):
        case ["nodes", fqdn], Node() as after:
            view = world.nodes.get(fqdn)
            before = view.record if view else None
            return before is None or _placed(before) != _placed(after)
        case ["deployments", name], Deployment() as deployment:
            known = world.deployments.get(name)
            return known is None or known.record.deleting != deployment.deleting
        case ["deployments", name, "roles", role], DeploymentRole() as shared:
            stored = world.deployment_roles.get((name, role))
            return stored is None or stored.record.deleting != shared.deleting
    return False


def _placed(node: Node) -> tuple[object, ...]:
    return node.deployment, node.deleting, node.addresses, node.macs, node.networks


def _above_all_deleted(world: World, record: Structure, transaction: Iterable[Change]) -> Structure:
    generation, epoch, rollout = record.generation, record.epoch, record.rollout
    for change in transaction:
        found = kinds.find(change.path) if isinstance(change, Delete) else None
        kind = found.kind.record if found is not None else None
        names = found.names if found is not None else ()
        if kind is NodeRole:
            vertex = world.nodes[names[0]].noderoles.get(names[1]) if names[0] in world.nodes else None
            if vertex is None:
                raise _not_there(change)
            generation = max(generation, vertex.record.generation)
            # Where a hand took the fence, nothing else knows the epochs of its machine.
            if vertex.node.fence < 0 and vertex.record.epoch:
                epoch = max(epoch, vertex.record.epoch + 1)
        elif kind is Fence:
            view = world.nodes.get(names[0])
            if view is None or view.record is None:
                raise _not_there(change)
            epoch = max(epoch, view.epoch + 1)  # above its own base, too: no two lives of a name share one
        elif kind in (RolloutPointer, TaskRunPointer):
            pointer = (world.rollouts if kind is RolloutPointer else world.task_runs).get(names[0])
            if pointer is None:
                raise _not_there(change)
            rollout = max(rollout, pointer.record.id_base, int(pointer.record.newest or -1))
    return replace(record, generation=generation, epoch=epoch, rollout=rollout)


def _not_there(change: Change) -> Stale:
    return Stale(f"{change.path} did not exist when this was decided; read it again", change.path)


def stored(world: World) -> Stored[Structure]:
    """Raises Conflict if it cannot be read."""
    if world.structure is None:
        raise Conflict(
            f"{paths.STRUCTURE} cannot be read, so records can be neither created nor deleted; restore it from a backup;"
            f" see: nodepool-ocb record show {paths.STRUCTURE}"
        )
    return world.structure


# -- the znodes that every claim needs --


def lacking(vertex: Vertex) -> Iterator[tuple[str, str]]:
    """The missing fence and gates that a claim of the noderole needs: each path with the next step."""
    view = vertex.node
    if view.fence < 0 and view.record is not None and paths.fence(view.name) not in view.world.unreadable:
        yield paths.fence(view.name), LOST_ADVICE + FENCE_ADVICE.format(_above_all_epochs(view))
    for gate in (paths.gate(each.deployment, each.role) for each in _gates(vertex) if each.gate < 0):
        if gate not in view.world.unreadable:
            yield gate, LOST_ADVICE


def _above_all_epochs(view: NodeView) -> int:
    """The highest epoch in the record of the node and in those of its noderoles."""
    base = view.record.epoch_base if view.record else 0
    return max([base, *(drift.epoch(each.record) for each in view.noderoles.values())])


def _gates(vertex: Vertex) -> list[ClusterView]:
    """The clusters that it waits for, and those that it is a member of: it cannot be written without their gates."""
    named = map(vertex.node.world.clusters.get, vertex.record.parents)
    return [*(each for each in named if each is not None and each.members), *vertex.clusters]
