"""The timers of an annealer: their kinds, and the object of each."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class TimerKind(StrEnum):
    """The action that is due. The comment names the object of such a timer, then the action."""

    __hash__ = str.__hash__  # as model.records.State

    CONSIDER = "consider"  # node: claim its next noderole
    WRITE_END = "end"  # node: write the end of its run again
    INSTALL = "install"  # node: continue its installation
    SETTLE = "settle"  # noderole: set the state that its neighbours force, if no other annealer did
    GO_ON_DYING = "dying"  # node: continue to tell its noderoles that it is dead
    PROBE = "probe"  # node: ask whether it is alive
    POWER = "power"  # node: continue with the request to switch it
    TRIAL = "trial"  # none: probe any machine, to see whether this host's trouble is over
    TIDY = "tidy"  # none: remove the remains of old runs
    ROLLOUT = "rollout"  # deployment: continue its rollout, or begin to drive it
    TASK_RUN = "tasks"  # deployment: continue its run of tasks, or begin to drive it
    WEBHOOK = "webhook"  # none: send entries of the journal, if it is our turn
    CHECKS = "checks"  # none: a schedule of checks is due
    PUBLISH = "publish"  # none: look for boot documents that servers must publish
    CHECK_SOME = "check"  # none: look at more nodes for checks that are due
    NODEROLE_HOOK = "hook-noderole"  # noderole: run its next hook
    NODE_HOOK = "hook-node"  # node: run its next hook, or delete it
    DEPLOYMENT_HOOK = "hook-deployment"  # deployment and role: run its next hook, or delete it


class Timer(msgspec.Struct, frozen=True):
    """A kind and the name of its object; an annealer has one timer for each pair.

    >>> str(Timer(TimerKind.PROBE, "n1.example.com"))
    'probe n1.example.com'
    """

    kind: TimerKind
    about: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.about}"
