"""The seed's five groups on twelve nodes, and who drives a rollout of them: a loop, in place of an annealer.

Each node has ``os`` (the prepare phase) and ``work`` below it (the deploy phase). The loop carries out what the engine
decides, and machines end at once, as the test says.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping

from nodepool_ocb.engine.claim import settling
from nodepool_ocb.engine.commands import apply_to
from nodepool_ocb.engine.noderole import Event, apply
from nodepool_ocb.engine.world import Vertex, World
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import (
    Change,
    Create,
    Deployment,
    DeploymentState,
    Fence,
    Json,
    Node,
    NodeRole,
    Role,
    State,
)
from nodepool_ocb.rollout import records
from nodepool_ocb.rollout.observer import Observer
from nodepool_ocb.rollout.records import Rollout
from nodepool_ocb.rollout.step import step
from nodepool_ocb.store import rollouts
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.world.load import load_world

LAB = "lab"
DOMAIN = "example.com"

STRATEGY = """\
schema: shipyard/DeploymentStrategy/v1
metadata: {name: deployment-strategy}
data:
  phases:
    - {name: prepare, roles: [os]}
    - {name: deploy}
  groups:
    - name: control-nodes
      critical: true
      depends_on: [ntp-node]
      selectors: [{node_tags: [control], rack_names: [rack03]}]
      success_criteria: {percent_successful_nodes: 90, minimum_successful_nodes: 3, maximum_failed_nodes: 1}
    - name: compute-nodes-1
      critical: false
      depends_on: [control-nodes]
      selectors: [{node_tags: [compute], rack_names: [rack01]}]
      success_criteria: {percent_successful_nodes: 50}
    - name: compute-nodes-2
      critical: false
      depends_on: [control-nodes]
      selectors: [{node_tags: [compute], rack_names: [rack02]}]
      success_criteria: {percent_successful_nodes: 50}
    - name: monitoring-nodes
      critical: false
      depends_on: []
      selectors: [{node_tags: [monitoring], rack_names: [rack03, rack02, rack01]}]
    - name: ntp-node
      critical: true
      depends_on: []
      selectors: [{node_names: [ntp01]}]
      success_criteria: {minimum_successful_nodes: 1}
"""

NODES = {
    "ntp01": Node(rack="rack03"),
    **{f"control{n}": Node(rack="rack03", tags=("control",)) for n in (1, 2, 3)},
    **{f"compute1{n}": Node(rack="rack01", tags=("compute",)) for n in (1, 2, 3)},
    **{f"compute2{n}": Node(rack="rack02", tags=("compute",)) for n in (1, 2)},
    **{f"monitor{n}": Node(rack=f"rack0{n}", tags=("monitoring",)) for n in (1, 2, 3)},
}


def build(session: Session, settings: Mapping[str, Json] | None = None, state: State = State.PROPOSED) -> None:
    """All of it, COMMITTED but for the noderoles, which are in this state; ``settings`` says to them what jig test does."""
    settings = settings or {}
    roles = [("os", ()), ("work", ("os",))]
    made: list[Change] = [
        *(Create(paths.role(name), Role(barclamp="b", jig="test", requires=above)) for name, above in roles),
        Create(paths.deployment(LAB), Deployment(state=DeploymentState.COMMITTED)),
        Create(paths.deployment_roles(LAB)),
    ]
    for name, node in NODES.items():
        fqdn = f"{name}.{DOMAIN}"
        made += [
            Create(paths.node(fqdn), Node(rack=node.rack, tags=node.tags, deployment=LAB, alive=True)),
            Create(paths.fence(fqdn), Fence()),
            Create(paths.noderoles(fqdn)),
        ]
        for role, above in roles:
            record = NodeRole(state=state, since=1.0, deployment=LAB, parents=tuple(f"{each}@{fqdn}" for each in above))
            made += [Create(paths.noderole(role, fqdn), record), Create(paths.runs(role, fqdn))]
            if f"{role}@{name}" in settings:
                made.append(Create(paths.user(role, fqdn), settings[f"{role}@{name}"]))
    session.commit(made)


Ends = Callable[[str], Event | None]  # noderole → how it ends; None: not at all


def all_well(_: str) -> Event:
    return Event.SUCCEED


def failing(*names: str) -> Ends:
    """These noderoles fail."""
    return lambda name: Event.FAIL if name.removesuffix(f".{DOMAIN}") in names else Event.SUCCEED


class Driver:
    """Drives the newest rollout of the deployment, one turn after the other."""

    def __init__(self, session: Session, ends: Ends = all_well, deployment: str = LAB) -> None:
        self.session = session
        self.ends = ends
        self.deployment = deployment

    @staticmethod
    def known(session: Session) -> bool:
        """Whether there is a rollout to drive."""
        return rollouts.newest(session, LAB) is not None

    def read(self) -> Rollout:
        newest = rollouts.newest(self.session, self.deployment)
        assert newest is not None
        found = rollouts.read(self.session, self.deployment, newest)
        assert found is not None
        return found[0]

    def run(self, until: Callable[[Rollout], bool] = lambda rollout: rollout.over) -> Rollout:
        """Until it is as it should be; fails where it comes to rest before."""
        for _ in range(1000):
            if until(rollout := self.read()):
                return rollout
            assert self.turn(), rollout
        raise AssertionError("it does not end")

    def run_out(self) -> None:
        """Until it is over, or comes to rest before."""
        while not self.read().over and self.turn():
            pass

    def turn(self) -> bool:
        """Decide and write, else act, else let machines end; whether there was anything."""
        newest = rollouts.newest(self.session, self.deployment)
        assert newest is not None
        found = rollouts.read(self.session, self.deployment, newest)
        assert found is not None
        before, versions = found
        world, now = load_world(self.session), time.time()
        observer = Observer(world, self.deployment, before)
        decided = step(before, observer.seen(), now)
        if decided.decisions:
            after = records.apply(before, decided.decisions)
            self.session.commit(rollouts.changes(self.deployment, newest, before, after, versions, now))
            return True
        changes = [
            changes
            for event, vertices in observer.moves(decided.actions).items()
            for changes in apply_to(world, vertices, event, now)
        ] or list(self._machines(world, now))
        for transaction in changes:
            self.session.commit(transaction)
        return bool(changes)

    def _machines(self, world: World, now: float) -> Iterator[list[Change]]:
        """The first noderole that is in TODO and is to end, ends."""
        for vertex in sorted(world.vertices(), key=lambda each: each.name):
            event = self.ends(vertex.name)
            if vertex.record.state is State.TODO and event is not None:
                yield from self._ends(world, vertex, event, now)
                return

    def _ends(self, world: World, vertex: Vertex, event: Event, now: float) -> Iterator[list[Change]]:
        for each in (Event.CLAIM, event):
            moved = apply({vertex: each}, now, reason="it broke" if each is Event.FAIL else None)
            yield settling(moved, (vertex,))
            for other, record in moved.items():
                world.put_noderole(other.node.name, other.role, record, other.version + 1)
