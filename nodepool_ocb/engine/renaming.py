"""Rename a node: its record, its noderoles with attributes and runs, and its name in the parents of other noderoles.

One transaction, so no reader sees a part of it. Generations are kept, so finished work stays done. The epoch rises above all
that the machine knows. Rollouts and logs keep the old name. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from nodepool_ocb.engine import addressing, deployments, installing, nodes, structure, unreadable
from nodepool_ocb.engine.claim import writes
from nodepool_ocb.engine.hooks.node import with_hook
from nodepool_ocb.engine.world import NodeView, World, node_of
from nodepool_ocb.errors import Conflict
from nodepool_ocb.model import limits, paths
from nodepool_ocb.model.records import Change, Create, Delete, Fence, Json, Node, NodeRole


def rename(
    world: World,
    fqdn: str,
    name: str,
    going: Sequence[Delete],
    contents: Mapping[str, Json],
    *,
    admin_domain: str | None,
) -> list[Change]:
    """The transaction that renames a node.

    ``going`` deletes the znodes of the node, leaves first; ``contents`` has those that the world does not show, by path. Raises
    NotFound. Raises Invalid for a name that is no FQDN in the admin domain. Raises Conflict for a name that is taken, or if the
    transaction would be too large. Raises Conflict also while an annealer works on the node, or a rollout or run of tasks may.
    """
    view = node_of(world, fqdn)
    nodes.check_name(name, admin_domain)
    node = _free_to_go(world, view, name)
    hooks = with_hook(world, node.hooks, "on_node_change")
    changed = {**node.changed, "name": ""} if "on_node_change" in hooks else node.changed
    epoch_base = max(structure.stored(world).record.epoch, view.epoch + 1)
    addresses = tuple(_address(address, fqdn, name) for address in node.addresses)
    named = replace(node, addresses=addresses, hooks=hooks, changed=changed, epoch_base=epoch_base)
    addressing.check(world, fqdn, addresses)
    known: dict[str, object] = {paths.node(fqdn): named, paths.fence(fqdn): Fence()}
    if (last := installing.stored(view)) is not None:
        role, _ = paths.split_noderole(last.record.noderole)
        known[paths.installation(fqdn)] = replace(last.record, noderole=paths.noderole_name(role, name))
    known |= {paths.noderole(v.role, fqdn): _following(v.record, fqdn, name) for v in view.noderoles.values()}
    made = _made(view, name, going, {**contents, **known})
    places = [node.deployment, *(vertex.record.deployment for vertex in view.noderoles.values())]
    checks = deployments.undriven(world, places, fqdn)  # rollouts and runs of tasks know their nodes by name
    transaction = structure.raised(world, [*checks, *made, *_below(view, name), *going])
    _check_size(fqdn, transaction)
    return transaction


def _free_to_go(world: World, view: NodeView, name: str) -> Node:
    unreadable.refuse_removal(world, [view])
    unreadable.refuse_new_node(world, name)
    node = view.record
    assert node is not None, "node_of gives only nodes that exist"
    if name in world.nodes:
        raise Conflict(f"node {name} exists already; see: nodepool-ocb node show {name}")
    if node.deleting or node.dying:
        raise Conflict(
            f"an annealer is still taking {view.name} away, or setting back its noderoles; try again in a moment"
        )
    if installing.in_use(view):
        raise Conflict(
            f"{view.name} is {installing.use_sentence(view)}; the pool knows it by this name: wait until it is returned"
        )
    busy = view.claim.noderole if view.claim is not None else view.busy and view.busy.name
    if busy:
        raise Conflict(f"{busy} is at work on {view.name}; wait until it ends: nodepool-ocb noderole wait {busy}")
    return node


def _address(address: str, fqdn: str, name: str) -> str:
    """The machine is at its new name, if it was at the old one."""
    return name + address.removeprefix(fqdn) if address == fqdn or address.startswith(f"{fqdn}:") else address


def _following(record: NodeRole, fqdn: str, name: str) -> NodeRole:
    above = (paths.split_noderole(parent) if "@*" not in parent else (parent, "") for parent in record.parents)
    renamed = (paths.noderole_name(role, name if at == fqdn else at) if at else role for role, at in above)
    return replace(record, parents=tuple(sorted(renamed)))


def _made(view: NodeView, name: str, going: Sequence[Delete], contents: Mapping[str, object]) -> Iterator[Create]:
    for gone in reversed(going):
        yield Create(paths.node(name) + gone.path.removeprefix(paths.node(view.name)), contents[gone.path])


def _below(view: NodeView, name: str) -> Iterator[Change]:
    """The noderoles of other nodes that name one of these as a parent."""
    children = {child for vertex in view.noderoles.values() for child in vertex.children if child.node is not view}
    for child in sorted(children, key=lambda each: each.name):
        following = _following(child.record, view.name, name)
        if following.parents != child.record.parents:
            yield from writes(child, following)


def _check_size(fqdn: str, transaction: Sequence[Change]) -> None:
    too_many = len(transaction) > limits.TRANSACTION_CHANGES
    if too_many or sum(map(limits.size, transaction)) > limits.TRANSACTION_BYTES:
        raise Conflict(
            f"{fqdn} has more noderoles, attributes and runs than the one transaction of a rename may change; unbind its"
            " noderoles and bind them again under the new name, or create a new node and delete this one"
        )
