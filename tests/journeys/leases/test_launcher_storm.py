"""A storm over three launchers and three providers at their limits: each request ends, and no node serves two or is lost.

Launchers are killed, frozen and cut off; a provider hangs, refuses, answers nonsense or kills its launcher; another reports a
false quota; machines of the third lose their power; ZooKeeper's server is killed and frozen; another writer comes between.
"""

from __future__ import annotations

import getpass
import random
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.errors import Unavailable
from nodepool_ocb.model import paths
from nodepool_ocb.model.pool import PoolNode, PoolNodeState, launch_facts
from nodepool_ocb.model.records import Json
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.testing.clocks import skewed
from nodepool_ocb.testing.machines import Farm
from nodepool_ocb.testing.processes import CutDaemon
from nodepool_ocb.testing.storm import Fault, Mend, Storm, duration, overtake, seeded
from nodepool_ocb.testing.zookeeper.server import Server
from tests.journeys.leases import visits
from tests.journeys.leases.crowd import Crowd
from tests.journeys.leases.slow_rules import PLACES, UNKNOWN, able, latest_starts, wishes
from tests.journeys.leases.visits import Machines
from tests.launcher.launcher_fleet import SESSION_SECONDS, LauncherFleet, LauncherProcess

SLOTS: Final = (1, 1, 2)  # of the machines of the rack
LABELS: Final[tuple[dict[str, Json], ...]] = ({"name": "any"}, {"name": "iron", "min-ready": 1}, {"name": "cloud"})
HANG_SECONDS: Final = 8.0
IDLE_SECONDS: Final = 20  # that a node of a cloud, which its request returned unused, stays ready
#: Of each use of a place beside the use itself, on average: a launch, a deletion, its share of faults, on a loaded host.
COST_SECONDS: Final = 30.0
#: Of one request besides: three refusals in a row at a cloud with a false quota (70 s), and a call that hangs.
FAULT_SECONDS: Final = 90.0
CALM_SECONDS: Final = 600.0


def rack(farm: Farm) -> dict[str, Json]:
    """The static provider."""
    nodes: list[Json] = []
    for number, slots in enumerate(SLOTS):
        host, port = farm.address(number)
        login = {"name": host, "connection-port": port, "username": getpass.getuser(), "timeout": 2}
        nodes.append({**login, "labels": ["any", "iron"], "max-parallel-jobs": slots})
    return {"name": "rack", "driver": "static", "pools": [{"name": "main", "nodes": nodes}]}


def clouds(fleet: LauncherFleet) -> list[dict[str, Json]]:
    """One with a limit in the file, and one with a false quota."""
    slow = {"boot-seconds": 0.3}
    north = fleet.cloud("north", "any", "cloud", options=slow, max_servers=PLACES["north"], max_ready_age=IDLE_SECONDS)
    false = {"quota": {"instances": PLACES["south"]}, "reported-quota": {"instances": 50}}
    return [north, fleet.cloud("south", "any", "cloud", options=false, max_ready_age=IDLE_SECONDS)]


# -- faults --


def provider_fails(fleet: LauncherFleet, name: str, seed: int, *kinds: dict[str, Any]) -> Fault:
    """Some calls of a cloud have one of these faults."""
    chance = random.Random(seed)

    def fails(_: CutDaemon) -> Mend:
        cloud, kind = chance.choice(("north", "south")), chance.choice(kinds)
        calls = chance.sample(("create", "look", "delete", "find", "list", "quota"), k=3)
        fleet.faults(cloud, *({"call": call, **kind} for call in (*calls, "create")))

        def mend() -> None:
            fleet.faults(cloud)
            for launcher in fleet.launchers:  # a call may have killed it
                if not launcher.running():
                    launcher.begin()

        return mend

    fails.__name__ = f"provider_{name}"
    return fails


