"""The guard of one call: it collects the findings of dry runs, and holds a write to the plan of the call.

The transactions of an attempt are decided before the first is written. So a write that differs from its plan writes nothing, and
no change fits between the comparison and the write: each transaction carries the versions of its decision.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from nodepool_ocb.errors import VersionDiffers
from nodepool_ocb.model.records import Change
from nodepool_ocb.operations.journal import Journal
from nodepool_ocb.operations.operation import Performed
from nodepool_ocb.operations.plans import comparing, moved, saved
from nodepool_ocb.operations.plans.saved import PlanBasis, PlanDemand, SavedPlan
from nodepool_ocb.operations.wire.codec import encode_answer
from nodepool_ocb.views.times import universal

if TYPE_CHECKING:
    from nodepool_ocb.store.client.frames import Znode
    from nodepool_ocb.store.client.session import Session


class PlanGuard:
    """Of the operations of one call."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._there: dict[str, Znode] = {}  # the records that would be replaced or deleted

    def remember(self, opened: Session, transaction: Sequence[Change]) -> None:
        """Read the records that a transaction would replace or delete."""
        self._there |= self._journal.remember(opened, transaction)

    def basis(self, now: float, changes: Sequence[Change], performed: Performed[Any]) -> PlanBasis:
        """The findings of a dry run with these changes; its answers count if it names no record."""
        records = saved.versions(changes, self._there)
        answers = () if records else tuple(saved.shown(encode_answer(each)) for each in performed.answers)
        return PlanBasis(at=now, rows=performed.rows, records=records, answers=answers)

    def followed(
        self, opened: Session, plan: PlanDemand, transactions: Iterable[Sequence[Change]], *, begun: bool
    ) -> Sequence[Sequence[Change]]:
        """The transactions of an attempt, if they are those of the plan; raises VersionDiffers.

        ``begun``: parts of the plan are written or compared; the attempt must go on with it. Else it must have the whole plan.
        """
        decided = [*transactions]
        left = [change for transaction in decided for change in transaction]
        self.remember(opened, left)
        rows, records = self._journal.rows(left), saved.versions(left, self._there)
        found = PlanBasis(at=opened.now(), rows=rows, records=records)
        if not begun:
            self.require(opened, plan, found)
        elif not comparing.is_part(plan, found):
            raise _other(opened, plan, found, "the changes before this stay")
        return decided

    def require(self, opened: Session, plan: PlanDemand, found: PlanBasis) -> None:
        """Raises VersionDiffers unless a decision found the whole plan."""
        if not comparing.agrees(plan, found):
            raise _other(opened, plan, found, "nothing was written")


def _other(opened: Session, plan: PlanDemand, found: PlanBasis, written: str) -> VersionDiffers:
    if isinstance(plan, SavedPlan):
        sentence = f"the plan of {plan.author} at {universal(plan.at.timestamp())} no longer holds"
        difference = moved.since(opened, plan.basis, found)
    else:
        sentence = "the plan of this call has changed since its dry run"
        difference = moved.newest(opened, found)
    return VersionDiffers(f"{sentence}; {difference}; {written}; make the dry run again")


class SilentCaller:
    """The caller of a trial."""

    def note(self, text: str) -> None:
        """The attempt that writes sends it again."""

    def agree(self, text: str, details: Sequence[str]) -> bool:  # noqa: ARG002
        return False
