"""Small worlds, made noderole by noderole."""

from __future__ import annotations

from nodepool_ocb.engine.world import Stored, Vertex, World
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Daemon, Deployment, DeploymentState, Node, NodeRole, Role, State


def world() -> World:
    """The deployment system, committed, and annealer "a" with the jig noop."""
    made = World()
    made.put(Stored(Deployment(parent=None, state=DeploymentState.COMMITTED), 3), "system")
    made.put(Stored(Daemon(host="h", pid=1, version="0", started=0.0, jigs=("noop",)), 0), "annealer", "a")
    return made


def put(made: World, name: str, state: State, *parents: str, **fields: object) -> Vertex:
    """Put a noderole ``role@fqdn`` in, with its role and its node, alive, where they are not there yet."""
    role, fqdn = paths.split_noderole(name)
    if role not in made.roles:
        made.put(Stored(Role(barclamp="b", jig="noop"), 0), role)
    if made.node(fqdn).record is None:
        made.put_node(fqdn, Node(alive=True), 5)
        made.put_fence(fqdn, 6)
    record = NodeRole.of(state=state, since=0.0, generation=1, parents=parents, **fields)  # type: ignore[arg-type]
    return made.put_noderole(fqdn, role, record, 7)
