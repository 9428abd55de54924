"""Rollouts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from nodepool_ocb.model import paths
from nodepool_ocb.model.executions import ROLLOUT
from nodepool_ocb.model.records import Change, Check
from nodepool_ocb.operations.operation import Lookup, Procedure
from nodepool_ocb.operations.reads.executions import ReadDriver, ReadNewest, newest_first
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


class EnterLine(Lookup[list[Change]], frozen=True):
    """The changes that join the transaction by which a rollout of a deployment begins or resumes.

    Raises Conflict while a rollout of a deployment above or below is under way, NotFound without the deployment.
    """

    records = "rollouts, deployments"

    deployment: str

    def answer(self, reader: Reader) -> list[Change]:
        from nodepool_ocb.store.driven import lines

        return lines.entered(reader.session, self.deployment)


class WithoutTaskRun(Lookup[list[Change]], frozen=True):
    """The checks that no run of tasks begins beside a rollout; raises Conflict while one is under way or prepared."""

    records = "runs of tasks"

    deployment: str

    def answer(self, reader: Reader) -> list[Change]:
        from nodepool_ocb.store.tasks import rolled

        return rolled.alone(reader.session, self.deployment)


class ListRollouts(Lookup["list[ListedRollout]"], frozen=True):
    """Every rollout, by deployment, the newest first; a rollout that cannot be decoded is left out."""

    records = "rollouts"

    def answer(self, reader: Reader) -> list[ListedRollout]:
        from nodepool_ocb.store import rollouts

        reader.session.sync()
        return newest_first(rollouts.list_(reader.session))


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


class ReadNewestRollout(ReadNewest, frozen=True):
    """The id of a deployment's newest rollout."""

    kind, records = ROLLOUT, "rollouts"


class ReadRolloutDriver(ReadDriver, frozen=True):
    """The annealer that drives a rollout."""

    kind, records = ROLLOUT, "locks of rollouts"


class BeginRollout(Procedure[str], frozen=True, kw_only=True):
    """Write a rollout that ``plan.begin`` made, with its run of tasks if it names one. The answer: its id.

    Raises Conflict while another rollout, or a run of tasks of others, has to do with the same nodes. Raises Conflict if a
    check of ``judged`` fails.
    """

    deployment: str
    rollout: Rollout
    judged: Sequence[Check]

    def carry_out(self, reader: Reader) -> str:
        from nodepool_ocb.store import rollouts
        from nodepool_ocb.store.tasks import rolled

        opened, deployment, run = reader.session, self.deployment, self.rollout.head.task_run

        def joined(identity: str) -> Sequence[Change]:
            if run is None:
                return rolled.alone(opened, deployment)
            return rolled.joined(opened, deployment, run, identity)

        return rollouts.begin(opened, deployment, self.rollout, self.judged, joined)
