"""The order of requests: the priority as text, the relative priority, the sequence, and patience within a tenant. Pure.

A request that has waited longer than the patience goes before newer requests of its tenant and priority, also if its relative
priority says otherwise. It takes a place of its own tenant, so no other tenant loses one.
"""

from __future__ import annotations

from collections.abc import Iterable

from nodepool_ocb.model.pool import RequestState
from nodepool_ocb.pool.views import RequestView

WAITING = frozenset({RequestState.REQUESTED, RequestState.PENDING})


def queue(requests: Iterable[RequestView], patience_seconds: float, now: float) -> list[RequestView]:
    """The unfinished requests, the first one first."""
    found = sorted((each for each in requests if each.record.state in WAITING), key=_order)
    overdue = {_group(each) for each in found if now - each.created > patience_seconds}
    if not overdue:
        return found
    places: dict[tuple[str, str | None], list[int]] = {}
    for place, each in enumerate(found):
        if _group(each) in overdue:
            places.setdefault(_group(each), []).append(place)
    for taken in places.values():
        members = [found[place] for place in taken]
        late = sorted((each for each in members if now - each.created > patience_seconds), key=_age)
        rest = [each for each in members if now - each.created <= patience_seconds]
        for place, each in zip(taken, [*late, *rest], strict=True):
            found[place] = each
    return found


def patience_ends(requests: Iterable[RequestView], patience_seconds: float, now: float) -> float | None:
    """The next time at which a request becomes overdue; None if there is none."""
    ends = (each.created + patience_seconds for each in requests if each.record.relative_priority)
    return min((end for end in ends if end >= now), default=None)


def _order(request: RequestView) -> tuple[str, int, str]:
    return request.order


def _age(request: RequestView) -> tuple[float, str]:
    return request.created, request.id.partition("-")[2]


def _group(request: RequestView) -> tuple[str, str | None]:
    return request.id.partition("-")[0], request.record.tenant_name
