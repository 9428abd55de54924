"""A small world to be shown: two nodes, three noderoles one above the other, two deployments."""

from __future__ import annotations

from nodepool_ocb.engine.world import Stored, World
from nodepool_ocb.model.records import Claim, Cluster, Daemon, Deployment, DeploymentState, Node, NodeRole, Role, State

N1, N2 = "n1.example.com", "n2.example.com"
BASE, MIDDLE, TOP = f"base@{N1}", f"middle@{N1}", f"top@{N1}"


def small() -> World:
    """base in ERROR, middle and top below it BLOCKED, in deployment lab; an annealer has claimed n1; n2 is virtual."""
    world = World()
    world.put(Stored(Cluster(id="c1"), 0))
    world.put(Stored(Deployment(parent=None, state=DeploymentState.COMMITTED), 0), "system")
    world.put(Stored(Deployment(state=DeploymentState.COMMITTED, since=5.0, by="root"), 0), "lab")
    for name, requires in (("base", ()), ("middle", ("base",)), ("top", ("middle",))):
        world.put(Stored(Role(barclamp="chain", jig="noop", requires=requires, flags=("implicit",)), 0), name)
    world.put_node(
        N1, Node(deployment="lab", since=3.0, reason="connect: refused", tags=("web",), labels={"room": "1"}), 0
    )
    world.put_node(N2, Node(virtual=True, available=False), 0)
    put(world, BASE, State.ERROR, since=1.0, reason="disk full", run="r1")
    put(world, MIDDLE, State.BLOCKED, BASE, since=2.0)
    put(world, TOP, State.BLOCKED, MIDDLE, since=2.0)
    world.daemons["annealer"] = {"a1": Daemon(host="h1", pid=7, version="1", started=4.0, jigs=("noop",), slots=3)}
    view = world.nodes[N1]
    view.fence = 6
    view.claim, view.claim_owner = Claim(annealer="a1", noderole=BASE, run="r1", epoch=6, since=8.0), 0xABC
    return world


def put(world: World, name: str, state: State, *parents: str, since: float = 0.0, **fields: object) -> None:
    """Bind a noderole in deployment lab, or put it into another state."""
    role, _, fqdn = name.partition("@")
    record = NodeRole.of(state=state, since=since, deployment="lab", parents=parents, **fields)  # type: ignore[arg-type]
    world.put_noderole(fqdn, role, record, 0)


def chain(levels: int, first: State) -> World:
    """r0 ← r1 ← ... on node n: r0 in a state, all below BLOCKED."""
    world = World()
    world.put(Stored(Deployment(state=DeploymentState.COMMITTED), 0), "d")
    world.put(Stored(Daemon(host="h", pid=1, version="1", started=0.0, jigs=("noop",)), 0), "annealer", "a")
    world.put_node("n", Node(alive=True), 0)
    world.put_fence("n", 0)
    for level in range(levels):
        role = f"r{level}"
        world.put(Stored(Role(barclamp="b", jig="noop"), 0), role)
        parents = (f"r{level - 1}@n",) if level else ()
        state = State.BLOCKED if level else first
        world.put_noderole(
            "n", role, NodeRole.of(state=state, since=5.0, deployment="d", parents=parents, reason="bang")
        )
    return world
