"""Rollouts on a fleet: a strategy, noderoles that are PROPOSED, and what became of both."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from nodepool_ocb.model import paths
from nodepool_ocb.model.records import (
    Change,
    Create,
    Deployment,
    DeploymentState,
    Json,
    LockOwner,
    Node,
    NodeRole,
    Role,
    State,
)
from nodepool_ocb.rollout import reading
from nodepool_ocb.rollout.plan import begin
from nodepool_ocb.rollout.records import Rollout
from nodepool_ocb.rollout.selectors import inventory
from nodepool_ocb.rollout.strategy import Strategy
from nodepool_ocb.store import rollouts
from nodepool_ocb.store.locks import holders
from nodepool_ocb.store.world.load import load_world
from nodepool_ocb.testing.processes import CutDaemon
from tests.journeys.fleet import DEPLOYMENT, Fleet
from tests.store.directing import steer

#: prepare commits ``os``, deploy all that is left.
PHASES: Final = (
    {"name": "prepare", "roles": ["os"], "timeout_seconds": 60.0},
    {"name": "deploy", "timeout_seconds": 60.0},
)


class LiveRollout:
    """One rollout of a deployment, that somebody began."""

    def __init__(self, fleet: Fleet, document: Strategy, deployment: str = DEPLOYMENT) -> None:
        self.fleet, self.deployment = fleet, deployment
        world = load_world(fleet.session)
        made = begin(document, inventory(world, deployment), time.time(), by="a test")
        self.id = rollouts.begin(fleet.session, deployment, made)

    @property
    def now(self) -> Rollout:
        found = rollouts.read(self.fleet.session, self.deployment, self.id)
        assert found is not None, "it was begun"
        return found[0]

    @property
    def over(self) -> bool:
        return self.now.over

    @property
    def driver(self) -> CutDaemon | None:
        """Whose lock it is."""
        held = self.holder
        return next((each for each in self.fleet.annealers if held and each.pid == held.pid), None)

    @property
    def driven_by(self) -> str | None:
        """The annealer that drove it last."""
        return load_world(self.fleet.session).rollouts[self.deployment].record.driver

    @property
    def holder(self) -> LockOwner | None:
        return holders(self.fleet.session, [paths.rollout_lock(self.deployment, self.id)])[0]

    def until_over(self, seconds: float = 60.0) -> Rollout:
        try:
            self.fleet.until(lambda: self.over, f"{self.deployment} is over", seconds)
        except AssertionError as late:
            raise AssertionError(f"{late}: {self.summary()}") from late
        return self.now

    def ask(self, command: Any, *arguments: Any, **more: Any) -> Rollout:
        """One of rollout.commands, as a person."""
        return steer(self.fleet.session, self.deployment, self.id, lambda it: command(it, *arguments, **more))

    def states(self) -> dict[str, str]:
        return {name.partition(".")[0]: str(progress.state) for name, progress in self.now.nodes.items()}

    def summary(self) -> str:
        return f"{self.states()}"


def document(
    groups: Sequence[Mapping[str, Any]], phases: Sequence[Mapping[str, Any]] = PHASES, **rules: Any
) -> Strategy:
    """A strategy from plain values."""
    return msgspec.convert({"groups": groups, "phases": phases, **rules}, Strategy)


def loaded(text: str) -> Strategy:
    """A document, with our phases in place of its own."""
    found = reading.load(text, called="f")
    return msgspec.structs.replace(found, phases=document([]).phases)


def deployment(fleet: Fleet, name: str) -> None:
    """One more, committed."""
    committed = Deployment(state=DeploymentState.COMMITTED, since=time.time())
    fleet.session.commit([Create(paths.deployment(name), committed), Create(paths.deployment_roles(name))])


def nodes(fleet: Fleet, site: Mapping[str, Node], of: str = DEPLOYMENT) -> None:
    """Machines that nobody looks at: for jigs that do not, either."""
    for fqdn, node in site.items():
        fleet.add_node(fqdn, msgspec.structs.replace(node, deployment=of, alive=True))


def roles(fleet: Fleet, **found: Role) -> None:
    for name, role in found.items():
        fleet.add_role(name, role)


def acting(delay: float = 0.0, **fields: Any) -> Role:
    """What jig test does."""
    return Role(barclamp="fleet", jig="test", parameters={"delay": delay}, **fields)


def propose(
    fleet: Fleet, role: str, fqdn: str, above: Sequence[str] = (), user: Json = None, of: str = DEPLOYMENT
) -> str:
    """A noderole that nobody has committed; ``user`` are its attributes."""
    parents = tuple(sorted(f"{each}@{fqdn}" for each in above))
    path = paths.noderole(role, fqdn)
    record = NodeRole(state=State.PROPOSED, since=time.time(), deployment=of, parents=parents)
    made: list[Change] = [Create(path, record), Create(paths.runs(role, fqdn))]
    if user is not None:
        made.append(Create(paths.user(role, fqdn), user))
    fleet.session.commit(made)
    return paths.noderole_name(role, fqdn)


def stack(fleet: Fleet, failing: Sequence[str] = (), of: str = DEPLOYMENT) -> None:
    """``os`` and ``app`` on every node of the deployment; those that are named as noderoles fail."""
    for fqdn in fleet.nodes:
        if fleet.node(fqdn).deployment == of:
            for role, above in (("os", ()), ("app", ("os",))):
                lost = f"{role}@{fqdn.partition('.')[0]}" in failing
                propose(fleet, role, fqdn, above, {"fail": "it broke"} if lost else None, of)


def generations(fleet: Fleet) -> dict[str, int]:
    return {vertex.name: vertex.record.generation for vertex in load_world(fleet.session).vertices()}


def succeeded_again(fleet: Fleet) -> dict[str, list[str]]:
    """The noderoles with more than one successful run, and the ends of their runs.

    A run that did not reach its machine raises the generation without a second commit, so generations prove nothing here.
    """
    outcomes = {
        each.name: [run.outcome for run in fleet.runs(each.name).values()]
        for each in load_world(fleet.session).vertices()
    }
    return {name: found for name, found in outcomes.items() if found.count("succeeded") != 1}