def provider_faults(fleet: LauncherFleet, seed: int) -> list[Fault]:
    """Those of clouds."""
    parties = ("machine", "provider", "host", "quota")
    refusals = [{"do": "refuse", "party": party, "when": when} for party in parties for when in ("before", "after")]
    return [
        provider_fails(
            fleet,
            "hangs",
            seed,
            *({"do": "hang", "seconds": HANG_SECONDS, "when": when} for when in ("before", "after")),
        ),
        provider_fails(fleet, "refuses", seed, *refusals),
        provider_fails(fleet, "raises", seed, {"do": "raise"}, {"do": "nonsense"}, {"do": "error"}),
        provider_fails(fleet, "kills", seed, {"do": "kill"}, {"do": "kill", "when": "after"}),
    ]


def machine_faults(farm: Farm, seed: int) -> list[Fault]:
    """Those of the rack."""
    chance = random.Random(seed)

    def power_fails(_: CutDaemon) -> Mend:
        machine = chance.randrange(len(SLOTS))
        farm.kill(machine)
        return partial(farm.start, machine)

    def machine_freezes(_: CutDaemon) -> Mend:
        machine = chance.randrange(len(SLOTS))
        farm.freeze(machine)
        return partial(farm.thaw, machine)

    def connections_end(_: CutDaemon) -> Mend:
        farm.cut(chance.randrange(len(SLOTS)))
        return lambda: None

    return [power_fails, machine_freezes, connections_end]


def records(session: Session) -> Sequence[str]:
    """The records that another writer may write."""
    requests = [paths.request(name) for name in session.children(paths.REQUESTS) or ()]
    return [*requests, *(paths.pool_node(name) for name in session.children(paths.POOL_NODES) or ())]


# -- the journey --


@contextmanager
def site(chroot: str, folder: Path, skews: Sequence[float]) -> Iterator[tuple[LauncherFleet, Farm, Server]]:
    """Launchers of three providers; none runs yet."""
    with ExitStack() as stack:
        farm = stack.enter_context(Farm(len(SLOTS), folder / "farm"))
        server = stack.enter_context(Server(fsync=False))
        fleet = stack.enter_context(LauncherFleet(server, chroot, folder))
        for _ in skews:
            launcher = fleet.launcher(rack(farm), *clouds(fleet), labels=LABELS, leak_seconds=3.0, delete_seconds=20.0)
            launcher.configure(ssh=farm.settings())
        for launcher, seconds in zip(fleet.launchers, skews, strict=True):
            launcher.environment |= skewed(seconds) if seconds else {}
        yield fleet, farm, server


def revive(launchers: Sequence[LauncherProcess]) -> None:
    for launcher in launchers:
        launcher.begin_again()


@pytest.mark.parametrize(
    ("count", "seconds", "every_seconds", "vain", "skews"),
    [
        pytest.param(12, 5.0, 0.8, 0, (0.0, 0.0, 0.0), id="short"),
        pytest.param(200, 150.0, 1.5, 1, (0.0, 3600.0, -3600.0), id="long", marks=pytest.mark.long),
    ],
)
def test_in_a_storm_each_request_ends_and_no_node_serves_two_or_is_lost(
    chroot: str, tmp_path: Path, count: int, seconds: float, every_seconds: float, vain: int, skews: Sequence[float]
) -> None:
    seed, seconds = seeded(), duration(seconds)
    print(f"seed {seed}")
    settings = partial(ZooKeeperSettings, session_timeout_seconds=60.0)
    with site(chroot, tmp_path, skews) as (fleet, farm, server):
        machines = Machines(farm, tmp_path / "farm" / "id_ed25519", tmp_path / "clouds", tmp_path / "known")
        crowd = Crowd(wishes(count, seconds * 0.8, seed, vain), settings(hosts=server.hosts + chroot), machines)
        for launcher in fleet.launchers:
            launcher.begin()
        more = [*provider_faults(fleet, seed), *machine_faults(farm, seed)]
        more.append(overtake(settings(hosts=server.hosts + chroot), records, seed))
        storm = Storm(fleet.launchers, server, seed, lasts=(0.2, 1.0, SESSION_SECONDS + 1.5), more=more)
        with crowd:
            crowd.begin()
            storm.blow(seconds, every_seconds, lambda: revive(fleet.launchers))
            calm(fleet, crowd)
            took = check(crowd, machines)
        print(f"{dict(storm.faults)}; {took}")
        assert all(launcher.running() for launcher in fleet.launchers), "each launcher serves on"


