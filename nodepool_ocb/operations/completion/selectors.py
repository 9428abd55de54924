"""The continuations of a selector that is being typed: a criterion, or a value of the criterion before the cursor. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from nodepool_ocb.engine.selection.expression import BEGINNINGS, FLAGS, NUMERIC, YES_OR_NO, CriterionKind
from nodepool_ocb.model.records import State

#: The possible beginnings of a criterion.
CRITERIA: Final = (*BEGINNINGS, "not ")


class Typed(msgspec.Struct, frozen=True):
    """A selector up to the cursor: ``before`` stays as it is; a value of ``kind`` follows it, or a criterion for None."""

    before: str
    kind: CriterionKind | None


def typed(text: str) -> Typed:
    """The place of the cursor in a selector.

    >>> typed("tag:web or (not sta"), typed("tag:web label:zone=a,z")
    (Typed(before='tag:web or (not ', kind=None), Typed(before='tag:web label:zone=a,', kind=<CriterionKind.LABEL: 'label'>))
    """
    start = max(text.rfind(each) for each in " (") + 1
    name, colon, _ = text[start:].partition(":")
    if not colon or name not in {*CriterionKind} - FLAGS - NUMERIC:
        return Typed(text[:start], None)
    return Typed(text[: max(start + len(name), text.rfind(",")) + 1], CriterionKind(name))


def offers(where: Typed, values: Mapping[CriterionKind, Iterable[str]]) -> list[str]:
    """Whole selectors; ``values``: those that there are, of kinds that have no fixed ones.

    >>> offers(typed("not al"), {}) == [f"not {each}" for each in CRITERIA]
    True
    >>> offers(typed("tag:w"), {CriterionKind.TAG: ["web"]}), offers(typed("alive:"), {})
    (['tag:web'], ['alive:yes', 'alive:no'])
    """
    if where.kind is None:
        found: Iterable[str] = CRITERIA
    elif where.kind in YES_OR_NO:
        found = ("yes", "no")
    elif where.kind is CriterionKind.STATE:
        found = map(str, State)
    else:
        found = values.get(where.kind, ())
    return [f"{where.before}{each}" for each in found]
