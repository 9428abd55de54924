"""Rollouts, driven by real annealers: the seed's examples, crashes at every step, time that runs out, people."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from nodepool_ocb.engine.noderole import Event
from nodepool_ocb.engine.world import World
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Change, Delete, Node, Set, State
from nodepool_ocb.rollout import commands
from nodepool_ocb.rollout.report import report
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.driven import pointers
from nodepool_ocb.store.world.load import load_world
from nodepool_ocb.testing.example import EXAMPLE, SITE
from nodepool_ocb.testing.processes import CutDaemon
from nodepool_ocb.testing.zookeeper.server import Server
from tests.annealer.runs.test_ending import alive, marked
from tests.journeys import crashing_annealer as dying
from tests.journeys.fleet import Fleet
from tests.journeys.history import Event as Noted
from tests.journeys.staging import LiveRollout, acting, deployment, document, generations, loaded, nodes, roles, stack

RUNS = {
    "success": (
        [],
        """\
Start
|
| prepare ntp-node           <SUCCESS>
| deploy ntp-node            <SUCCESS>
V
| prepare control-nodes      <SUCCESS>
| deploy control-nodes       <SUCCESS>
V
| prepare monitoring-nodes   <SUCCESS>
| deploy monitoring-nodes    <SUCCESS>
V
| prepare compute-nodes-2    <SUCCESS>
| deploy compute-nodes-2     <SUCCESS>
V
| prepare compute-nodes-1    <SUCCESS>
| deploy compute-nodes-1     <SUCCESS>
|
Finish (success)""",
    ),
    "prepare of ntp-node fails": (
        ["os@ntp01"],
        """\
Start
|
| prepare ntp-node           <FAILED>
| deploy ntp-node            <FAILED, due to prepare failure>
V
| prepare control-nodes      <FAILED, due to dependency>
| deploy control-nodes       <FAILED, due to dependency>
V
| prepare compute-nodes-2    <FAILED, due to dependency>
| deploy compute-nodes-2     <FAILED, due to dependency>
V
| prepare compute-nodes-1    <FAILED, due to dependency>
| deploy compute-nodes-1     <FAILED, due to dependency>
V
| prepare monitoring-nodes   <SUCCESS>
| deploy monitoring-nodes    <SUCCESS>
|
Finish (failed due to critical group failed)""",
    ),
    "deploy of compute-nodes-2 fails": (
        ["app@b1", "app@b2"],
        """\
Start
|
| prepare ntp-node           <SUCCESS>
| deploy ntp-node            <SUCCESS>
V
| prepare control-nodes      <SUCCESS>
| deploy control-nodes       <SUCCESS>
V
| prepare monitoring-nodes   <SUCCESS>
| deploy monitoring-nodes    <SUCCESS>
V
| prepare compute-nodes-2    <SUCCESS>
| deploy compute-nodes-2     <FAILED>
V
| prepare compute-nodes-1    <SUCCESS>
| deploy compute-nodes-1     <SUCCESS>
|
Finish (success with some nodes/groups failed)""",
    ),
}


@pytest.fixture
def bare(zookeeper: Server, chroot: str, tmp_path: Path) -> Iterator[Fleet]:
    """No machine yet."""
    with Fleet(zookeeper, chroot, tmp_path, machines=0) as fleet:
        yield fleet


@pytest.fixture
def site(bare: Fleet) -> Fleet:
    """The seed's example: ten nodes of five groups, whose jigs act on nothing."""
    nodes(bare, SITE)
    roles(bare, os=acting(0.05), app=acting(0.05))
    return bare


@pytest.mark.parametrize("run", RUNS)
def test_the_examples_of_the_seed(site: Fleet, run: str) -> None:
    failing, drawing = RUNS[run]
    stack(site, failing)
    for _ in range(2):
        site.annealer().begin()
    live = LiveRollout(site, loaded(EXAMPLE))
    text = report(live.until_over())
    assert text[: text.index("\n\n")] == drawing
    for name, progress in live.now.nodes.items():
        assert f"\n  {name}" in text.split(f"{progress.state} (")[1]
    begun = {name for name, generation in generations(site).items() if generation}
    sent = {name for name, progress in live.now.nodes.items() if progress.group is not None}
    assert {name.partition("@")[2] for name in begun} == sent
    assert set(generations(site).values()) <= {0, 1}, "each noderole was committed once, or never"
    site.until(lambda: live.holder is None, "the lock is given back")


# -- whoever drives dies --


GROUPS = [
    {"name": "a", "critical": True, "selectors": [{"node_names": ["m0"]}]},
    {"name": "b", "depends_on": ["a"], "success_criteria": {"percent_successful_nodes": 50}},
]


