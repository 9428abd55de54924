"""Jig task-shell: a command in a directory of the machine. Of master_shell the machine is the admin node."""

from __future__ import annotations

import shlex

import msgspec

from nodepool_ocb.jigs.tasks.task import OrderedTask, TaskJig
from nodepool_ocb.tasks.tasklist import TaskKind


class Shell(msgspec.Struct, frozen=True):
    """Its parameters."""

    cmd: str
    cwd: str


class ShellJig(TaskJig):
    name = "task-shell"

    def text(self, task: OrderedTask) -> str:
        """The command stands in the script itself, not on a command line, which everybody on the machine could read."""
        shell = task.shaped(TaskKind.SHELL, Shell)
        if task.noop:
            return f"printf %s\\\\n {shlex.quote(f'would run in {shell.cwd}: {shell.cmd}')}\n"
        cwd = shlex.quote(shell.cwd)
        lacking = shlex.quote(f"task: there is no directory {shell.cwd}")
        return f"cd -- {cwd} 2>/dev/null || {{ printf %s\\\\n {lacking}; exit 1; }}\n{shell.cmd}\n"
