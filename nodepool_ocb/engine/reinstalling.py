"""Requests to install, decommission and rescue a machine: the wish of the node, and the noderole that carries it out. Pure."""

from __future__ import annotations

from nodepool_ocb.engine import commands, installing, liveness
from nodepool_ocb.engine.claim import settling
from nodepool_ocb.engine.noderole import Event, apply
from nodepool_ocb.engine.world import NodeView, Vertex
from nodepool_ocb.errors import Conflict
from nodepool_ocb.model.records import Change, InstallRequest, State, WipeMethod


def installer(view: NodeView) -> Vertex:
    """The noderole that installs the machine; raises Conflict without one, with several, and without ``allow_install``."""
    found = [vertex for vertex in view.noderoles.values() if installing.installs(vertex)]
    if len(found) != 1:
        named = ", ".join(sorted(vertex.name for vertex in found)) or "none"
        raise Conflict(f"node {view.name} must have one noderole that installs it, and has {named}; bind or unbind one")
    if view.record is None or not view.record.allow_install:
        raise Conflict(_without_leave(view))
    refuse_out_of_service(view)
    return found[0]


def requested(view: NodeView, request: InstallRequest | None, now: float, by: str | None = None) -> list[Change]:
    """One transaction: the machine is to be installed, with this wish over the attributes of the role.

    The data of the role's disk is lost, and with ``request.wipe`` that of all fixed disks. A noderole that is PROPOSED is
    committed, any other one is redeployed. The request stays in the record of the node until that is done, so a retry has it.
    The installation is over when the noderole is ACTIVE, or in ERROR with the reason, in a later generation than now.

    Raises Conflict: see ``installer``; also while the noderole is in TRANSITION.
    """
    vertex = installer(view)
    return [*_begun(vertex, now, by), *liveness.changed(view.world, view, now, by, install=request)]


def role_with(view: NodeView, jig: str) -> str:
    """The role by which a node is decommissioned or rescued: its own noderole's, else the only one. Raises Conflict."""
    own = sorted(vertex.role for vertex in view.noderoles.values() if installing.jig_of(vertex) == jig)
    known = own or sorted(name for name, stored in view.world.roles.items() if stored.record.jig == jig)
    if len(known) != 1:
        named = (
            f"{', '.join(known)}; bind the one that is meant"
            if known
            else "none; import etc/barclamps/provisioner-os.yml"
        )
        raise Conflict(f"node {view.name} needs one role of jig {jig}, and there is {named}")
    return known[0]


def refuse_out_of_service(view: NodeView) -> None:
    """Raises Conflict for a node that is decommissioned."""
    if view.record is not None and view.record.decommissioned is not None:
        raise Conflict(f"node {view.name} was decommissioned; first: nodepool-ocb node recommission {view.name}")


def refuse_erasure(view: NodeView, method: WipeMethod | None) -> None:
    """Raises Conflict for a node whose disks may not be erased, if the method erases them. None: the method of the role."""
    if method is not WipeMethod.NONE and view.record is not None and not view.record.allow_install:
        raise Conflict(_without_leave(view))


def decommissioned(
    view: NodeView, role: str, method: WipeMethod | None, now: float, by: str | None = None
) -> list[Change]:
    """The noderole of this role is to erase the disks by a method (None: that of the role) and to decommission the node.

    Empty for a node that is decommissioned, or about to be. Raises Conflict without ``allow_install`` if disks are erased.
    """
    node, vertex = view.record, view.noderoles[role]
    under_way = vertex.record.state is State.TRANSITION and installing.of_vertex(vertex) is not None
    if node is None or node.decommissioned is not None or under_way:
        return []
    refuse_erasure(view, method)
    request = InstallRequest(wipe=method) if method is not None else None
    return [*_begun(vertex, now, by), *liveness.changed(view.world, view, now, by, install=request)]


def rescued(view: NodeView, role: str, now: float, by: str | None = None) -> list[Change]:
    """The noderole of this role is to boot the machine for a person. Empty during a rescue; raises Conflict in another run."""
    vertex = view.noderoles[role]
    if vertex.record.state is State.TRANSITION and installing.of_vertex(vertex) is not None:
        return []
    return _begun(vertex, now, by)


def recommissioned(view: NodeView, now: float, by: str | None = None) -> list[Change]:
    """The node is in service again, and not alive: its machine must be installed or found alive. Empty if it is in service."""
    return liveness.changed(view.world, view, now, by, decommissioned=None)


def _begun(vertex: Vertex, now: float, by: str | None) -> list[Change]:
    if vertex.record.state is State.PROPOSED:
        return settling(apply({vertex: Event.COMMIT}, now, by=by), (vertex,))
    return commands.redeploy(vertex, now, by)


def _without_leave(view: NodeView) -> str:
    return (
        f"allow_install of node {view.name} is not set, so its disks may not be erased; first:"
        f" nodepool-ocb node set {view.name} allow_install=true"
    )