@pytest.fixture
def three(zookeeper: Server, chroot: str, tmp_path: Path) -> Iterator[Fleet]:
    """Machines with sshd, which know what was started on them; ``app`` fails on the last one."""
    with Fleet(zookeeper, chroot, tmp_path, machines=3) as fleet:
        roles(fleet, os=fleet.work(0.02), app=fleet.work(0.02, "if read_attribute fail; then exit 1; fi"))
        stack(fleet, ["app@m2"])
        yield fleet


#: What the checker must say after such repetitions: noderoles were proposed again, and those above ran anew.
AFTERWARDS = {"unfinished", "before_parents"}


class Deaths:
    """The same rollout again and again, with a driver that dies, or is frozen, at the next of its moments each time."""

    def __init__(self, fleet: Fleet, how: Mapping[str, str]) -> None:
        self._fleet, self._how = fleet, how
        self.deaths = 0

    def at(self, moment: int) -> bool:
        """Whether a driver has so many moments. What must hold, is asserted."""
        fleet = self._fleet
        before, started = generations(fleet), fleet.starts()
        doomed = fleet.annealer(launcher=(dying.__file__,)).begin(MOMENT=str(moment), **self._how)
        fleet.until(lambda: fleet.living() == 1, "it is there")
        live = LiveRollout(fleet, document(GROUPS))
        fleet.until(lambda: live.over or not doomed.running() or doomed.frozen, "it ends, or its driver does")
        met = not doomed.running() or doomed.frozen
        heir = fleet.annealer().begin() if met else doomed
        over = live.until_over()
        assert (str(over.head.state), live.states()) == (
            "success",
            {"m0": "success", "m1": "success", "m2": "failure"},
        ), moment
        assert {name: count - before[name] for name, count in generations(fleet).items()} == dict.fromkeys(before, 1)
        assert fleet.starts() - started == Counter(dict.fromkeys(before, 1)), "nothing is prepared or deployed twice"
        if doomed.running() and met:
            self._thaw(doomed, live)
        heir.close()
        doomed.discard()
        fleet.until(lambda: fleet.living() == 0, "everybody is gone")
        for noderole in before:
            fleet.happens(noderole, Event.PROPOSE)
        self.deaths += met
        return met

    def _thaw(self, frozen: CutDaemon, live: LiveRollout) -> None:
        """It changes nothing any more."""
        fleet = self._fleet
        left = live.now, generations(fleet)
        frozen.thaw()
        fleet.until(lambda: fleet.living() == 2, "it is back")
        assert (live.now, generations(fleet)) == left


@pytest.mark.parametrize("first", [1, *(pytest.param(first, marks=pytest.mark.long) for first in (2, 3, 4))])
def test_after_kill_9_at_any_step_another_finishes_and_nothing_is_done_twice(three: Fleet, first: int) -> None:
    deaths = Deaths(three, {})
    for moment in itertools.count(first, 4):
        if not deaths.at(moment):
            break
    assert deaths.deaths >= 2
    assert three.broken() <= AFTERWARDS


@pytest.mark.long
@pytest.mark.parametrize("first", [3, *(pytest.param(first, marks=pytest.mark.long) for first in (1, 2, 4))])
def test_a_driver_that_was_frozen_beyond_its_session_changes_nothing(three: Fleet, first: int) -> None:
    """At any step; the short form takes one in four."""
    deaths = Deaths(three, {"FREEZE": "1"})
    for moment in itertools.count(first, 4):
        if not deaths.at(moment):
            break
    assert deaths.deaths >= 2
    assert three.broken() <= AFTERWARDS


def test_a_driver_whose_lock_was_taken_away_by_hand_leaves(bare: Fleet) -> None:
    """Its session lives, and it knows nothing of it; what it does not know keeps it from writing."""
    nodes(bare, {f"n{number}.example.com": Node() for number in range(2)})
    roles(bare, os=acting(1.0), app=acting(6.0))
    stack(bare)
    first = bare.annealer(session_seconds=30.0).begin()
    live = LiveRollout(bare, document([{"name": "all", "critical": True}]))
    bare.until(lambda: live.driver is first, "it is driven")
    bare.until(lambda: "sent" in live.states().values() or "sending" in live.states().values(), "it goes on")
    other = bare.annealer(session_seconds=30.0).begin()
    bare.until(lambda: bare.living() == 2, "another is there")
    first.freeze()
    lock = paths.rollout_lock(live.deployment, live.id)
    for name in bare.session.children(lock) or ():
        bare.session.commit([Delete(f"{lock}/{name}", 0)])
    bare.write(lambda world: taken(world, live.deployment))
    bare.until(lambda: live.driver is other, "the other drives")
    first.thaw()
    assert live.until_over().head.state == "success"
    assert set(generations(bare).values()) == {1}
    bare.until(lambda: first.metric("nodepool_ocb_rollouts_driven") == 0.0, "the first one has noticed")


