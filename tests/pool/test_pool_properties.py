"""Random pools and requests in a simulated world: every request that can be served is served, in bounded time."""

from __future__ import annotations

import math

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nodepool_ocb.pool.configuration import PoolConfiguration, PoolLabelPolicy, StaticMachine
from tests.fixtures.examples import examples
from tests.pool.poolsimulation import DELETE_SECONDS, LAUNCH_SECONDS, PoolSimulation, settled
from tests.pool.poolworld import configuration, label, machines, pool

LABELS = ("a", "b", "c")
LIVES = {"a": 50.0, "b": 200.0, "c": 1000.0}
OVERHEAD = LAUNCH_SECONDS + 2 * DELETE_SECONDS + 30.0


@st.composite
def configurations(draw: st.DrawFn) -> PoolConfiguration:
    """One to three pools of one or two providers, with limits; perhaps static machines and min-ready."""
    pools = []
    for place in range(draw(st.integers(1, 3))):
        offered = draw(st.sets(st.sampled_from(LABELS), min_size=1))
        labels = [label(each, instances=1, cores=draw(st.integers(1, 3))) for each in sorted(offered)]
        limits = {"instances": draw(st.integers(1, 4))}
        if draw(st.booleans()):
            limits["cores"] = draw(st.integers(2, 8))
        provider = draw(st.sampled_from(["east", "west"]))
        pools.append(pool(f"p{place}", *labels, provider=provider, limits=limits, priority=draw(st.integers(1, 2))))
    if draw(st.booleans()):
        slots = [
            StaticMachine(
                name=f"m{place}",
                labels=tuple(sorted(draw(st.sets(st.sampled_from(LABELS), min_size=1)))),
                slots=draw(st.integers(1, 2)),
            )
            for place in range(draw(st.integers(1, 2)))
        ]
        pools.append(machines("lab", *slots))
    providers = {}
    for name in ("east", "west"):
        found = {}
        if draw(st.booleans()):
            found["limits"] = {"instances": draw(st.integers(1, 5))}
        if draw(st.booleans()):
            found["max_concurrency"] = draw(st.integers(1, 2))
        providers[name] = found
    policies = [PoolLabelPolicy(name=each, min_ready=draw(st.integers(0, 2))) for each in LABELS]
    tenants = {"t1": {"instances": draw(st.integers(1, 3))}} if draw(st.booleans()) else {}
    return configuration(*pools, labels=policies, providers=providers, tenant_limits=tenants)


ASKED = st.lists(
    st.tuples(
        st.lists(st.sampled_from(LABELS), min_size=1, max_size=3),
        st.sampled_from([None, "t1", "t2"]),
        st.floats(0, 400),
    ),
    min_size=1,
    max_size=12,
)


@settings(examples(25, long=60), deadline=None, suppress_health_check=list(HealthCheck))
@given(configurations(), ASKED, st.integers(1, 3), st.booleans(), st.integers(0, 2**16))
def test_every_request_is_served_or_fails_with_a_reason_in_bounded_time(
    file: PoolConfiguration, asked: list[tuple[list[str], str | None, float]], launchers: int, known: bool, seed: int
) -> None:
    world = PoolSimulation(dict.fromkeys(range(1, launchers + 1), file), LIVES, seed, known)
    made: dict[str, float] = {}
    for types, tenant, after in asked:
        world.at(
            after, lambda types=types, tenant=tenant: made.update({world.ask(*types, tenant_name=tenant): world.now})
        )
    world.run(lambda: len(made) == len(asked) and settled(world), 400 + longest(len(asked)))
    assert made.keys() == world.started.keys() | world.failed.keys()
    for place, (id, at) in enumerate(sorted(made.items())):
        end = world.started.get(id, world.now if id not in world.failed else at)
        assert end - at <= longest(place + 1), f"{id} waited {end - at}\n{world.picture()}"
        assert world.failed.get(id, "reason")


def longest(ahead: int) -> float:
    """The slow restatement: the first one starts after the nodes that run, and those that were let past it, have ended."""
    return ahead * 2 * (max(LIVES.values()) + OVERHEAD)


@settings(examples(25, long=60), deadline=None, suppress_health_check=list(HealthCheck))
@given(configurations(), st.lists(st.sampled_from(LABELS), min_size=1, max_size=3))
def test_a_request_fails_exactly_if_no_empty_pool_holds_it(file: PoolConfiguration, types: list[str]) -> None:
    world = PoolSimulation({1: file}, LIVES)
    id = world.ask(*types)
    world.run(lambda: settled(world), 5000)
    assert (id in world.started) == any(
        holds(file, provider.name, each.name, types)
        for provider in file.providers.values()
        for each in provider.pools.values()
    )


