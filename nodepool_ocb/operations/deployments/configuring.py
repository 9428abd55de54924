"""``deployment set`` and ``unset``: the attributes of a role for a whole deployment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from nodepool_ocb.engine import deployments, unreadable
from nodepool_ocb.engine.hooks import deployment as deploymentroles
from nodepool_ocb.engine.inputs import concealing
from nodepool_ocb.engine.inputs.references import refuse_unresolvable
from nodepool_ocb.engine.world import Stored, World
from nodepool_ocb.errors import Conflict
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Change, Deployment, DeploymentRole, DeploymentState, Json, Role, Set
from nodepool_ocb.operations import attributes as given
from nodepool_ocb.operations import secrets
from nodepool_ocb.operations.commits import outdated, reservations
from nodepool_ocb.operations.names import catalogue, deployment_of, role_of
from nodepool_ocb.operations.operation import Explained, Lookup, Operation, Right, Situation, Steps
from nodepool_ocb.operations.reads.agreement import Agreement
from nodepool_ocb.operations.reads.world import ReadWorld

Blob = Mapping[str, Json]


class DeploymentAttributesChange(Operation[Explained], frozen=True, kw_only=True):
    """The base of both: ``edit`` gives the new attributes of the role."""

    noun = "deployment"
    right = Right.OPERATOR
    reads: ClassVar[tuple[type[Lookup[Any]], ...]] = (ReadWorld, *reservations.READS, *outdated.READS)
    writes = ("deployment role",)

    name: str
    role: str

    def edit(self, known: Mapping[str, Role], before: Blob) -> Steps[Blob]:
        """The attributes as they are to be."""
        raise NotImplementedError

    def effects(self, known: Mapping[str, Role], after: Blob) -> list[str]:
        """Sentences about the values after the change."""
        del known, after
        return []

    def decide(self, situation: Situation) -> Steps[Explained]:
        world = yield from ReadWorld()
        deployment_of(world, self.name)
        role_of(world, self.role)
        unreadable.refuse(world, [paths.deployment_role(self.name, self.role)])
        stored = world.deployment_roles.get((self.name, self.role))
        before = stored.record.user if stored else {}
        known = catalogue(world)
        user = yield from self.edit(known, before)  # a slip is named before the way to make the change
        _changeable(world, self.name)
        refuse_unresolvable(world, user, before)
        changes = deploymentroles.configured(world, self.name, self.role, user)
        if changes:
            yield changes
        now = yield from ReadWorld()
        effect = "nodes that it is done with do not see this; the others do"
        yield from reservations.warn(now, self.name, effect)
        changed = bool(changes or situation.written)
        after: list[str] = []
        if changed and self.name == deployments.SYSTEM:
            after.append(f"deployment {self.name} is always COMMITTED: every run that begins from now on sees this")
        if changed and not situation.call.dry_run:
            bound = (self.name, self.role)
            found = yield from outdated.sentences(now, lambda each: (each.record.deployment, each.role) == bound)
            after += found
        if not situation.call.dry_run:
            after += self.effects(known, user)
        return Explained(after=tuple(after))


class DeploymentSet(DeploymentAttributesChange, frozen=True, kw_only=True):
    """Set attributes of a role for the whole deployment, while it is PROPOSED (``system``: at any time)."""

    verb = "set"
    reads = (*DeploymentAttributesChange.reads, *secrets.READS)

    assignments: tuple[str, ...]  # PATH/TO=JSON

    def edit(self, known: Mapping[str, Role], before: Blob) -> Steps[Blob]:
        from nodepool_ocb.catalogue import rules  # here, since jsonschema takes long to import

        below = rules.template(known, self.role)
        quiet = rules.secret_places(known, self.role)
        path_of = rules.attribute_path
        after = given.assigned(before, self.assignments, lambda key: path_of(known, self.role, key), below, quiet)
        rules.checked(known, self.role, after, below)
        sealed = yield from secrets.sealed(known, self.role, after, before)
        return sealed


class DeploymentUnset(DeploymentAttributesChange, frozen=True, kw_only=True):
    """Take back attributes that ``deployment set`` gave; the answer names the values that count then."""

    verb = "unset"

    keys: tuple[str, ...]  # names or paths of attributes

    def edit(self, known: Mapping[str, Role], before: Blob) -> Steps[Blob]:
        from nodepool_ocb.catalogue import rules

        after = given.unset(before, self._places(known))
        rules.no_worse(known, self.role, before, after, rules.template(known, self.role))
        yield from ()
        return after

    def _places(self, known: Mapping[str, Role]) -> list[str]:
        from nodepool_ocb.catalogue import rules

        return [rules.place(known, self.role, key) for key in self.keys]

    def effects(self, known: Mapping[str, Role], after: Blob) -> list[str]:
        from nodepool_ocb.catalogue import rules

        quiet = concealing.places(known.values())
        below, wrapped = rules.template(known, self.role), concealing.wrapped(after, quiet)
        layers = {f"by default of role {self.role}": below, f"from deployment {self.name}": wrapped}
        return [given.counting(layers, place) for place in self._places(known)]


class DeploymentUnsetRole(Operation[Explained], frozen=True, kw_only=True):
    """Take a role out of the deployment, with its attributes there: refused while noderoles of it are bound there."""

    noun = "deployment"
    verb = "unset"
    right = Right.OPERATOR
    reads = (Agreement, ReadWorld)
    writes = ("deployment role",)

    name: str
    role: str
    force: bool = False  # do not run its on_deployment_delete, which may refuse

    def decide(self, situation: Situation) -> Steps[Explained]:
        if not situation.call.dry_run:
            yield from Agreement(f"take role {self.role} out of deployment {self.name}, with its attributes there")
        world = yield from ReadWorld()
        _changeable(world, self.name)
        changes = deploymentroles.leaving(world, self.name, self.role, self.force)
        yield changes
        refused = f"if it refuses, the role stays: nodepool-ocb deployment show {self.name}"
        return Explained(after=hook_sentences([*situation.written, *changes], refused))


def hook_sentences(changes: list[Change], then: str) -> tuple[str, ...]:
    """The sentence about a hook that runs first, if one does."""
    if any(isinstance(change, Set) and isinstance(change.data, DeploymentRole) for change in changes):
        return (f"an annealer runs on_deployment_delete first; {then}",)
    return ()


def _changeable(world: World, name: str) -> Stored[Deployment]:
    deployment = deployment_of(world, name)
    if deployment.record.state is not DeploymentState.PROPOSED and name != deployments.SYSTEM:
        raise Conflict(f"deployment {name} is COMMITTED; first: nodepool-ocb deployment propose {name}")
    return deployment