def taken(world: World, name: str, driver: str | None = None) -> list[Change]:
    """As if nobody drove it, or another did."""
    stored = world.rollouts[name]
    return [pointers.taken_over(paths.rollouts(name), stored.record, stored.version, driver, time.time())]


def test_a_sigterm_hands_over_at_once(three: Fleet) -> None:
    roles_of = document([{"name": name, "selectors": [{"node_names": [name]}]} for name in ("m0", "m1", "m2")])
    for _ in range(2):
        three.annealer(session_seconds=30.0).begin()
    three.until(lambda: three.living() == 2, "both are there")
    live = LiveRollout(three, roles_of)
    three.until(lambda: "success" in live.states().values(), "it goes on")
    first = live.driver
    assert first is not None
    first.terminate()
    stopped = time.monotonic()
    three.until(lambda: live.driver not in (first, None), "the other drives")
    assert time.monotonic() - stopped < 3.0, "long before its session would be over"
    assert first.wait() == 0
    assert live.until_over().head.state == "success"
    assert set(three.starts().values()) == {1}


def test_a_handover_that_is_refused_gives_the_lock_back_all_the_same(bare: Fleet) -> None:
    """Somebody asks for something at that moment; and what the daemon holds keeps it for a minute."""
    roles(bare, os=acting(60.0), app=acting())
    nodes(bare, {"n0.example.com": Node()})
    stack(bare)
    first = bare.annealer(session_seconds=30.0, drain_seconds=60.0).begin()
    live = LiveRollout(bare, document([{"name": "all", "critical": True}]))
    bare.until(lambda: live.states() == {"n0": "sent"} and bare.claim_stands("n0.example.com"), "it is at work")
    other = bare.annealer(session_seconds=30.0).begin()
    bare.until(lambda: bare.living() == 2, "another is there")
    first.freeze()
    bare.write(lambda world: taken(world, live.deployment, live.driven_by))
    first.terminate()
    first.thaw()
    bare.until(lambda: live.driver is other, "the other drives", seconds=10.0)
    assert first.running(), "it drains"


def test_a_lost_session_costs_nothing(three: Fleet) -> None:
    only = three.annealer().begin()
    live = LiveRollout(three, document(GROUPS))
    three.until(lambda: live.driver is only, "it is driven")
    only.proxy.cut()
    three.until(lambda: three.living() == 0, "its session is over")
    only.proxy.heal()
    assert live.until_over().head.state == "success"
    assert set(three.starts().values()) == {1}


# -- time --


LATE = [
    {"name": "prepare", "roles": ["os"], "timeout_seconds": 60.0},
    {"name": "deploy", "timeout_seconds": 3.0},
]


def test_a_phase_that_runs_out_of_time_ends_what_runs_and_nothing_comes_late(fleet: Fleet) -> None:
    seconds, process = marked(fleet)
    roles(fleet, os=fleet.work(0.0), app=fleet.work(0.0, f"sleep {seconds} & wait"))
    stack(fleet)
    fleet.annealer().begin()
    live = LiveRollout(fleet, document([{"name": "all", "critical": True}], LATE))
    fleet.until(lambda: alive(process), "it runs")
    ended = live.until_over()
    app = f"app@{fleet.nodes[0]}"
    assert (ended.head.state, ended.groups["all"].reason) == ("failed", "deploy")
    assert "1 unknown" in str(ended.groups["all"].detail)
    fleet.until_state(app, State.ERROR)
    assert not alive(process)
    assert live.states()["m0"] in ("unknown", "failure")
    assert fleet.record(app).reason == "deploy of group all ran out of time"
    assert fleet.noted(Noted.KILLED)[app] == 1
    assert fleet.broken() <= {"unfinished"}
    fleet.write(lambda world: [Set(paths.role("app"), fleet.work(0.0), world.roles["app"].version)])
    live.ask(commands.retry, time.time(), "ann")
    assert live.until_over().head.state == "success"
    assert fleet.starts()[app] == 2
    assert not fleet.faults()


