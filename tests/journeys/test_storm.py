"""Storms: many noderoles, and every second or so an annealer is killed, frozen or cut off, its disk is full or its key gone,
its resolver, its network or its threads fail, another writer comes between it and a lost answer, or ZooKeeper's servers are
killed, frozen or cut off; the annealers' clocks are hours apart, records turn unreadable, people
change their minds (troubles.py), and machines lose their runs, their state and their place (hardships.py).

What the machines noted must be as if nothing had happened. The seed of a storm is in its output; the same seed gives
the same faults in the same order.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from itertools import cycle, islice
from pathlib import Path

import pytest

from nodepool_ocb.testing.disks import SmallDisk, mountable
from nodepool_ocb.testing.storm import Storm, duration, seeded
from nodepool_ocb.testing.troubles import Trouble, Unreadable
from nodepool_ocb.testing.zookeeper.ensemble import Ensemble
from tests.journeys.fleet import SESSION_SECONDS, Fleet
from tests.journeys.hardships import HARDSHIPS, Hardships, destructive, disk_full, disk_read_only, wild
from tests.journeys.history import Event as Noted
from tests.journeys.history import in_order
from tests.journeys.person import Person
from tests.journeys.staging import PHASES, LiveRollout, document, stack, succeeded_again
from tests.journeys.storms import CALM_SECONDS, LASTS, Servers, alone, annealers, faults, hurry, small_disks, until_calm
from tests.journeys.troubles import (
    FLAKY,
    FLOOD,
    Lives,
    Refreshing,
    chain,
    cluster,
    key_bad,
    records,
)

LEVELS = 60  # of the grid, at most: a longer storm has longer runs
TROUBLED = 2  # machines whose nodes are deleted and created again
HARD = 2  # machines that lose their runs, their state and their place
CRAMPED = 1  # machines whose state disk is full or read-only for a while
EXCESS = 0.02  # more starts than noderoles: runs are attached to, not run again


def grid(fleet: Fleet, nodes: Sequence[str], levels: int, seconds: Sequence[float]) -> int:
    """Each noderole has two parents one level up: on its own machine and on the next. Gives how many there are.

    Beside them each machine has one that fails once, and is tried again.
    """
    for level, lasts in enumerate(islice(cycle(seconds), levels)):
        flags = ("destructive",) if level % 5 == 2 else ()
        fleet.add_role(f"step-{level}", fleet.work(lasts, FLOOD if level % 5 == 1 else "", flags=flags))
    fleet.add_role("flaky", fleet.work(0.2, FLAKY, retries=1, backoff_seconds=1.0))
    for node in nodes:
        fleet.bind("flaky", node)
    for level in range(levels):
        for index, node in enumerate(nodes):
            beside = nodes[(index + 1) % len(nodes)]
            above = {f"step-{level - 1}@{node}", f"step-{level - 1}@{beside}"} if level else set()
            fleet.bind(f"step-{level}", node, above)
    return (levels + 1) * len(nodes)


def cramped(stack: ExitStack, fleet: Fleet, nodes: Sequence[str], seed: int) -> list[Hardships]:
    """These machines have little room for their runners' files, and at times none; nothing where disks cannot be mounted."""
    if not mountable():
        return []
    fleet.mute |= set(nodes)
    numbers = {fleet.farm.number(fqdn): fleet.farm.state_dir(fqdn) for fqdn in nodes}
    disks = {number: stack.enter_context(SmallDisk(state, 32 << 20)) for number, state in numbers.items()}
    return [Hardships(fleet, seed, nodes, [[disk_full(disks), disk_read_only(disks)]])]


def troubles_on_others(stack: ExitStack, fleet: Fleet, seed: int, clustered: tuple[int, int]) -> list[Trouble]:
    """Those of a storm, with what there is to be troubled: the last machines, and a cluster of so many members and children."""
    others = iter(fleet.nodes[-TROUBLED - HARD - CRAMPED :])
    troubled, hard, small = ([*islice(others, count)] for count in (TROUBLED, HARD, CRAMPED))
    chain(fleet, troubled, 1.0)
    wild(fleet, [*hard, *small])
    destructive(fleet, hard)
    members = cluster(fleet, *clustered)
    return [
        Unreadable(fleet.settings(5.0), seed, records),
        Lives(fleet, seed, troubled),
        Refreshing(fleet, seed, members),
        *(Hardships(fleet, seed + number, [fqdn], HARDSHIPS) for number, fqdn in enumerate(hard)),
        *cramped(stack, fleet, small, seed),
    ]


