"""The roles and deployments of a plan: made, opened to be changed, configured, and committed at its end. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter

from msgspec.structs import replace

from nodepool_ocb.catalogue import importing, rules
from nodepool_ocb.engine import attributes, deployments, drift, structure, unreadable
from nodepool_ocb.engine.binding.parents import unknown_role
from nodepool_ocb.engine.hooks import deployment as deploymentroles
from nodepool_ocb.errors import Conflict, Invalid
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import DeploymentState, Role, State
from nodepool_ocb.site import given
from nodepool_ocb.site.desired_state import Blob, DesiredDeployment
from nodepool_ocb.site.steps import Planning


def roles(plan: Planning) -> None:
    """Plan the roles that are new or changed; raises Invalid if the rules of roles refuse them, or if one belongs to
    another barclamp.
    """
    wanted = plan.wanted.roles
    if not wanted:
        return
    unreadable.refuse_import(plan.world)
    catalogue = {**plan.catalogue, **{name: each.record for name, each in wanted.items()}}
    found = [wanted[each.role].place.fault(each.text) for each in rules.problems(catalogue) if each.role in wanted]
    for name, each in wanted.items():
        before = plan.world.roles.get(name)
        if before is not None and before.record.barclamp != each.record.barclamp:
            found.append(each.place.fault(f"role {name} belongs to barclamp {before.record.barclamp}; rename this one"))
    if found:
        raise Invalid(found)
    for change in importing.changes(plan.world, {name: each.record for name, each in wanted.items()}):
        name = change.path.rpartition("/")[2]
        verb = "change" if name in plan.world.roles else "create"
        plan.take(structure.raised(plan.world, [change]), verb, "role", name, wanted[name].record)


def made(plan: Planning) -> None:
    """The deployments that are not there, PROPOSED; raises Conflict where one has another parent."""
    for each in _parents_first(plan):
        stored = plan.world.deployments.get(each.name)
        with each.place.blamed():
            if stored is None:
                parent = each.parent or deployments.SYSTEM
                changes = deployments.create(plan.world, each.name, parent, plan.about.now, plan.about.by)
                plan.take(changes, "create", "deployment", each.name, parent)
            elif each.parent not in (None, stored.record.parent):
                raise Conflict(
                    f"deployment {each.name} is below {stored.record.parent}, and stays there; write that parent"
                )


def checked(plan: Planning) -> None:
    """Plan the schedules of checks; raises Invalid for a schedule that cannot be read."""
    for name, each in sorted(plan.wanted.deployments.items()):
        if each.checks is None:
            continue
        if why := drift.wrong(each.checks.schedule):
            raise Invalid(each.place.fault(why))
        changes = deployments.checked_by(plan.world, name, replace(each.checks, since=plan.about.now))
        plan.take(changes, "change", "deployment", name, [each.checks.schedule, each.checks.refresh])


def _parents_first(plan: Planning) -> Iterator[DesiredDeployment]:
    wanted = plan.wanted.deployments
    graph = {
        name: [each.parent] if each.parent and each.parent in wanted else [] for name, each in sorted(wanted.items())
    }
    try:
        order = list(TopologicalSorter(graph).static_order())
    except CycleError as circle:
        first = wanted[circle.args[1][0]]
        raise Invalid(
            first.place.fault(f"deployments below each other: {' -> '.join(circle.args[1])}; correct one `parent`")
        ) from circle
    return (wanted[name] for name in order)


def opened(plan: Planning) -> None:
    """Propose the deployments that the files want PROPOSED. Also those that end COMMITTED, if something in them
    changes.
    """
    changing = {name for name in plan.wanted.deployments if _changes(plan, plan.wanted.deployments[name])}
    changing |= set(_of_noderoles(plan))
    for name, each in sorted(plan.wanted.deployments.items()):
        for_now = each.state is DeploymentState.COMMITTED and name in changing - {deployments.SYSTEM}
        if each.state is DeploymentState.PROPOSED or for_now:
            _turn(plan, each, DeploymentState.PROPOSED)


def _turn(plan: Planning, each: DesiredDeployment, state: DeploymentState) -> None:
    with each.place.blamed():
        changes = deployments.turn(plan.world, each.name, state, plan.about.now, plan.about.by)
    verb = "commit" if state is DeploymentState.COMMITTED else "propose"
    plan.take(changes, verb, "deployment", each.name)


def _changes(plan: Planning, each: DesiredDeployment) -> bool:
    """Whether a deployment role is missing, or its attributes change."""
    for role, user in each.roles.items():
        stored = plan.world.deployment_roles.get((each.name, role))
        if stored is None or (user is not None and not attributes.same(user, stored.record.user)):
            return True
    return False


def _of_noderoles(plan: Planning) -> Iterator[str]:
    """The deployments of committed noderoles with user attributes that change."""
    for each in plan.wanted.noderoles():
        vertex = plan.vertex(each)
        if each.user is None or vertex is None or vertex.record.state is State.PROPOSED:
            continue
        kept = plan.kept.get(paths.user(each.role, each.fqdn))
        if not attributes.same(each.user, kept.value if kept else {}):
            yield vertex.record.deployment


def configured(plan: Planning) -> None:
    """The attributes of roles in deployments."""
    catalogue = plan.catalogue
    for name, each in sorted(plan.wanted.deployments.items()):
        for role, user in sorted(each.roles.items()):
            with each.place.blamed():
                _configure(plan, catalogue, name, role, user)


def _configure(plan: Planning, catalogue: Mapping[str, Role], name: str, role: str, user: Blob | None) -> None:
    stored = plan.world.deployment_roles.get((name, role))
    if role not in catalogue:
        raise unknown_role(role, catalogue)
    if stored is not None and (user is None or attributes.same(user, stored.record.user)):
        return
    if plan.world.deployments[name].record.state is DeploymentState.COMMITTED and name != deployments.SYSTEM:
        raise Conflict(
            f"deployment {name} is COMMITTED, and its attributes would change; write `state: COMMITTED` here, and"
            f" apply proposes it meanwhile; or first: nodepool-ocb deployment propose {name}"
        )
    if user:
        before = stored.record.user if stored else {}
        given.refuse(plan, role, user, rules.template(catalogue, role), before)
    verb = "create" if stored is None else "change"
    changes = deploymentroles.configured(plan.world, name, role, user or {})
    plan.take(changes, verb, "deployment role", f"{role} in {name}", user or {})


def committed(plan: Planning) -> None:
    """Commit the deployments that the files want COMMITTED: last, so that annealers find the whole change."""
    for name, each in sorted(plan.wanted.deployments.items()):
        if each.state is DeploymentState.COMMITTED and name != deployments.SYSTEM:
            with each.place.blamed():
                deploymentroles.refuse_commit(plan.world, name)
            _turn(plan, each, DeploymentState.COMMITTED)
