"""Jig task-puppet: the machine's own ``puppet apply``, on manifests and modules that are on the machine."""

from __future__ import annotations

import msgspec

from nodepool_ocb.jigs.tasks.task import OrderedTask, TaskJig, program
from nodepool_ocb.tasks.tasklist import TaskKind


class Puppet(msgspec.Struct, frozen=True):
    """Its parameters."""

    puppet_manifest: str
    cwd: str
    puppet_modules: str = ""  # directories, with ":" between them; none: puppet's own


class PuppetJig(TaskJig):
    name = "task-puppet"

    def text(self, task: OrderedTask) -> str:
        puppet = task.shaped(TaskKind.PUPPET, Puppet)
        values = {
            "manifest": puppet.puppet_manifest,
            "modules": puppet.puppet_modules,
            "cwd": puppet.cwd,
            "noop": "yes" if task.noop else "",
        }
        return program("puppet.sh", **values)