@pytest.mark.parametrize(
    ("servers", "machines", "levels", "seconds", "every_seconds", "clustered"),
    [
        pytest.param(alone, 6, 4, 8.0, 1.0, (3, 6), id="short"),
        pytest.param(alone, 20, 10, 300.0, 4.0, (100, 200), id="long", marks=pytest.mark.long),
        pytest.param(Ensemble, 20, 10, 300.0, 4.0, (100, 200), id="long-ensemble", marks=pytest.mark.long),
    ],
)
def test_after_a_storm_every_promise_holds(
    chroot: str, tmp_path: Path, servers: Servers, machines: int, levels: int, seconds: float, every_seconds: float,
    clustered: tuple[int, int],
) -> None:  # fmt: skip
    seed, seconds = seeded(), duration(seconds)
    print(f"seed {seed}")
    levels = max(levels, min(round(seconds / 4), LEVELS))
    longer = max(1.0, seconds / levels / 4)
    lasting = [each * longer for each in (SESSION_SECONDS + 1, 0.5, SESSION_SECONDS + 2, 1.0, 2.0)]
    with ExitStack() as stack:
        disks = small_disks(stack, tmp_path)
        server = stack.enter_context(servers())
        fleet = stack.enter_context(Fleet(server, chroot, tmp_path, machines=machines + TROUBLED + HARD + CRAMPED))
        steady = fleet.nodes[:machines]
        count = grid(fleet, steady, levels, lasting)
        troubles = troubles_on_others(stack, fleet, seed, clustered)
        annealers(fleet)
        storm = Storm(
            fleet.annealers, server, seed, lasts=LASTS, more=faults(fleet, disks, seed), alone=[key_bad(fleet)]
        )
        with ExitStack() as going_on:
            for trouble in troubles:
                going_on.enter_context(trouble)
            storm.blow(seconds, every_seconds, fleet.revive)
        with Person(fleet.hosts) as person:

            def done() -> bool:
                hurry(fleet, person)
                return not fleet.unfinished() and not fleet.at_work()

            until_calm(fleet, done, CALM_SECONDS)
        assert all(annealer.running() for annealer in fleet.annealers), "nobody gave up"
        starts = {noderole: each for noderole, each in fleet.starts().items() if noderole.partition("@")[2] in steady}
        print(
            f"{dict(storm.faults)}, {', '.join(map(str, troubles))}, {sum(starts.values())} starts of {count} noderoles"
        )
        assert not fleet.faults()
        assert sum(starts.values()) <= (count + machines) * (1 + EXCESS), "one of each machine fails once"
        assert sum(work.begins for work in fleet.evidence().work) >= count, "the scripts witness it"


@pytest.mark.parametrize(
    ("servers", "machines", "groups", "seconds", "every_seconds"),
    [
        pytest.param(Ensemble, 6, 3, 8.0, 1.0, id="short", marks=pytest.mark.long),
        pytest.param(alone, 20, 10, 200.0, 4.0, id="long", marks=pytest.mark.long),
        pytest.param(Ensemble, 20, 10, 200.0, 4.0, id="long-ensemble", marks=pytest.mark.long),
    ],
)
def test_after_a_storm_a_rollout_has_done_everything_once(
    chroot: str, tmp_path: Path, servers: Servers, machines: int, groups: int, seconds: float, every_seconds: float
) -> None:
    seed, seconds = seeded(), duration(seconds)
    print(f"seed {seed}")
    phases = [{**phase, "timeout_seconds": 3600.0} for phase in PHASES]
    with ExitStack() as leaving:
        disks = small_disks(leaving, tmp_path)
        server = leaving.enter_context(servers())
        fleet = leaving.enter_context(Fleet(server, chroot, tmp_path, machines=machines))
        lasts = seconds / groups / 2
        fleet.add_role("os", fleet.work(lasts, flags=("destructive",)))
        fleet.add_role("app", fleet.work(lasts))
        fleet.add_role("hello", fleet.work(0.0))
        for node in fleet.nodes:
            fleet.bind("hello", node)
        stack(fleet)
        annealers(fleet)
        until_calm(
            fleet, lambda: sum(fleet.noted(Noted.ENDED).values()) >= machines, CALM_SECONDS
        )  # each knows an epoch
        named = [
            {
                "name": f"g{number}",
                "critical": True,
                "depends_on": [f"g{number - 1}"] if number else [],
                "selectors": [{"node_names": [f"m{machine}" for machine in range(number, machines, groups)]}],
                "success_criteria": {"percent_successful_nodes": 100},
            }
            for number in range(groups)
        ]
        live = LiveRollout(fleet, document(named, phases))
        storm = Storm(
            fleet.annealers, server, seed, lasts=LASTS, more=faults(fleet, disks, seed), alone=[key_bad(fleet)]
        )
        storm.blow(seconds, every_seconds, fleet.revive)
        until_calm(fleet, lambda: live.over, CALM_SECONDS + seconds)
        assert all(annealer.running() for annealer in fleet.annealers), "nobody gave up"
        print(f"{dict(storm.faults)}, {sum(fleet.starts().values())} starts of {3 * machines} noderoles")
        assert (live.now.head.state, set(live.states().values())) == ("success", {"success"})
        assert not fleet.faults()
        assert not succeeded_again(fleet), "nothing was committed twice"
        assert over_in_order(live, groups), "no group began before the one that it depends on was done"


def over_in_order(live: LiveRollout, groups: int) -> bool:
    """By what the machines noted."""
    members = live.now.members
    entries = [entry for entry in live.fleet.entries() if not entry.noderole.startswith("hello@")]
    return in_order(entries, [members[f"g{number}"] for number in range(groups)])