def calm(fleet: LauncherFleet, crowd: Crowd) -> None:
    """Wait until each person has ended, and the sites are as before."""

    def left() -> list[str]:
        revive(fleet.launchers)
        if not crowd.done:
            return [f"{each.wish} {each.id} {each.stage}" for each in crowd.people if each.stage != "done"]
        known = {id: node for id, node in fleet.nodes().items() if not refusal(node)}
        idle = {id: node for id, node in known.items() if node.state is PoolNodeState.READY and not node.allocated_to}
        slots = {(node.interface_ip, node.slot) for node in idle.values() if node.provider == "rack"}
        found = [f"{id}: {node.state}" for id, node in known.items() if id not in idle or node.provider != "rack"]
        found += [] if len(slots) == len(idle) == sum(SLOTS) else [f"slots {slots} of {[*idle]}"]
        found += [f"{name}: {each}" for name in ("north", "south") for each in fleet.machines(name)]
        return found + [f"request {id}" for id in fleet.session.children(paths.REQUESTS) or ()]

    deadline, found = time.monotonic() + CALM_SECONDS, ["not looked yet"]
    while found:
        assert time.monotonic() < deadline, "\n".join(
            ["left:", *found, "faults:", *crowd.faults, "nodes:", *nodes(fleet)]
        )
        time.sleep(0.2)
        try:
            found = left()
        except Unavailable as gone:
            found = [str(gone)]


def refusal(node: PoolNode) -> bool:
    """Whether the node is the mere note of a refused launch, which stays for a back-off."""
    facts = launch_facts(node)
    return node.state is PoolNodeState.ABORTED and node.external_id is None and facts is not None and not facts.key


def nodes(fleet: LauncherFleet) -> list[str]:
    """The nodes in a line each."""
    return [
        f"{id} {node.state} {node.provider} for {node.allocated_to}, machine {node.external_id}: {node.reason} {node.driver_data}"
        for id, node in fleet.nodes().items()
    ]


def check(crowd: Crowd, machines: Machines) -> str:
    """All promises, from the people's own notes, the machines' marks and the restated rules; gives figures in words."""
    assert not crowd.faults
    marks = machines.marks()
    assert not visits.faults(marks)
    begun = {each.visit for lines in marks.values() for each in lines if each.kind == "begins"}
    served = [each for each in crowd.people if each.failed is None]
    for person in crowd.people:
        if person.failed is not None:
            assert person.failed, f"{person.wish} failed without a reason"
        if not able(person.wish.labels, PLACES):
            assert person.failed is not None, f"{person.wish} is served"
        if UNKNOWN in person.wish.labels:
            assert UNKNOWN in (person.failed or "")
    latest = latest_starts({each.wish: each.life for each in crowd.people}, PLACES, COST_SECONDS, FAULT_SECONDS)
    late = [(each.wish, each.life, latest[each.wish]) for each in served if each.life.ended > latest[each.wish]]
    assert not late
    waits = sorted(each.life.ended - each.life.asked for each in served)
    failed = Counter(each.failed for each in crowd.people if each.failed is not None)
    assert sum(visit.partition("/")[0] in {f"r{each.wish.number}" for each in served} for visit in begun) >= len(served)
    return f"{len(served)} fulfilled after {waits[len(waits) // 2]:.1f} s (median), {waits[-1]:.1f} s at most; failed: {failed}"
