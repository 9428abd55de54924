"""Rollouts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Change, LockOwner
from nodepool_ocb.operations.operation import Lookup
from nodepool_ocb.rollout.records import Rollout

if TYPE_CHECKING:
    from nodepool_ocb.operations.performer import Reader
    from nodepool_ocb.store.rollouts import ListedRollout, Versions


class ReadRollout(Lookup["Rollout | None"], frozen=True):
    """One rollout as it is; None if it does not exist or was never begun. Raises Invalid if a part of it is broken."""

    records = "rollouts"

    deployment: str
    identity: str

    def answer(self, reader: Reader) -> Rollout | None:
        from nodepool_ocb.store import rollouts

        read = rollouts.read(reader.session, self.deployment, self.identity)
        return None if read is None else read[0]


class ReadRolloutVersions(Lookup["tuple[Rollout, Versions] | None"], frozen=True):
    """As ``ReadRollout``, with the versions that a transaction on it names."""

    records = "rollouts"

    deployment: str
    identity: str

    def answer(self, reader: Reader) -> tuple[Rollout, Versions] | None:
        from nodepool_ocb.store import rollouts

        return rollouts.read(reader.session, self.deployment, self.identity)


class ReadDirectedChanges(Lookup[list[Change]], frozen=True):
    """The transaction that takes a rollout from ``before`` to ``after``, as a person asks.

    If the rollout goes on, so does its run of tasks: this waits for the end of that run, and then writes its noderoles,
    except in a dry run.
    Raises Conflict while another rollout or run has to do with the same nodes.
    """

    records = "rollouts, runs of tasks"

    deployment: str
    identity: str
    before: Rollout
    after: Rollout
    versions: Versions
    now: float

    def answer(self, reader: Reader) -> list[Change]:
        from nodepool_ocb.store import rollouts
        from nodepool_ocb.store.driven import lines
        from nodepool_ocb.store.tasks import rolled

        opened, deployment, run = reader.session, self.deployment, self.before.head.task_run
        changes = rollouts.steered(deployment, self.identity, self.before, self.after, self.versions, self.now)
        if not (self.before.over and not self.after.over):
            return changes
        if run is None:
            joined = rolled.alone(opened, deployment)
        else:
            joined = rolled.reopened(opened, deployment, run, dry_run=reader.performer.call.dry_run)
        return [*changes, *joined, *lines.entered(opened, deployment)]


class ListRollouts(Lookup["list[ListedRollout]"], frozen=True):
    """Every rollout, by deployment, the newest first; a rollout that cannot be decoded is left out."""

    records = "rollouts"

    def answer(self, reader: Reader) -> list[ListedRollout]:
        from nodepool_ocb.store import rollouts

        reader.session.sync()
        return sorted(rollouts.list_(reader.session), key=lambda each: (each.deployment, -int(each.id)))


class ReadRolloutDeployments(Lookup[list[str]], frozen=True):
    """The deployments with rollouts, sorted."""

    records = "rollouts"

    def answer(self, reader: Reader) -> list[str]:
        reader.session.sync()
        return sorted(reader.session.children(paths.ROLLOUTS) or [])


class ReadRolloutIdentities(Lookup[list[str]], frozen=True):
    """The ids of the rollouts of a deployment."""

    records = "rollouts"

    deployment: str

    def answer(self, reader: Reader) -> list[str]:
        found = reader.session.children(paths.rollouts(self.deployment)) or []
        return [name for name in found if name.isdecimal()]


class ReadNewestRollout(Lookup["str | None"], frozen=True):
    """The id of a deployment's newest rollout; None before its first."""

    records = "rollouts"

    deployment: str

    def answer(self, reader: Reader) -> str | None:
        from nodepool_ocb.store import rollouts

        return rollouts.newest(reader.session, self.deployment)


class ReadRolloutDriver(Lookup["LockOwner | None"], frozen=True):
    """The annealer that drives a rollout; None if none does."""

    records = "locks of rollouts"

    deployment: str
    identity: str

    def answer(self, reader: Reader) -> LockOwner | None:
        from nodepool_ocb.store.locks import holders

        return holders(reader.session, [paths.rollout_lock(self.deployment, self.identity)])[0]


class AnnealerRuns(Lookup[bool], frozen=True):
    """True if an annealer is running."""

    records = "daemons"

    def answer(self, reader: Reader) -> bool:
        return bool(reader.session.children(paths.daemons("annealer")))