def test_a_result_that_comes_after_the_time_changes_nothing(three: Fleet) -> None:
    """The annealer that works on the node sleeps when the run ends well, and wakes up when the time is over."""
    fleet = three
    roles(fleet, busy=acting(600.0))
    busy = fleet.bind("busy", fleet.nodes[2])
    fleet.write(lambda world: [Set(paths.role("app"), fleet.work(1.0), world.roles["app"].version)])
    driver = fleet.annealer(slots=1).begin()
    fleet.until_state(busy, State.TRANSITION)
    selected = [{"node_names": ["m0"]}]
    live = LiveRollout(fleet, document([{"name": "all", "selectors": selected}], LATE))
    fleet.until(lambda: live.driver is driver, "it drives, and has no slot to work")
    worker = fleet.annealer(session_seconds=30.0).begin()
    app = f"app@{fleet.nodes[0]}"
    fleet.until_started(app)
    worker.freeze()
    fleet.until(lambda: fleet.noted(Noted.ENDED)[app] == 1, "the run ends well")
    fleet.until(lambda: fleet.record(app).cancel_reason is not None, "the time is over")
    worker.thaw()
    fleet.until_state(app, State.ERROR)
    assert live.until_over().groups["all"].reason == "deploy"
    assert fleet.record(app).reason == "deploy of group all ran out of time"
    assert live.states()["m0"] in ("unknown", "failure")
    assert fleet.starts()[app] == 1
    assert fleet.broken() <= {"unfinished"}


# -- people --


def test_cancelling_ends_what_runs_and_takes_back_the_rest(three: Fleet) -> None:
    fleet = three
    fleet.write(lambda world: [Set(paths.role("app"), fleet.work(600.0), world.roles["app"].version)])
    fleet.annealer(slots=1).begin()
    live = LiveRollout(fleet, document([{"name": "all"}, {"name": "later", "depends_on": ["all"]}]))
    fleet.until(lambda: any(name.startswith("app") for name in fleet.starts()), "one runs, two wait")
    live.ask(commands.cancel, time.time(), "ann", "lunch")
    ended = live.until_over()
    assert (ended.head.state, ended.head.reason) == ("cancelled", "cancelled by ann: lunch")
    states = Counter(fleet.state(f"app@{fqdn}") for fqdn in fleet.nodes)
    assert states == {State.ERROR: 1, State.PROPOSED: 2}
    assert Counter(live.states().values()) == {"failure": 1, "prepared": 2}
    [failed] = [name for name, progress in ended.nodes.items() if progress.state == "failure"]
    assert fleet.record(f"app@{failed}").reason == "cancelled by ann: lunch"
    assert fleet.noted(Noted.KILLED)[f"app@{failed}"] == 1
    assert fleet.broken() <= {"unfinished"}


def test_resuming_and_retrying_go_on_where_it_stopped(three: Fleet) -> None:
    fleet = three
    fleet.annealer().begin()
    fleet.annealer().begin()
    live = LiveRollout(
        fleet, document([{"name": "all", "critical": True, "success_criteria": {"maximum_failed_nodes": 0}}])
    )
    assert live.until_over().head.state == "failed"
    assert fleet.starts()[f"app@{fleet.nodes[2]}"] == 1
    path = paths.user("app", fleet.nodes[2])
    fleet.session.commit([Set(path, {}, 0)])
    live.ask(commands.retry, time.time(), "ann")
    assert live.until_over().head.state == "success"
    assert fleet.starts() == Counter(
        {f"{role}@{fqdn}": 1 for role in ("os", "app") for fqdn in fleet.nodes} | {f"app@{fleet.nodes[2]}": 2}
    )


def test_a_canary_waits_for_a_person_and_writes_nothing_meanwhile(three: Fleet) -> None:
    fleet = three
    only = fleet.annealer(sweep_seconds=0.3).begin()
    live = LiveRollout(fleet, document([{"name": "all", "batches": [{"nodes": 1, "pause": True}]}]))
    fleet.until(lambda: live.now.groups["all"].state == "paused", "the canary is done")
    assert live.states() == {"m0": "success", "m1": "not started", "m2": "not started"}
    before, swept = newest(fleet), only.metric("nodepool_ocb_sweeps_total")
    fleet.until(lambda: only.metric("nodepool_ocb_sweeps_total") >= swept + 3, "it looks at everything, thrice")
    assert newest(fleet) == before, "a rollout that waits writes nothing"
    live.ask(commands.promote, "all", 1, "ann")
    assert live.until_over().head.state == "success"


def newest(fleet: Fleet) -> int:
    """The newest transaction on anything of the fleet's rollouts or noderoles."""
    session = fleet.session
    world = load_world(session)
    deployments = session.children(paths.ROLLOUTS) or []
    found = [
        znode.mzxid for name in deployments for znode in session.get_many(below(session, paths.rollouts(name))) if znode
    ]
    return max([*found, *(vertex.mzxid for vertex in world.vertices())])


