"""Order and backfill: examples with names, and a slow restatement over random queues of one pool."""

from __future__ import annotations

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from nodepool_ocb.model.pool import PoolNodeState
from nodepool_ocb.pool.configuration import PoolConfiguration, StaticMachine
from nodepool_ocb.pool.views import PoolNodeView, ProviderQuota, RequestView
from tests.fixtures.examples import examples
from tests.pool.poolworld import NOW, configuration, label, machines, node, pool, request, steps

LIVES = {"short": 100.0, "long": 1000.0}
MAIN = pool("main", "short", "long", "endless", label("big", cores=8.0), limits={"instances": 4, "cores": 8})
CLOUD = configuration(MAIN)


def busy(id: str, label: str, age: float = 0.0) -> PoolNodeView:
    return node(id, label, state=PoolNodeState.IN_USE, locked=True, created=NOW - age)


def claims(*each: RequestView | PoolNodeView, file: PoolConfiguration = CLOUD) -> list[str]:
    return [step for step in steps(file, *each, lives=LIVES) if not step.startswith("launch")]


WIDE = request("1", "short", "short", "short", "short")


def test_a_later_request_that_ends_in_time_is_let_past() -> None:
    assert claims(WIDE, request("2", "short"), busy("9", "long")) == ["claim 1", "claim 2"]


def test_a_later_request_that_would_delay_the_first_waits() -> None:
    assert claims(WIDE, request("2", "long"), busy("9", "short")) == ["claim 1"]


def test_a_node_after_its_expected_end_lets_no_one_past() -> None:
    assert claims(WIDE, request("2", "short"), busy("9", "long", age=5000.0)) == ["claim 1"]


def test_capacity_that_the_first_leaves_is_used_without_end() -> None:
    first = request("1", "short", "short")
    file = configuration(pool("main", "short", "long", "endless", limits={"instances": 4}))
    assert claims(
        first, request("2", "endless"), busy("7", "short"), busy("8", "short"), busy("9", "short"), file=file
    ) == [
        "claim 1",
        "claim 2",
    ]


def test_an_unknown_life_ends_after_all_known_ones() -> None:
    assert claims(WIDE, request("2", "endless"), busy("9", "endless")) == ["claim 1"]
    assert claims(WIDE, request("2", "long"), busy("9", "endless")) == ["claim 1", "claim 2"]


def test_requests_with_an_unknown_life_do_not_pass_the_first_one_after_another() -> None:
    first = request("1", "endless", "endless")
    assert claims(first, request("2", "endless"), *(busy(each, "endless") for each in "789")) == ["claim 1"]


def test_later_requests_use_a_pool_that_the_first_cannot_use() -> None:
    other = pool("other", "short", limits={"instances": 1})
    file = configuration(pool("main", "long", limits={"instances": 1}), other)
    assert claims(request("1", "long"), request("2", "short"), busy("9", "long"), file=file) == ["claim 1", "claim 2"]


def test_idle_nodes_that_take_the_room_of_the_first_are_deleted_and_no_more_than_needed() -> None:
    first = request("1", "short", "short", "short")
    idle = [node(each, "long", state_time=NOW - int(each)) for each in "678"]
    assert claims(first, *idle) == ["claim 1", "delete 8", "delete 7"]


def test_idle_nodes_stay_while_the_first_must_wait_for_others() -> None:
    assert claims(WIDE, node("6", "long"), busy("9", "long")) == ["claim 1"]


def test_the_room_of_an_idle_node_that_stays_is_not_spare() -> None:
    file = configuration(pool("main", "small", "other", limits={"instances": 4}))
    going = node("8", "small", state=PoolNodeState.DELETING, locked=True)
    wide, later = request("1", "small", "small", "small"), request("2", "small")
    assert steps(file, wide, later, going, node("9", "other")) == ["claim 1"]


def test_an_idle_node_that_the_first_will_use_is_not_deleted_for_its_room() -> None:
    file = configuration(pool("main", "small", limits={"instances": 2}))
    assert steps(file, request("1", "small", "small"), busy("8", "small"), node("9", "small")) == ["claim 1"]


def test_idle_nodes_make_room_for_a_request_that_takes_no_ready_node() -> None:
    file = configuration(pool("main", "small", limits={"instances": 3}))
    fresh = request("1", "small", "small", reuse=False)
    assert steps(file, fresh, busy("8", "small"), node("9", "small")) == ["claim 1", "delete 9"]


def test_a_limit_that_the_first_does_not_need_keeps_no_idle_node() -> None:
    limits = {"instances": 3, "cores": 4}
    file = configuration(pool("main", "small", "other", label("big", cores=8.0), limits=limits))
    waiting = request("1", "small", "small")
    assert steps(file, waiting, busy("8", "big"), node("9", "other")) == ["claim 1", "delete 9"]


def test_idle_nodes_stay_if_their_room_is_not_enough_beside_foreign_usage() -> None:
    file = configuration(pool("main", "small", "other"))
    quotas = {"cloud": ProviderQuota(limits={"instances": 4}, foreign={"instances": 3})}
    assert steps(file, request("1", "small", "small"), node("9", "other"), quotas=quotas) == ["claim 1"]


def test_ready_nodes_that_the_first_will_use_are_kept_for_it() -> None:
    assert claims(WIDE, request("2", "short"), node("6", "short"), *(busy(each, "short", 50.0) for each in "789")) == [
        "claim 1"
    ]


