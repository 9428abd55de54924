"""10,000 requests and 2,000 nodes: the work of one decision is bounded, and the order is kept."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from nodepool_ocb.model.pool import PoolNodeState
from nodepool_ocb.pool.capacity.planning import Planner
from nodepool_ocb.pool.deciding import decide
from nodepool_ocb.pool.views import PoolView
from tests.pool.poolworld import NOW, configuration, launcher, node, pool, request, view

LABELS = [f"label{each}" for each in range(50)]
POOLS = [pool(f"p{each}", *LABELS, provider=f"cloud{each}", limits={"instances": 500}) for each in range(4)]
FILE = configuration(*POOLS)


@pytest.fixture(scope="module")
def crowd() -> PoolView:
    """Each pool is full; the requests differ in labels, tenants and priorities."""
    draw = random.Random(1)
    requests = [
        request(
            str(each),
            *draw.choices(LABELS, k=draw.randint(1, 4)),
            tenant_name=f"t{each % 20}",
            relative_priority=draw.randint(0, 5),
        )
        for each in range(10_000)
    ]
    busy = {"state": PoolNodeState.IN_USE, "locked": True}
    nodes = [node(str(each), draw.choice(LABELS), place=POOLS[each % 4], **busy) for each in range(2_000)]
    return view(FILE, *requests, *nodes, lives=dict.fromkeys(LABELS, 600.0))


def trials_of(act: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> int:
    trials = 0
    real = Planner.trial

    def counted(*each: object, due: bool = True) -> object:
        nonlocal trials
        trials += 1
        return real(*each, due=due)  # type: ignore[arg-type]

    monkeypatch.setattr(Planner, "trial", counted)
    act()
    return trials


def test_a_long_queue_needs_few_full_trials(crowd: PoolView, monkeypatch: pytest.MonkeyPatch) -> None:
    assert trials_of(lambda: decide(crowd, FILE, launcher(FILE), NOW), monkeypatch) < 100


def test_a_decision_over_a_long_queue_takes_well_under_a_second(crowd: PoolView) -> None:
    took = []
    for _ in range(3):
        begin = time.thread_time()
        decide(crowd, FILE, launcher(FILE), NOW)
        took.append(time.thread_time() - begin)
    assert min(took) < 0.7, "it takes about 0.1 s on a quiet machine"


def test_requests_that_no_pool_can_serve_are_declined_in_parts() -> None:
    asked = [request(str(each), f"unknown{each}") for each in range(1, 1001)]
    found = decide(view(FILE, *asked), FILE, launcher(FILE), NOW)
    assert (len(found.steps), found.seconds) == (100, 0.0)


def test_requests_of_tenants_at_their_limit_need_few_full_trials(
    crowd: PoolView, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = configuration(*POOLS, tenant_limits={f"t{each}": {"instances": 10} for each in range(20)})
    nodes = {
        each.id: replace(each, record=replace(each.record, tenant_name=f"t{place % 20}"))
        for place, each in enumerate(list(crowd.nodes.values())[:1900])
    }
    shown = PoolView(requests=crowd.requests, nodes=nodes, members=crowd.members)
    assert trials_of(lambda: decide(shown, file, launcher(file), NOW), monkeypatch) < 300


def test_the_first_of_a_long_queue_are_claimed_first(crowd: PoolView) -> None:
    free = PoolView(requests=crowd.requests, members=crowd.members, lives=crowd.lives)
    found = decide(free, FILE, launcher(FILE), NOW)
    claims = [step.request for step in found.steps]  # type: ignore[union-attr]
    assert claims == sorted(crowd.requests, key=lambda id: crowd.requests[id].order)[: len(claims)]
    assert found.seconds == 0.0