def below(session: Session, path: str) -> list[str]:
    return [path, *(each for name in session.children(path) or () for each in below(session, f"{path}/{name}"))]


def test_a_rollout_that_cannot_be_read_stops_no_other_and_goes_on_when_it_can(bare: Fleet) -> None:
    roles(bare, os=acting(), app=acting())
    live = {}
    for name in ("broken", "whole"):
        deployment(bare, name)
        nodes(bare, {f"{name}.example.com": Node()}, of=name)
        stack(bare, of=name)
        live[name] = LiveRollout(bare, document([{"name": "all", "critical": True}]), name)
    path = paths.rollout("broken", live["broken"].id, "groups/all")
    good = live["broken"].now.groups["all"]
    bare.session.commit([Set(path, {"schema": 7}, 0)])
    annealer = bare.annealer(sweep_seconds=0.5).begin()
    assert live["whole"].until_over().head.state == "success"
    bare.until(lambda: f"{path}: not a GroupRecord" in annealer.said, "the log says what is wrong")
    bare.session.commit([Set(path, good, 1)])
    assert live["broken"].until_over().head.state == "success"


def test_a_noderole_that_cannot_be_read_is_not_taken_for_done(bare: Fleet) -> None:
    """Its node waits, while the others of its group go on; it is done when the record can be read."""
    roles(bare, os=acting(), app=acting())
    nodes(bare, {f"n{number}.example.com": Node() for number in range(2)})
    stack(bare)
    path = paths.noderole("app", "n0.example.com")
    good = bare.record("app@n0.example.com")
    bare.session.commit([Set(path, {"schema": 7}, 0)])
    bare.annealer().begin()
    live = LiveRollout(bare, document([{"name": "all", "critical": True}]))
    bare.until(lambda: live.states() == {"n0": "sending", "n1": "prepared"}, "one waits, the other is prepared")
    assert generations(bare)["os@n0.example.com"] == 1, "all of it that can be read has run"
    bare.session.commit([Set(path, good, 1)])
    assert live.until_over().head.state == "success"
    assert set(generations(bare).values()) == {1}


def test_a_record_that_breaks_under_its_driver_costs_a_look_every_five_seconds(bare: Fleet) -> None:
    """However much happens meanwhile on the nodes that are in flight."""
    roles(bare, os=acting(60.0), app=acting())
    nodes(bare, {"n0.example.com": Node()})
    stack(bare)
    annealer = bare.annealer().begin()
    live = LiveRollout(bare, document([{"name": "all", "critical": True}]))
    bare.until(lambda: live.states() == {"n0": "sent"}, "it is in flight")
    path = paths.rollout(live.deployment, live.id, "groups/all")
    znode = bare.session.get(path)
    assert znode is not None
    bare.session.commit([Set(path, {"schema": 7}, znode.version)])
    bare.write(lambda world: taken(world, live.deployment, live.driven_by))
    bare.until(lambda: "not a GroupRecord" in annealer.said, "it has met it")
    for number in range(20):
        bare.set_node("n0.example.com", reason=f"{number}")
        time.sleep(0.05)
    assert annealer.said.count("not a GroupRecord") == 1


def test_several_rollouts_at_once_each_in_its_deployment(bare: Fleet) -> None:
    roles(bare, os=acting(0.1), app=acting(0.1))
    names = [f"d{number}" for number in range(8)]  # all with one driver, by chance: once in two thousand times
    for name in names:
        deployment(bare, name)
        nodes(bare, {f"{name}-n{number}.example.com": Node() for number in range(4)}, of=name)
        stack(bare, [f"app@{name}-n3"] if name == "d3" else [], of=name)
    for _ in range(3):
        bare.annealer().begin()
    bare.until(lambda: bare.living() == 3, "all are there")
    groups = [{"name": "first", "critical": True, "selectors": [{"node_names": [f"{name}-n0" for name in names]}]}]
    rule = {"name": "rest", "critical": True, "depends_on": ["first"], "success_criteria": {"maximum_failed_nodes": 0}}
    live = {name: LiveRollout(bare, document([*groups, rule]), name) for name in names}
    drivers = {name: one.until_over() and one.driven_by for name, one in live.items()}
    assert {name: str(one.now.head.state) for name, one in live.items()} == dict.fromkeys(names, "success") | {
        "d3": "failed"
    }
    assert set(generations(bare).values()) == {1}
    assert len(set(drivers.values())) > 1, "they are shared out"