def holds(file: PoolConfiguration, provider: str, name: str, types: list[str]) -> bool:
    """Whether the empty pool has room for all the labels, by trying all assignments."""
    found = file.pool(provider, name)
    assert found is not None
    if found.machines:
        slots = [set(machine.labels) for machine in found.machines for _ in range(machine.slots)]
        return placed(types, slots)
    if not set(types) <= found.labels.keys():
        return False
    limits = [found.limits, file.providers[provider].limits]
    return all(
        sum(found.labels[each].resources.get(key, 0.0) for each in types) <= limit.get(key, math.inf)
        for limit in limits
        for key in ("instances", "cores")
    )


def placed(types: list[str], slots: list[set[str]]) -> bool:
    if not types:
        return True
    return any(
        types[0] in slot and placed(types[1:], slots[:place] + slots[place + 1 :]) for place, slot in enumerate(slots)
    )


TROUBLES = st.lists(st.sampled_from(["ready", "failed", "aborted", "ready"]), max_size=10)


@settings(examples(25, long=60), deadline=None, suppress_health_check=list(HealthCheck))
@given(configurations(), ASKED, TROUBLES, st.booleans(), st.integers(0, 2**16))
def test_failures_and_deaths_leave_no_request_behind(
    file: PoolConfiguration,
    asked: list[tuple[list[str], str | None, float]],
    troubles: list[str],
    death: bool,
    seed: int,
) -> None:
    world = PoolSimulation({1: file, 2: file}, LIVES, seed)
    left = list(troubles)
    world.launch = lambda _: left.pop() if left else "ready"
    made: set[str] = set()
    for types, tenant, after in asked:
        world.at(after, lambda types=types, tenant=tenant: made.add(world.ask(*types, tenant_name=tenant)))
    if death:
        world.at(100.0, lambda: world.die(1))
    world.run(lambda: len(made) == len(asked) and settled(world), 20_000)
    assert made == world.started.keys() | world.failed.keys()


@settings(examples(25, long=60), deadline=None, suppress_health_check=list(HealthCheck))
@given(configurations(), configurations(), ASKED, st.integers(0, 2**16))
def test_launchers_with_different_files_serve_each_request_that_one_of_them_can(
    one: PoolConfiguration, other: PoolConfiguration, asked: list[tuple[list[str], str | None, float]], seed: int
) -> None:
    names = {name: msgspec.structs.replace(each, name=f"x-{name}") for name, each in other.providers.items()}
    renamed = {
        each.name: msgspec.structs.replace(
            each, pools={key: msgspec.structs.replace(found, provider=each.name) for key, found in each.pools.items()}
        )
        for each in names.values()
    }
    files = {1: one, 2: msgspec.structs.replace(other, providers=renamed, tenant_limits=one.tenant_limits)}
    world = PoolSimulation(files, LIVES, seed)
    made: dict[str, list[str]] = {}
    for types, _, after in asked:
        world.at(after, lambda types=types: made.update({world.ask(*types): types}))
    world.run(lambda: len(made) == len(asked) and settled(world), 20_000)
    for id, types in made.items():
        able = any(
            holds(file, provider.name, each.name, types)
            for file in files.values()
            for provider in file.providers.values()
            for each in provider.pools.values()
        )
        assert (id in world.started) == able, world.picture()


@pytest.mark.parametrize("known", [True, False], ids=["known lives", "unknown lives"])
@pytest.mark.parametrize("kind", ["launched", "machines"])
def test_a_wide_request_starts_beside_an_endless_stream_of_small_ones(known: bool, kind: str) -> None:
    slots = StaticMachine(name="m", labels=("a",), slots=4)
    place = machines("lab", slots) if kind == "machines" else pool("main", "a", limits={"instances": 4})
    world = PoolSimulation({1: configuration(place)}, LIVES, known=known)

    def stream() -> None:
        world.ask("a")
        world.at(10.0, stream)

    stream()
    world.at(100.0, lambda: wide.append(world.ask("a", "a", "a", "a")))
    wide: list[str] = []
    queued = 10 * 4 * LIVES["a"]  # small requests that were there before it
    world.run(lambda: bool(wide) and wide[0] in world.started, 100 + longest(1) + queued)
