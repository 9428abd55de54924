"""Hooks of deployments, for each role in one; an exception is a refusal, and a role leaves after its hook succeeded."""

from __future__ import annotations

from msgspec.structs import replace

from nodepool_ocb.catalogue.code import Hooked
from nodepool_ocb.engine import attributes, structure, unreadable
from nodepool_ocb.engine.hooks import deployment as deploymentroles
from nodepool_ocb.engine.world import Stored
from nodepool_ocb.errors import Conflict
from nodepool_ocb.jigs.raised import sentence
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Change, Delete, DeploymentRole, Set
from nodepool_ocb_annealer.context import AnnealerContext
from nodepool_ocb_annealer.hooks.calls import call
from nodepool_ocb_annealer.hooks.installation import InstalledCode
from nodepool_ocb_annealer.hooks.job import Done, Job
from nodepool_ocb_annealer.hooks.scheduling import SEPARATOR


def job(context: AnnealerContext, installation: InstalledCode, whom: str) -> Job | None:
    """The next hook of ``whom``, deployment and role; None where there is none, or it cannot be run here and now."""
    deployment, _, name = whom.partition(SEPARATOR)
    stored = context.world.deployment_roles.get((deployment, name))
    found = context.world.roles.get(name)
    if stored is None or found is None:
        return None
    record, path, barclamp = stored.record, paths.deployment_role(deployment, name), found.record.barclamp
    if unreadable.hooks_wait(context.world, path):
        return None  # looked at again when that changes
    if record.deleting and not record.hooks:
        _delete(context, deployment, name, stored)
        return None
    if not record.hooks:
        return None
    hook = record.hooks[0]
    if hook not in found.record.hooks:  # its barclamp was imported anew, without that code
        after = deploymentroles.agreed(record, hook)
        context.send([Set(path, after, stored.version)], lambda _: None, f"{hook} of {name} in {deployment}")
        return None
    if not installation.has(name, barclamp, hook):
        return None

    def work() -> Done | None:
        hooked = Hooked(deployment, attributes=record.system, user=record.user, role=name)
        error = call(barclamp, hook, hooked)
        return Done([hooked], sentence(error) if error is not None else None, {})

    def write(done: Done) -> list[Change]:
        if done.error:
            after = deploymentroles.refused(record, hook, done.error)
        else:
            wanted = done.hooked[0].set_system.get(deployment, {}) if done.hooked else {}
            after = replace(deploymentroles.agreed(record, hook), system=attributes.merge(record.system, wanted))
        return structure.raised(context.world, [Set(path, after, stored.version)])

    return Job(work, write, record)


def _delete(context: AnnealerContext, deployment: str, name: str, stored: Stored[DeploymentRole]) -> None:
    """Its hook has agreed: the role leaves, unless it was bound meanwhile."""
    path, whom = paths.deployment_role(deployment, name), f"{name} in {deployment}"
    try:
        deploymentroles.refuse_bound(context.world, deployment, name)
        changes = structure.raised(context.world, [Delete(path, stored.version)])
    except Conflict as bound:
        after = deploymentroles.refused(stored.record, deploymentroles.DELETE, str(bound))
        changes = structure.raised(context.world, [Set(path, after, stored.version)])
    context.send(changes, lambda _: None, f"deleting {whom}")
