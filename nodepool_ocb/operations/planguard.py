"""The guard of one call: it collects the findings of dry runs, and holds a write to the plan of the call.

The transactions of an attempt are decided before the first is written. So a write that differs from its plan writes nothing, and
no change fits between the comparison and the write: each transaction carries the versions of its decision.

A saved plan is carried out one time: its mark is written with the first transaction, and a plan with a mark is refused. A caller
with limits is told that the plan no longer holds, and not the changes: the journal is outside its limits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from nodepool_ocb.errors import Conflict, OcbError, VersionDiffers
from nodepool_ocb.model import keyed, paths
from nodepool_ocb.model.keyed import KeyedCall
from nodepool_ocb.model.records import Change, Create
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

    def __init__(self, journal: Journal, in_time: Callable[[], None], *, limited: bool) -> None:
        """``in_time`` raises TimedOut after the deadline of the call; ``limited``: its caller has limits."""
        self.mark: Create | None = None  # of the plan, written with its first transaction
        self._journal, self._in_time, self._limited = journal, in_time, limited
        self._there: dict[str, Znode] = {}  # the records that would be replaced or deleted

    def begin(self, opened: Session, plan: SavedPlan, cluster: str) -> None:
        """Raises NoCluster, Invalid or Conflict for a plan that is not valid."""
        plan.require_valid(cluster, opened.now())
        self._journal.plan = plan.remark
        record = KeyedCall(operation=plan.operation, digest=keyed.digest(plan.digest, b"", None), ended=True)
        self.mark = Create(paths.call(keyed.plan_id(plan.digest)), record)

    def require_unused(self, opened: Session, plan: PlanDemand) -> None:
        """Raises Conflict for a plan that was carried out, unless this call has begun to write it."""
        if self.mark is None or not isinstance(plan, SavedPlan):
            return
        found = opened.get(self.mark.path)
        if found is not None:
            raise Conflict(
                f"the plan of {plan.author} was carried out at {universal(found.mtime)}; nothing was written;"
                " see: nodepool-ocb history; to do it again, save it again with --dry-run --save"
            )

    def prepare(self, opened: Session) -> None:
        """Make room for the mark: old marks of plans are deleted."""
        from nodepool_ocb.store import keyed as stored

        if self.mark is not None:
            opened.ensure(paths.CALLS)  # the cluster may be older than marks
            with suppress(OcbError):
                stored.sweep(opened, plans_only=True)

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
            raise self._other(opened, plan, found, "the changes before this stay")
        return decided

    def require(self, opened: Session, plan: PlanDemand, found: PlanBasis) -> None:
        """Raises VersionDiffers unless a decision found the whole plan."""
        if not comparing.agrees(plan, found):
            raise self._other(opened, plan, found, "nothing was written")

    def _other(self, opened: Session, plan: PlanDemand, found: PlanBasis, written: str) -> VersionDiffers:
        if isinstance(plan, SavedPlan):
            sentence = f"the plan of {plan.author} at {universal(plan.at.timestamp())} no longer holds"
        else:
            sentence = "the plan of this call has changed since its dry run"
        parts = [sentence, *self._differences(opened, plan, found), written, "make the dry run again"]
        return VersionDiffers("; ".join(parts))

    def _differences(self, opened: Session, plan: PlanDemand, found: PlanBasis) -> list[str]:
        """Nothing for a caller with limits: an entry of the journal may be of an object outside."""
        if self._limited:
            return []
        if isinstance(plan, SavedPlan):
            return [moved.since(opened, plan.basis, found, self._in_time)]
        return [moved.newest(opened, found, self._in_time)]


class SilentCaller:
    """The caller of a trial."""

    def note(self, text: str) -> None:
        """The attempt that writes sends it again."""

    def agree(self, text: str, details: Sequence[str]) -> bool:  # noqa: ARG002
        return False
