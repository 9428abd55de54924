"""The cause for which a request waits, by the same rules as those of launchers. Pure.

Limits stand in the nodepool.yaml of launchers and in no record. A host without that file knows the order, the labels that running
pools have, the nodes of a request and its failed launches. For the rest it names the pools, and says that their limits are not
known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec.structs import replace

from nodepool_ocb.model.pool import RequestState
from nodepool_ocb.operations.operation import Lookup, Situation, Steps
from nodepool_ocb.operations.reads.pools import FoundPool, KnownLimits, ReadPoolConfiguration
from nodepool_ocb.pool.configuration import PoolConfiguration
from nodepool_ocb.pool.explaining import reasons
from nodepool_ocb.pool.instructions import PoolVerdict, WaitReason
from nodepool_ocb.pool.views import RequestView

READS: Final[tuple[type[Lookup[KnownLimits]], ...]] = (ReadPoolConfiguration,)
WAITING: Final = frozenset({RequestState.REQUESTED, RequestState.PENDING})
ELSEWHERE: Final = "ELSEWHERE"


def explained(
    found: FoundPool, requests: Iterable[RequestView], situation: Situation
) -> Steps[Mapping[str, WaitReason]]:
    """The reason of each of these requests that waits, by id. It asks ``READS``."""
    ids = [each.id for each in requests if each.record.state in WAITING]
    if not ids:
        return {}
    known = yield from ReadPoolConfiguration()
    made = reasons(found.view, known.configuration or PoolConfiguration(), situation.now, ids)
    return made if known.configuration is not None else {id: _unlimited(each, known) for id, each in made.items()}


def _unlimited(reason: WaitReason, known: KnownLimits) -> WaitReason:
    """The reason as a host without the file of launchers can tell it."""
    unknown = f"its limits are not known here, since {known.file} has no pools"
    pools = tuple(
        PoolVerdict(provider=each.provider, pool=each.pool, code=each.code, reason=unknown)
        if each.code == ELSEWHERE
        else each
        for each in reason.pools
    )
    if reason.code != ELSEWHERE:
        return replace(reason, pools=pools)
    names = ", ".join(f"{each.provider}/{each.pool}" for each in pools)
    sentence = f"its labels are offered by {names}; their limits are not known here, since {known.file} has no pools"
    return replace(reason, pools=pools, reason=sentence)
