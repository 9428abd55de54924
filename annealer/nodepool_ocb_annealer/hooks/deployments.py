"""Hooks of deployments, for each role in one; and a role that is to leave a deployment goes when they have run."""

from __future__ import annotations

from msgspec.structs import replace

from nodepool_ocb.catalogue.code import Hooked
from nodepool_ocb.engine import attributes, structure, unreadable
from nodepool_ocb.jigs.raised import sentence
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Change, Delete, Set
from nodepool_ocb_annealer.hooks.calls import call
from nodepool_ocb_annealer.hooks.context import SEPARATOR, Context
from nodepool_ocb_annealer.hooks.installation import Installation
from nodepool_ocb_annealer.hooks.job import Done, Job


def job(context: Context, installation: Installation, whom: str) -> Job | None:
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
        deletion = structure.raised(context.world, [Delete(path, stored.version)])
        context.send(deletion, lambda _: None, f"deleting {whom}")
        return None
    if not record.hooks:
        return None
    hook = record.hooks[0]
    if not installation.has(name, barclamp, hook):
        return None

    def work() -> Done | None:
        hooked = Hooked(deployment, attributes=record.system, role=name)
        error = call(barclamp, hook, hooked)
        return Done([hooked], sentence(error) if error is not None else None, {})

    def write(done: Done) -> list[Change]:
        wanted = done.hooked[0].set_system.get(deployment, {}) if done.hooked else {}
        system = attributes.merge(record.system, wanted)
        return [Set(path, replace(record, hooks=record.hooks[1:], system=system), stored.version)]

    return Job(work, write)
