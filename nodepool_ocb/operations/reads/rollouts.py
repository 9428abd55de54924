"""Rollouts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nodepool_ocb.operations.operation import Lookup
from nodepool_ocb.rollout.records import Rollout

if TYPE_CHECKING:
    from nodepool_ocb.operations.performer import Reader


class ReadRollout(Lookup["Rollout | None"], frozen=True):
    """One rollout as it is; None if it does not exist or was never begun. Raises Invalid if a part of it is broken."""

    records = "rollouts"

    deployment: str
    identity: str

    def answer(self, reader: Reader) -> Rollout | None:
        from nodepool_ocb.store import rollouts

        read = rollouts.read(reader.session, self.deployment, self.identity)
        return None if read is None else read[0]
