"""Quota refusals of providers: the back-off between launches, and the number of launches at a time after it. Pure.

A provider without a reported quota shows that it is full by refusing launches. The record of a refused launch stays for a while.
It has the number of refusals in a row, and the number of machines beside it. The newest such record of a provider decides:

- Until the back-off is over, nothing is launched there. The back-off doubles with each refusal in a row.
- Then one launch is tried.
- A machine that is gone since then permits one launch at once.
- Each order that the provider took since then permits one launch more at a time.

These launches are for the first requests in the order, whichever launcher holds them. A refusal after an order that was taken, or
after a machine that went, counts as the first one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from nodepool_ocb.model.pool import LaunchFacts, PoolNodeState, launch_facts
from nodepool_ocb.pool.views import PoolNodeView

FIRST_SECONDS: Final = 10.0
LONGEST_SECONDS: Final = 120.0  # the longest wait for room that the usage of others left
QUOTA_PARTY: Final = "quota"  # the provider has no room


class QuotaRefusal(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a provider that refused a launch for its quota.

    ``until``: no launch before this time, in seconds since the epoch. ``most``: launches without a machine at a time.
    """

    refusals: int  # in a row
    until: float
    most: int


def quota_refused(node: PoolNodeView) -> bool:
    """Whether the node shows a launch that its provider refused for its quota."""
    facts = launch_facts(node.record)
    return node.record.state is PoolNodeState.ABORTED and (facts is None or facts.party in (None, QUOTA_PARTY))


def quota_backoff(node: PoolNodeView) -> float:
    """The end of the back-off after a refused launch, in seconds since the epoch."""
    refusals = max(1, _facts(node).refusals)
    seconds = min(LONGEST_SECONDS, FIRST_SECONDS * 2.0 ** min(refusals - 1, 30))
    return node.record.state_time + seconds


def machines(nodes: Iterable[PoolNodeView]) -> dict[str, int]:
    """By provider the number of nodes with a machine."""
    found: dict[str, int] = {}
    for node in nodes:
        if node.record.external_id is not None and node.record.state is not PoolNodeState.DELETED:
            provider = node.record.provider or ""
            found[provider] = found.get(provider, 0) + 1
    return found


def quota_refusals(nodes: Iterable[PoolNodeView]) -> Mapping[str, QuotaRefusal]:
    """The providers that refused a launch for their quota a while ago."""
    known = list(nodes)
    newest: dict[str, PoolNodeView] = {}
    for node in known:
        provider = node.record.provider or ""
        if quota_refused(node) and (provider not in newest or _order(node) > _order(newest[provider])):
            newest[provider] = node
    if not newest:
        return {}
    present, taken = machines(known), _taken(known, newest)
    return {provider: _refusal(node, present.get(provider, 0), taken[provider]) for provider, node in newest.items()}


def _taken(nodes: Iterable[PoolNodeView], newest: Mapping[str, PoolNodeView]) -> dict[str, int]:
    """The orders that each provider took after its newest refusal."""
    found = dict.fromkeys(newest, 0)
    for node in nodes:
        refused = newest.get(node.record.provider or "")
        if refused is None or node.record.external_id is None:
            continue
        if node.created >= refused.record.state_time:
            found[node.record.provider or ""] += 1
    return found


def _refusal(node: PoolNodeView, present: int, taken: int) -> QuotaRefusal:
    facts = _facts(node)
    gone = max(0, (facts.beside or 0) - present)
    if taken or gone:
        return QuotaRefusal(refusals=0, until=0.0, most=taken + max(1, gone))
    return QuotaRefusal(refusals=max(1, facts.refusals), until=quota_backoff(node), most=1)


def _order(node: PoolNodeView) -> tuple[float, int, str]:
    return node.record.state_time, _facts(node).refusals, node.id


def _facts(node: PoolNodeView) -> LaunchFacts:
    return launch_facts(node.record) or LaunchFacts(key="")


def refused_sentence(provider: str, refused: QuotaRefusal, now: float) -> str:
    """The back-off in words."""
    if refused.until <= now:
        return f"{provider} refused a launch for its quota; at most {refused.most} at a time may be tried now"
    times = "a launch" if refused.refusals == 1 else f"{refused.refusals} launches in a row"
    return f"{provider} refused {times} for its quota; one is tried in {refused.until - now:.0f} s, or when a machine is deleted"
