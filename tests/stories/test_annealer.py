"""Stories of annealers: real processes, a real server, machines with sshd; killed, frozen, cut off and drained."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from nodepool_ocb.engine.hooks import code as hookcode
from nodepool_ocb.engine.hooks.code import MissingHook
from nodepool_ocb.engine.noderole import Event
from nodepool_ocb.engine.readiness import Code, why_not
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import DeploymentState, Node, Role, State
from nodepool_ocb.store.world.load import load_world
from nodepool_ocb.testing.processes import CutDaemon
from nodepool_ocb.testing.zookeeper.server import Server
from tests.journeys.fleet import SESSION_SECONDS, Fleet, vertex_of
from tests.journeys.history import Event as Noted

SLACK_SECONDS = 3.0  # a take-over may take this long beyond the session


@pytest.fixture
def three(zookeeper: Server, chroot: str, tmp_path: Path) -> Iterator[Fleet]:
    with Fleet(zookeeper, chroot, tmp_path, machines=3) as fleet:
        yield fleet


def test_what_is_bound_becomes_active_parents_first(three: Fleet) -> None:
    fleet = three
    fleet.add_role("first", fleet.work(0.1))
    fleet.add_role("second", fleet.work(0.1))
    below = [fleet.bind("first", node) for node in fleet.nodes]
    for node in fleet.nodes:
        fleet.bind("second", node, below)
    fleet.annealer().begin()
    fleet.until_all_active()
    assert not fleet.faults()
    run = fleet.runs(below[0])
    assert [(r.outcome, r.exit_code, r.generation) for r in run.values()] == [("succeeded", 0, 1)]


def test_after_kill_9_another_takes_over_and_the_run_goes_on(fleet: Fleet) -> None:
    holder, other, noderole = running_under_one_of_two(fleet, seconds=SESSION_SECONDS + 2)
    killed = time.time()
    holder.kill()
    fleet.until(lambda: fleet.held_by() is other, "the other takes over")
    assert fleet.claim().since - killed < SESSION_SECONDS + SLACK_SECONDS
    fleet.until_state(noderole, State.ACTIVE)
    assert fleet.starts()[noderole] == 1
    assert [run.outcome for run in fleet.runs(noderole).values()] == ["abandoned", "succeeded"]
    assert not fleet.faults()


def test_a_sigterm_hands_over_within_a_second(fleet: Fleet) -> None:
    holder, other, noderole = running_under_one_of_two(fleet, seconds=2.0)
    asked = time.time()
    holder.terminate()
    fleet.until(lambda: fleet.held_by() is other, "the other takes over")
    assert fleet.claim().since - asked < 1.0
    assert holder.wait() == 0
    fleet.until_state(noderole, State.ACTIVE)
    assert fleet.starts()[noderole] == 1
    assert not fleet.faults()


def test_an_annealer_that_was_frozen_beyond_its_session_changes_nothing(fleet: Fleet) -> None:
    holder, other, noderole = running_under_one_of_two(fleet, seconds=SESSION_SECONDS + 2)
    holder.freeze()
    fleet.until(lambda: fleet.held_by() is other, "the other takes over")
    holder.thaw()
    fleet.until_state(noderole, State.ACTIVE)
    fleet.until(lambda: fleet.living() == 2, "the frozen one is back")
    assert fleet.starts()[noderole] == 1
    assert not fleet.faults()


def test_an_annealer_that_is_cut_off_beyond_its_session_changes_nothing(fleet: Fleet) -> None:
    holder, other, noderole = running_under_one_of_two(fleet, seconds=SESSION_SECONDS + 2)
    holder.proxy.cut()
    fleet.until(lambda: fleet.held_by() is other, "the other takes over")
    holder.proxy.heal()
    fleet.until_state(noderole, State.ACTIVE)
    fleet.until(lambda: fleet.living() == 2, "it is back")
    assert fleet.starts()[noderole] == 1
    assert not fleet.faults()


def test_what_is_written_without_an_answer_is_written_once(fleet: Fleet) -> None:
    holder, _, noderole = running_under_one_of_two(fleet, seconds=1.0)
    swallowed = holder.proxy.drop_answers()
    fleet.until(lambda: fleet.noted(Noted.ENDED), "the run ends")
    fleet.until(lambda: swallowed.is_set(), "an answer is lost")
    with contextlib.suppress(AssertionError):  # the answer that was lost may be another one: then nothing was written
        fleet.until(lambda: not fleet.claim_stands(fleet.nodes[0]), "the end is written, or the session is over", 8)
    holder.proxy.heal()
    fleet.until_state(noderole, State.ACTIVE)
    assert fleet.starts()[noderole] == 1
    assert not fleet.faults()


def test_a_machine_that_dies_in_a_run_while_it_is_not_available_is_done_when_it_is_back(fleet: Fleet) -> None:
    fleet.add_role("long", fleet.work(1.0))
    node, noderole = fleet.nodes[0], fleet.bind("long", fleet.nodes[0])
    fleet.annealer().begin()
    fleet.until_started(noderole)
    fleet.set_node(node, available=False)
    fleet.farm.kill(0)
    fleet.until(lambda: not fleet.claim_stands(node), "its annealer gives up")
    fleet.farm.start(0)
    fleet.set_node(node, available=True)
    fleet.until_state(noderole, State.ACTIVE)
    assert not fleet.faults()


def test_a_run_that_nobody_holds_is_accounted_for_when_its_noderole_has_to_wait_again(three: Fleet) -> None:
    fleet = three
    fleet.add_role("above", fleet.work(0.0))
    fleet.add_role("below", fleet.work(SESSION_SECONDS + 2))
    above = fleet.bind("above", fleet.nodes[0])
    below = fleet.bind("below", fleet.nodes[1], [above])
    doomed = fleet.annealer().begin()
    fleet.until_started(below)
    doomed.kill()
    fleet.happens(above, Event.PROPOSE)
    fleet.annealer().begin()
    fleet.until_state(below, State.BLOCKED)
    fleet.happens(above, Event.COMMIT)
    fleet.until_all_active()
    assert not fleet.faults()


def test_a_dead_machine_waits_and_is_done_anew_when_it_is_back(fleet: Fleet) -> None:
    fleet.add_role("first", fleet.work(0.1))
    fleet.add_role("second", fleet.work(0.1))
    first = fleet.bind("first", fleet.nodes[0])
    second = fleet.bind("second", fleet.nodes[0], [first])
    fleet.annealer(probe_seconds=0.5).begin()
    fleet.until_all_active()
    fleet.farm.kill(0)
    fleet.until(lambda: not fleet.node(fleet.nodes[0]).alive, "the machine is found dead")
    assert (fleet.state(first), fleet.state(second)) == (State.TODO, State.BLOCKED)
    assert "connect" in (fleet.node(fleet.nodes[0]).reason or "")
    fleet.farm.start(0)
    fleet.until_all_active()
    assert fleet.starts() == {first: 2, second: 2}
    assert not fleet.faults()


def test_a_failing_role_is_an_error_until_it_is_mended_and_retried(fleet: Fleet) -> None:
    mended = fleet.folder / "mended"
    fleet.add_role("first", fleet.work(0.0, f'test -e "{mended}" || {{ echo it is broken; exit 7; }}'))
    fleet.add_role("second", fleet.work(0.0))
    first = fleet.bind("first", fleet.nodes[0])
    second = fleet.bind("second", fleet.nodes[0], [first])
    annealer = fleet.annealer().begin()
    fleet.until_state(first, State.ERROR)
    fleet.until(lambda: f"{first} is in ERROR: exit code 7" in annealer.said, "its log says so")
    assert fleet.state(second) is State.BLOCKED
    (run,) = fleet.runs(first).values()
    assert (run.outcome, run.exit_code) == ("failed", 7)
    assert "it is broken" in (run.tail or "")
    mended.touch()
    fleet.happens(first, Event.RETRY)
    fleet.until_all_active()
    assert not fleet.faults()


def test_a_role_with_retries_is_run_again_with_longer_and_longer_pauses(fleet: Fleet) -> None:
    count = fleet.folder / "count"
    third = f'echo >> "{count}"; test $(wc -l < "{count}") = 3'
    fleet.add_role("first", fleet.work(0.0, third, retries=2, backoff_seconds=0.5))
    noderole = fleet.bind("first", fleet.nodes[0])
    fleet.annealer().begin()
    fleet.until_state(noderole, State.ACTIVE)
    runs = list(fleet.runs(noderole).values())
    assert [run.outcome for run in runs] == ["failed", "failed", "succeeded"]
    assert runs[1].started - runs[0].ended >= 0.5
    assert runs[2].started - runs[1].ended >= 1.0
    assert not fleet.faults()


def test_a_node_that_is_not_available_is_left_alone(three: Fleet) -> None:
    fleet = three
    fleet.add_role("first", fleet.work(0.0))
    fleet.set_node(fleet.nodes[0], available=False)
    kept, *others = [fleet.bind("first", node) for node in fleet.nodes]
    fleet.annealer().begin()
    for noderole in others:
        fleet.until_state(noderole, State.ACTIVE)
    assert fleet.state(kept) is State.TODO
    assert kept not in fleet.starts()
    fleet.set_node(fleet.nodes[0], available=True)
    fleet.until_all_active()


def test_nothing_starts_in_a_deployment_that_was_proposed_again(fleet: Fleet) -> None:
    fleet.add_role("first", fleet.work(1.0))
    fleet.add_role("second", fleet.work(0.0))
    fleet.add_role("stranger", fleet.work(0.0))
    first = fleet.bind("first", fleet.nodes[0])
    second = fleet.bind("second", fleet.nodes[0], [first])
    fleet.annealer().begin()
    fleet.until_started(first)
    fleet.set_deployment(DeploymentState.PROPOSED)
    fleet.until_state(first, State.ACTIVE)  # what has begun may end
    stranger = fleet.bind("stranger", fleet.nodes[0], deployment="system")
    fleet.until_state(stranger, State.ACTIVE)
    assert fleet.state(second) is State.TODO
    assert second not in fleet.starts()
    fleet.set_deployment(DeploymentState.COMMITTED)
    fleet.until_all_active()


@pytest.mark.long
def test_zookeeper_gone_for_longer_than_the_session_loses_no_finished_work(chroot: str, tmp_path: Path) -> None:
    with Server(fsync=False) as server, Fleet(server, chroot, tmp_path) as fleet:
        fleet.add_role("first", fleet.work(1.0))
        noderole = fleet.bind("first", fleet.nodes[0])
        fleet.annealer().begin()
        fleet.until_started(noderole)
        server.kill()
        fleet.until(lambda: fleet.noted(Noted.ENDED), "the run ends")
        gone = time.monotonic()
        fleet.until(lambda: time.monotonic() - gone > SESSION_SECONDS, "the session is over")
        server.start()
        fleet.until_state(noderole, State.ACTIVE)
        assert fleet.starts()[noderole] == 1
        assert not fleet.faults()


def test_what_a_busy_annealer_has_no_slot_for_is_done_by_another(three: Fleet) -> None:
    fleet = three
    gate = fleet.folder / "gate"
    fleet.add_role("first", fleet.work(0.0, f'until test -e "{gate}"; do sleep 0.1; done'))
    noderoles = [fleet.bind("first", node) for node in fleet.nodes]
    busy = fleet.annealer(slots=1).begin()
    fleet.until(lambda: [node for node in fleet.nodes if fleet.held_by(node) is busy], "one is claimed")
    idle = fleet.annealer().begin()
    fleet.until(lambda: all(map(fleet.held_by, fleet.nodes)), "all are claimed")
    holders = [fleet.held_by(node) for node in fleet.nodes]
    assert (holders.count(busy), holders.count(idle)) == (1, 2)
    gate.touch()
    fleet.until_all_active()
    assert all(fleet.starts()[noderole] == 1 for noderole in noderoles)


HOOKS = """
import os, pathlib, time
from nodepool_ocb.catalogue.code import Role

