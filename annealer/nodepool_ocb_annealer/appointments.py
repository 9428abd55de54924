"""What an annealer does later, and about whom: the appointments of its agenda."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Matter(StrEnum):
    """What is to be done; the comment says what the appointment names."""

    CONSIDER = "consider"  # node: claim its next noderole
    WRITE_END = "end"  # node: write again how its run ended
    SETTLE = "settle"  # noderole: move it where its neighbours force it, if nobody did
    GO_ON_DYING = "dying"  # node: tell more of its noderoles that it is dead
    PROBE = "probe"  # node: ask whether it is alive
    TRIAL = "trial"  # nothing: ask any machine, to see whether this host's trouble is over
    TIDY = "tidy"  # nothing: remove what old runs left
    ROLLOUT = "rollout"  # deployment: go on with its rollout, or begin to drive it
    TASK_RUN = "tasks"  # deployment: go on with its run of tasks, or begin to drive it
    WEBHOOK = "webhook"  # nothing: send entries of the journal, if it is our turn
    CHECKS = "checks"  # nothing: a schedule of checks has come to its time
    CHECK_SOME = "check"  # nothing: look at more nodes for checks that are due
    NODEROLE_HOOK = "hook-noderole"  # noderole: run its next hook
    NODE_HOOK = "hook-node"  # node: run its next hook, or delete it
    DEPLOYMENT_HOOK = "hook-deployment"  # deployment and role: run its next hook, or delete it


class Appointment(msgspec.Struct, frozen=True):
    """A matter and whom it is about; of equal ones an agenda keeps one.

    >>> str(Appointment(Matter.PROBE, "n1.example.com"))
    'probe n1.example.com'
    """

    matter: Matter
    about: str = ""

    def __str__(self) -> str:
        return f"{self.matter} {self.about}"
