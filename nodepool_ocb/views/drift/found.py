"""The results of the newest checks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Final

from nodepool_ocb.engine import drift
from nodepool_ocb.engine.world import Vertex, World
from nodepool_ocb.model.drift import UNCHECKED, CheckResult, Drift
from nodepool_ocb.model.records import Run, State
from nodepool_ocb.views.view import View

LONGEST: Final = 160  # letters of a difference in a row
UNMENDED: Final = "a refresh by the schedule changed nothing"


class DriftRow(View, frozen=True, kw_only=True):
    """The result of the newest check of a noderole."""

    noderole: str
    deployment: str
    drift: str  # in-sync, drifted, unknown, or unchecked
    checked: float | None
    run: str | None  # of the check
    difference: str | None  # the output of the check, in one line
    output: str | None  # its end, as it is
    unmended: bool  # a refresh by the schedule changed nothing, and no schedule refreshes it again


class DriftIn(View, frozen=True, kw_only=True):
    """How the noderoles of a deployment stand that are ACTIVE and can be checked."""

    deployment: str
    drifted: int
    unknown: int
    unchecked: int
    in_sync: int
    unmended: int  # of those that drifted: a refresh by the schedule changed nothing
    schedule: str | None
    advice: str | None


class CheckDocument(View, frozen=True, kw_only=True):
    """The results of requested checks."""

    in_sync: int
    drifted: int
    unknown: int
    noderoles: tuple[DriftRow, ...]


def row(vertex: Vertex, run: Run | None) -> DriftRow:
    """``run``: the record of the newest check, None where it is not there."""
    return _row(vertex, vertex.record.checked, run)


def of_run(vertex: Vertex, name: str, run: Run) -> DriftRow:
    """The same from the record of a check's run alone, for a noderole that ran again since."""
    found = Drift(run.outcome) if run.outcome in set(Drift) else Drift.UNKNOWN
    return _row(vertex, CheckResult(drift=found, at=run.ended, run=name, epoch=run.epoch), run)


def _row(vertex: Vertex, checked: CheckResult | None, run: Run | None) -> DriftRow:
    output = (run.tail or run.reason) if run is not None else None
    unmended = checked is not None and checked.unmended
    lines = f"{UNMENDED}\n{output or ''}" if unmended else output
    return DriftRow(
        noderole=vertex.name,
        deployment=vertex.record.deployment,
        drift=str(checked.drift) if checked else UNCHECKED,
        checked=checked.at if checked else None,
        run=checked.run if checked else None,
        difference=one_line(lines) if lines else None,
        output=lines,
        unmended=unmended,
    )


def one_line(text: str) -> str:
    """A text as one line of bounded length; of a difference of files, the file's name and the lines that differ.

    >>> one_line("chrony does not run\\n")
    'chrony does not run'
    >>> one_line("--- /etc/motd\\t2026-01-31\\n+++ motd.wanted\\t2026-01-31\\n@@ -1,2 +1 @@\\n Hello\\n-by hand\\n")
    '/etc/motd; -by hand'
    """
    line = "; ".join(_different(text.splitlines()))
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 3]}..."


def _different(lines: list[str]) -> Iterator[str]:
    """The lines to show first. Empty lines are left out; of a unified difference also times, positions and equal lines."""
    within = False
    for line, after in pairwise([*lines, ""]):
        if line.startswith("--- ") and after.startswith("+++ "):
            within = True
            yield line.removeprefix("--- ").partition("\t")[0]
        elif line.strip() and not (within and line.startswith(("+++ ", "@@ ", " "))):
            yield line.strip()


def asked(rows: Iterable[DriftRow]) -> CheckDocument:
    """The rows as one document, with the number of each result. An unchecked noderole counts as unknown."""
    rows = tuple(rows)
    counts = Counter(each.drift for each in rows)
    return CheckDocument(
        in_sync=counts[Drift.IN_SYNC],
        drifted=counts[Drift.DRIFTED],
        unknown=counts[Drift.UNKNOWN] + counts[UNCHECKED],
        noderoles=rows,
    )


def by_deployment(world: World) -> list[DriftIn]:
    """The deployments with a check, done or scheduled."""
    counts: dict[str, Counter[str]] = {}
    unmended: Counter[str] = Counter()
    for vertex in world.counted():
        stored, record, count = world.roles.get(vertex.role), vertex.record, vertex.node.stands_for
        if record.state is State.ACTIVE and stored is not None and drift.checkable(stored.record):
            counts.setdefault(record.deployment, Counter())[record.drift or UNCHECKED] += count
            unmended[record.deployment] += count if record.checked is not None and record.checked.unmended else 0
    found = (_in(world, name, counted, unmended[name]) for name, counted in sorted(counts.items()))
    return [each for each in found if each.schedule or each.drifted or each.unknown or each.in_sync]


def _in(world: World, deployment: str, counts: Mapping[str, int], unmended: int) -> DriftIn:
    wanted = drift.checks(world, deployment)
    some = counts.get(Drift.DRIFTED, 0) + counts.get(Drift.UNKNOWN, 0)
    return DriftIn(
        deployment=deployment,
        drifted=counts.get(Drift.DRIFTED, 0),
        unknown=counts.get(Drift.UNKNOWN, 0),
        unchecked=counts.get(UNCHECKED, 0),
        in_sync=counts.get(Drift.IN_SYNC, 0),
        unmended=unmended,
        schedule=wanted.schedule if wanted else None,
        advice=f"nodepool-ocb noderole drift -l deployment:{deployment}" if some else None,
    )