class Watched(Role):
    def on_todo(self, hooked):
        hooked.set_system[hooked.subject] = {"told": "on_todo"}

    def on_active(self, hooked):
        calls = pathlib.Path(os.environ["CALLS"])
        with calls.open("a") as file:
            print(os.getpid(), hooked.subject, file=file)
        if len(calls.read_text().splitlines()) == 1:
            time.sleep(600)  # killed while it runs
        hooked.set_system[hooked.subject] = {"done": True}
"""


def test_a_hook_runs_at_least_once_though_its_annealer_dies_in_it(fleet: Fleet) -> None:
    calls = fleet.folder / "calls"
    installed = package(fleet.folder / "site", HOOKS)
    environment = {"PYTHONPATH": str(installed), "CALLS": str(calls)}
    fleet.add_role("watched", fleet.work(0.0, hooks=("on_todo", "on_active")))
    noderole = fleet.bind("watched", fleet.nodes[0], hooks=("on_todo",))
    doomed = fleet.annealer().begin(**environment)
    fleet.until(lambda: calls.exists(), "the hook is called")
    doomed.kill()
    fleet.annealer().begin(**environment)
    fleet.until(lambda: not fleet.record(noderole).hooks, "no hook is left to run")
    first, second = calls.read_text().splitlines()
    assert first.split()[1] == second.split()[1] == noderole
    assert first.split()[0] != second.split()[0]
    assert fleet.blob(paths.system("watched", fleet.nodes[0])) == {"told": "on_todo", "done": True}


def test_a_machine_that_is_alive_without_a_key_has_its_key_pinned_and_again_after_it_was_taken_away(
    fleet: Fleet,
) -> None:
    (machine,) = fleet.nodes
    keys = fleet.node(machine).host_keys
    fleet.set_node(machine, host_keys=())
    fleet.annealer(probe_seconds=0.3).begin()
    for _ in range(2):
        fleet.until(lambda: fleet.node(machine).host_keys == keys, "its key is pinned")
        fleet.set_node(machine, host_keys=())


def test_a_private_key_that_others_may_read_is_warned_of_at_the_start(fleet: Fleet) -> None:
    Path(fleet.farm.settings()["key_files"][0]).chmod(0o644)
    annealer = fleet.annealer().start()
    assert "may be used by others than its owner; chmod 600" in annealer.said


def test_a_hook_whose_code_is_nowhere_is_said_once_for_all_its_noderoles(fleet: Fleet) -> None:
    fleet.add_role("absent", Role(barclamp="fleet", jig="noop", hooks=("on_active", "on_node_create")))
    names = []
    for number in range(40):
        fleet.add_node(f"n{number}.example.com", Node(virtual=True, alive=True, deployment="fleet"))
        names.append(fleet.bind("absent", f"n{number}.example.com", hooks=("on_active",)))
    annealer = fleet.annealer(sweep_seconds=0.5).start()
    before = annealer.metric("nodepool_ocb_sweeps_total")
    fleet.until(lambda: annealer.metric("nodepool_ocb_sweeps_total") >= before + 6, "it looks at everything, often")
    assert annealer.said.count("its code is not installed") == 1
    assert {fleet.record(name).hooks for name in names} == {("on_active",)}


def test_a_hook_whose_code_is_installed_later_runs_soon_and_its_annealer_says_that_it_has_it(fleet: Fleet) -> None:
    fleet.add_role("watched", Role(barclamp="fleet", jig="noop", hooks=("on_todo",)))
    noderole = fleet.bind("watched", fleet.nodes[0], hooks=("on_todo",))
    site = fleet.folder / "site"
    site.mkdir()
    annealer = fleet.annealer(sweep_seconds=0.5).begin(PYTHONPATH=str(site))
    fleet.until(lambda: "its code is not installed" in annealer.said, "it looks for the code")
    world = load_world(fleet.session)
    assert hookcode.all_missing(world) == [MissingHook("watched", "on_todo", 1)]
    (pending,) = why_not(world, vertex_of(world, noderole), fleet.session.now())
    assert pending.code is Code.HOOK_PENDING
    assert "no living annealer has the code of role watched" in pending.text
    package(site, "from nodepool_ocb.catalogue.code import Role\nclass Watched(Role): ...\n")
    fleet.until_state(noderole, State.ACTIVE)
    fleet.until(lambda: not hookcode.missing(load_world(fleet.session), "watched"), "it says that it has the code")


def package(folder: Path, source: str, roles: Iterable[str] = ("watched",)) -> Path:
    """A folder for PYTHONPATH that brings hooks for roles, as an installed package would: of "watched" by class Watched."""
    info = folder / "fleet_hooks-1.dist-info"
    info.mkdir(parents=True)
    (folder / "fleet_hooks.py").write_text(source)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: fleet-hooks\nVersion: 1\n")
    points = "".join(f"{role} = fleet_hooks:{role.title().replace('-', '')}\n" for role in roles)
    (info / "entry_points.txt").write_text(f"[nodepool_ocb.roles]\n{points}")
    return folder


def running_under_one_of_two(fleet: Fleet, seconds: float) -> tuple[CutDaemon, CutDaemon, str]:
    """Two annealers, and a noderole that one of them runs: who has it, who has not, and its name."""
    fleet.add_role("long", fleet.work(seconds))
    annealers = [fleet.annealer(drain_seconds=0.3).begin() for _ in range(2)]
    fleet.until(lambda: fleet.living() == 2, "both are there")
    noderole = fleet.bind("long", fleet.nodes[0])
    fleet.until_started(noderole)
    holder = fleet.held_by()
    assert holder is not None
    return holder, next(each for each in annealers if each is not holder), noderole