def test_a_machine_that_the_first_waits_for_is_kept_and_another_is_lent() -> None:
    lab = machines(
        "lab", StaticMachine(name="m", labels=("x",), slots=2), StaticMachine(name="n", labels=("y",)), provider="cloud"
    )
    file = configuration(lab)
    fields = {"place": lab, "username": "zuul", "connection_port": 22}
    nodes = [
        node("5", "x", hostname="m", slot=0, **fields),
        node("6", "x", hostname="m", slot=1, state=PoolNodeState.IN_USE, locked=True, **fields),
        node("7", "y", hostname="n", slot=0, **fields),
    ]
    assert claims(request("1", "x", "x"), request("2", "x"), request("3", "y"), *nodes, file=file) == ["claim 3"]


def test_the_priority_the_relative_priority_and_the_sequence_order_requests() -> None:
    one = configuration(pool("main", "short", limits={"instances": 1}))
    late = [request("100-0000000003", "short"), request("200-0000000001", "short")]
    assert claims(*late, request("100-0000000002", "short", relative_priority=1), file=one)[0] == "claim 3"


def test_a_relative_priority_of_null_counts_as_zero() -> None:
    ranks = {"1": 1, "2": None, "3": -1}
    queue = sorted((request(id, "small", relative_priority=rank) for id, rank in ranks.items()), key=lambda r: r.order)
    assert [each.id[-1] for each in queue] == ["3", "2", "1"]


def test_a_request_that_waited_beyond_the_patience_goes_before_newer_ones_of_its_tenant() -> None:
    one = configuration(pool("main", "short", limits={"instances": 1}), patience_seconds=300.0)
    fields = {"relative_priority": 5, "tenant_name": "t"}
    newer = request("2", "short", tenant_name="t")
    assert claims(request("1", "short", created=NOW - 301, **fields), newer, file=one)[0] == "claim 1"
    assert claims(request("1", "short", created=NOW - 299, **fields), newer, file=one)[0] == "claim 2"


def test_patience_takes_no_place_of_another_tenant() -> None:
    one = configuration(pool("main", "short", limits={"instances": 1}))
    impatient = request("1", "short", created=NOW - 500, relative_priority=5, tenant_name="t")
    assert claims(impatient, request("2", "short", tenant_name="u"), file=one)[0] == "claim 2"


# -- the slow restatement --

NEVER = 1e9  # the end of nodes with an unknown life
NEEDS = {"short": (1, 1), "long": (1, 1), "endless": (1, 1), "big": (1, 8)}  # instances, cores
BOUND = pool(
    "main",
    *(label(name, instances=float(need[0]), cores=float(need[1])) for name, need in NEEDS.items()),
    limits={"instances": 4, "cores": 8},
)
LABELS = st.sampled_from(sorted(NEEDS))


@settings(examples(150, long=400), deadline=None)
@given(
    st.lists(st.tuples(LABELS, st.floats(0, 1500)), max_size=4),
    st.lists(st.lists(LABELS, min_size=1, max_size=4), min_size=1, max_size=7),
)
def test_the_claims_agree_with_the_slow_restatement(running: list[tuple[str, float]], asked: list[list[str]]) -> None:
    file = configuration(BOUND)
    nodes = [busy(str(90 + place), name, age) for place, (name, age) in enumerate(running)]
    requests = [request(str(place), *types) for place, types in enumerate(asked, 1)]
    occupants = [(end(name, age, place / 10), need([name])) for place, (name, age) in enumerate(running)]
    if not fits(occupants, -1.0, []):
        return  # more than the limit is in use
    expected = [f"claim {place}" for place in slowly(occupants, asked)]
    found = [step for step in steps(file, *requests, *nodes, lives=LIVES) if step.startswith("claim")]
    assert found == expected


def slowly(occupants: list[tuple[float, list[int]]], asked: list[list[str]]) -> list[int]:
    """The requests that start, and the first one that waits: each start leaves the earliest start of that one unchanged."""
    found: list[int] = []
    waiting: list[str] | None = None
    for place, types in enumerate(asked, 1):
        if not fits([], 0.0, types):
            continue  # it fails
        last = (end(longest(types), 0.0, later=place), need(types))
        if not fits(occupants, 0.0, types):
            if waiting is None:
                waiting = types
                found.append(place)
            continue
        if waiting is None or earliest([*occupants, last], waiting) <= earliest(occupants, waiting):
            found.append(place)
            each = [(end(name, 0.0, later=place + one / 10), need([name])) for one, name in enumerate(types)]
            occupants = [*occupants, *each]
    return found


def longest(types: list[str]) -> str:
    return max(types, key=lambda each: LIVES.get(each, math.inf))


def end(name: str, age: float, later: float = 0.0) -> float:
    """Seconds from now to the expected end."""
    return max(0.0, LIVES[name] - age) if name in LIVES else NEVER + later


def need(types: list[str]) -> list[int]:
    return [sum(NEEDS[each][key] for each in types) for key in (0, 1)]


def fits(occupants: list[tuple[float, list[int]]], at: float, types: list[str]) -> bool:
    left = [uses for ends, uses in occupants if ends > at or at <= 0.0]
    return all(sum(uses[key] for uses in left) + need(types)[key] <= limit for key, limit in ((0, 4), (1, 8)))


def earliest(occupants: list[tuple[float, list[int]]], types: list[str]) -> float:
    """The first time at which a request fits, if all nodes end as expected."""
    times = sorted({0.0, *(ends for ends, _ in occupants)})
    return next(
        at
        for at in times
        if all(
            sum(uses[key] for ends, uses in occupants if ends > at) + need(types)[key] <= limit
            for key, limit in ((0, 4), (1, 8))
        )
    )
