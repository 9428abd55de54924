"""A request for the installation of a node: its wish, and the noderole that carries it out. Pure."""

from __future__ import annotations

from nodepool_ocb.engine import commands, installing, liveness
from nodepool_ocb.engine.claim import settling
from nodepool_ocb.engine.noderole import Event, apply
from nodepool_ocb.engine.world import NodeView, Vertex
from nodepool_ocb.errors import Conflict
from nodepool_ocb.model.records import Change, InstallRequest, State


def installer(view: NodeView) -> Vertex:
    """The noderole that installs the machine; raises Conflict without one, with several, and without ``allow_install``."""
    found = [vertex for vertex in view.noderoles.values() if installing.installs(vertex)]
    if len(found) != 1:
        named = ", ".join(sorted(vertex.name for vertex in found)) or "none"
        raise Conflict(f"node {view.name} must have one noderole that installs it, and has {named}; bind or unbind one")
    if view.record is None or not view.record.allow_install:
        raise Conflict(
            f"allow_install of node {view.name} is not set, so its disks may not be erased; first:"
            f" nodepool-ocb node set {view.name} allow_install=true"
        )
    return found[0]


def requested(view: NodeView, request: InstallRequest | None, now: float, by: str | None = None) -> list[Change]:
    """One transaction: the machine is to be installed, with this wish over the attributes of the role.

    The data of the role's disk is lost, and with ``request.wipe`` that of all fixed disks. A noderole that is PROPOSED is
    committed, any other one is redeployed. The request stays in the record of the node until the next one, so a retry has it.
    The installation is over when the noderole is ACTIVE, or in ERROR with the reason, in a later generation than now.

    Raises Conflict: see ``installer``; also while the noderole is in TRANSITION.
    """
    vertex = installer(view)
    if vertex.record.state is State.PROPOSED:
        moved = settling(apply({vertex: Event.COMMIT}, now, by=by), (vertex,))
    else:
        moved = commands.redeploy(vertex, now, by)
    return [*moved, *liveness.changed(view.world, view, now, by, install=request)]
