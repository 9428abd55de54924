"""The cause for which a request waits, by the same rules as those of launchers. Pure.

Limits stand in the nodepool.yaml of launchers and in no record. A host without that file knows the order, the labels that running
pools have, the nodes of a request and its failed launches. For the rest it names the pools, and the hosts of their launchers,
where the same command knows the limits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from nodepool_ocb.model.pool import RequestState
from nodepool_ocb.operations.operation import Lookup, Situation, Steps
from nodepool_ocb.operations.reads.pools import FoundPool, KnownLimits, ReadPoolConfiguration
from nodepool_ocb.pool.configuration import PoolConfiguration
from nodepool_ocb.pool.explaining import reasons
from nodepool_ocb.pool.instructions import PoolVerdict, WaitReason
from nodepool_ocb.pool.views import PoolView, RequestView

READS: Final[tuple[type[Lookup[KnownLimits]], ...]] = (ReadPoolConfiguration,)
WAITING: Final = frozenset({RequestState.REQUESTED, RequestState.PENDING})
ELSEWHERE: Final = "ELSEWHERE"
HOSTS: Final = 3  # that a reason names


def explained(
    found: FoundPool, requests: Iterable[RequestView], situation: Situation
) -> Steps[Mapping[str, WaitReason]]:
    """The reason of each of these requests that waits, by id. It asks ``READS``."""
    ids = [each.id for each in requests if each.record.state in WAITING]
    if not ids:
        return {}
    known = yield from ReadPoolConfiguration()
    made = reasons(found.view, known.configuration or PoolConfiguration(), situation.now, ids)
    hosts = _hosts(found.view)
    return {id: _elsewhere(each, hosts) for id, each in made.items()}


def _hosts(view: PoolView) -> Mapping[tuple[str, str], list[str]]:
    """The hosts of the launchers of each pool, by provider and name."""
    found: dict[tuple[str, str], set[str]] = {}
    for member in view.members:
        found.setdefault(member.key, set()).add(member.record.hostname)
    return {key: sorted(hosts) for key, hosts in found.items()}


def _elsewhere(reason: WaitReason, hosts: Mapping[tuple[str, str], Sequence[str]]) -> WaitReason:
    """The reason, with the hosts to ask about pools that the file of this host does not have."""
    others = [each for each in reason.pools if each.code == ELSEWHERE]
    if not others:
        return reason
    ask = f"ask there: nodepool-ocb request show {reason.request}"

    def limits_of(pool: PoolVerdict) -> str:
        names = hosts.get((pool.provider, pool.pool), ())
        more = f" and {len(names) - HOSTS} more" if len(names) > HOSTS else ""
        return f"its limits are in the nodepool.yaml of the launcher on {', '.join(names[:HOSTS])}{more}"

    pools = tuple(
        replace(each, reason=f"{limits_of(each)}; {ask}") if each.code == ELSEWHERE else each for each in reason.pools
    )
    if reason.code != ELSEWHERE:
        return replace(reason, pools=pools)
    first = others[0]
    more = f" (and {len(others) - 1} more pools)" if len(others) > 1 else ""
    sentence = f"{first.provider}/{first.pool}{more} has its labels; {limits_of(first)}; {ask}"
    return replace(reason, pools=pools, reason=sentence)
