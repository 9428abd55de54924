"""Faults of an annealer's own host: never a run's failure, nothing is done twice, and work goes to the others."""

from __future__ import annotations

import resource
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest
from msgspec.structs import replace

from nodepool_ocb.engine.readiness import why_not
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Create, Role, State
from nodepool_ocb.store.world.load import load_world
from nodepool_ocb.testing.disks import SmallDisk, mountable
from nodepool_ocb.testing.processes import CutDaemon
from nodepool_ocb.testing.zookeeper.server import Server
from tests.journeys.fleet import Fleet, vertex_of
from tests.stories.test_annealer import package

SICK: Final = (str(Path(__file__).with_name("sick.py")),)


@pytest.fixture
def six(zookeeper: Server, chroot: str, tmp_path: Path) -> Iterator[Fleet]:
    with Fleet(zookeeper, chroot, tmp_path, machines=6) as fleet:
        yield fleet


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """A process that is begun meanwhile may write no larger file, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def sick(fleet: Fleet, how: str) -> CutDaemon:
    """An annealer that fails at each order in this way, while the file ``sick`` is there."""
    mark = fleet.folder / "sick"
    mark.touch()
    return fleet.annealer(launcher=SICK, drain_seconds=0.0).begin(SICK=how, SICK_FILE=str(mark))


def test_a_full_disk_under_the_log_neither_ends_a_run_nor_begins_it_again(fleet: Fleet) -> None:
    much = 'head -c 200000 /dev/zero | tr "\\0" x | fold -w 1000\nsleep 1\necho the end'
    fleet.add_role("wipe", fleet.work(0.0, much, flags=("destructive",), retries=1))
    noderole = fleet.bind("wipe", fleet.nodes[0])
    annealer = fleet.annealer()
    with files_of_at_most(65536):
        annealer.begin()
    fleet.until_state(noderole, State.ACTIVE)
    assert fleet.starts()[noderole] == 1
    (run,) = fleet.runs(noderole).values()
    assert (run.outcome, run.exit_code) == ("succeeded", 0)
    assert (run.tail or "").endswith("the end\n")
    assert annealer.said.count("cannot be kept") == 1
    assert not fleet.faults()


def test_a_host_without_its_key_calls_no_machine_dead_and_works_when_it_has_one(fleet: Fleet) -> None:
    fleet.add_role("first", fleet.work(0.0))
    (machine,) = fleet.nodes
    fleet.add_node("new.example.com", replace(fleet.node(machine), alive=False))
    key = Path(fleet.farm.settings()["key_files"][0])
    away = key.rename(key.with_name("away"))
    noderole = fleet.bind("first", machine)
    annealer = fleet.annealer(probe_seconds=0.3).begin()
    fleet.until(lambda: "none of the key files exists" in not_ready(annealer), "it says what it lacks")
    fleet.until(lambda: annealer.metric('nodepool_ocb_probes_total{outcome="unknown"}') >= 3, "it looks again")
    assert "none of the key files exists" in explained(fleet, noderole)
    assert fleet.node(machine).alive
    assert fleet.node("new.example.com").reason is None
    assert not fleet.runs(noderole)
    assert fleet.state(noderole) is State.TODO
    away.rename(key)
    fleet.until_state(noderole, State.ACTIVE)
    fleet.until(lambda: fleet.node("new.example.com").alive, "the other is found, too")
    fleet.until(annealer.ready, "it is ready")
    assert {run.outcome for run in fleet.runs(noderole).values()} == {"succeeded"}
    assert annealer.said.count("cannot ask machines") == 2  # that it is so, and that it is over


def not_ready(annealer: CutDaemon) -> str:
    """What its page says is wrong; empty where nothing is."""
    try:
        with urllib.request.urlopen(f"http://{annealer.pages}/health/ready", timeout=2.0):
            return ""
    except urllib.error.HTTPError as unready:
        with unready:
            return unready.read().decode()
    except OSError:
        return ""


def explained(fleet: Fleet, noderole: str) -> str:
    """All that keeps it from starting."""
    world = load_world(fleet.session)
    return "; ".join(reason.text for reason in why_not(world, vertex_of(world, noderole), fleet.session.now()))


def test_a_log_folder_that_cannot_be_made_is_said_once_for_all_runs(six: Fleet) -> None:
    fleet = six
    (fleet.folder / "file").touch()
    fleet.add_role("first", fleet.work(0.0, "echo the end"))
    noderoles = [fleet.bind("first", node) for node in fleet.nodes]
    annealer = fleet.annealer(log_dir=str(fleet.folder / "file" / "runs")).begin()
    fleet.until_all_active()
    runs = [run for noderole in noderoles for run in fleet.runs(noderole).values()]
    assert [(run.outcome, run.tail, run.log) for run in runs] == [("succeeded", "the end\n", None)] * 6
    assert annealer.said.count("cannot be kept") == 1


@pytest.mark.parametrize("how", ["before", pytest.param("after", marks=pytest.mark.long)])
def test_what_a_sick_annealer_fails_at_is_done_once_by_another_and_it_draws_in_no_more(six: Fleet, how: str) -> None:
    """It fails before each order is sent, or after: nothing becomes an ERROR, nothing is started twice."""
    fleet = six
    fleet.add_role("long", fleet.work(0.5, flags=("destructive",), retries=1))
    ill = sick(fleet, how)
    fleet.until(lambda: fleet.living() == 1, "it is there")
    noderoles = [fleet.bind("long", node) for node in fleet.nodes]
    fleet.until(lambda: any(fleet.record(noderole).reason for noderole in noderoles), "it has left one to others")
    assert "no room at all" in str([fleet.record(noderole).reason for noderole in noderoles])
    fleet.annealer().begin()
    fleet.until_all_active()
    assert all(fleet.starts()[noderole] == 1 for noderole in noderoles)
    assert ill.metric("nodepool_ocb_host_faults_total") < 40
    outcomes = {run.outcome for noderole in noderoles for run in fleet.runs(noderole).values()}
    assert outcomes <= {"abandoned", "unknown", "succeeded"}
    assert not fleet.faults()


@pytest.mark.long
def test_alone_it_goes_on_by_itself_when_its_fault_is_over(fleet: Fleet) -> None:
    fleet.add_role("long", fleet.work(0.5, flags=("destructive",)))
    noderole = fleet.bind("long", fleet.nodes[0])
    sick(fleet, "after")
    fleet.until(lambda: fleet.record(noderole).reason, "it leaves it to others")
    (fleet.folder / "sick").unlink()
    fleet.until_state(noderole, State.ACTIVE, 60.0)
    assert fleet.starts()[noderole] == 1
    assert any("no room at all" in (run.reason or "") for run in fleet.runs(noderole).values())
    assert not fleet.faults()


def test_what_cannot_be_prepared_for_one_role_is_no_fault_of_this_host(six: Fleet) -> None:
    fleet = six
    for name in ("odd", "plain"):
        fleet.add_role(name, fleet.work(0.0))
    odd = [fleet.bind("odd", fqdn) for fqdn in fleet.nodes]
    plain = [fleet.bind("plain", fqdn) for fqdn in fleet.nodes]
    fleet.session.commit([Create(paths.user("odd", fqdn), {"odd": 1}) for fqdn in fleet.nodes])
    ill = sick(fleet, "prepare")
    for noderole in plain:
        fleet.until_state(noderole, State.ACTIVE)
    for noderole in odd:
        fleet.until(lambda noderole=noderole: "KeyError" in str(fleet.record(noderole).reason), "it says why")
    assert ill.ready()
    assert ill.metric("nodepool_ocb_host_faults_total") == 0


RAISES: Final = """
from nodepool_ocb.jigs.jig import Succeeded

class Odd:
    name, instant, attaches = "odd", False, False
    def __init__(self, settings): ...
    def run(self, order, stop):
        if "exit" in order.attributes.get("how", ""):
            raise SystemExit(3)
        return Succeeded({"deep": object()})
    def cancel(self, order): ...
    def close(self): ...
"""


def test_what_a_jig_gives_back_and_nobody_can_keep_fails_its_run_and_costs_no_slot(fleet: Fleet) -> None:
    installed = package(fleet.folder / "site", RAISES)
    points = installed / "fleet_hooks-1.dist-info" / "entry_points.txt"
    points.write_text("[nodepool_ocb.jigs]\nodd = fleet_hooks:Odd\n")
    fleet.add_role("odd", Role(barclamp="fleet", jig="odd"))
    noderole = fleet.bind("odd", fleet.nodes[0])
    fleet.annealer(slots=1).begin(PYTHONPATH=str(installed))
    fleet.until_state(noderole, State.ERROR)
    assert not fleet.claim_stands(fleet.nodes[0])


def test_a_run_whose_keeper_is_killed_each_time_is_a_recorded_attempt_with_longer_and_longer_pauses(
    fleet: Fleet,
) -> None:
    kill = 'read -r _ _ _ _ _ keeper _ <"${OCB_RUN%/runs/*}/current"; kill -9 "$keeper"'
    often = f'test $(ls "${{OCB_RUN%/runs/*}}/runs" | grep -c script) -ge 3 || {{ {kill}; sleep 600; }}'
    fleet.add_role("first", fleet.work(0.0, often, backoff_seconds=0.5))
    noderole = fleet.bind("first", fleet.nodes[0])
    fleet.annealer().begin()
    fleet.until_state(noderole, State.ACTIVE)
    runs = list(fleet.runs(noderole).values())
    assert [run.outcome for run in runs] == ["lost", "lost", "succeeded"]
    assert runs[1].started - runs[0].ended >= 0.5
    assert runs[2].started - runs[1].ended >= 1.0
    assert fleet.starts()[noderole] == 3


@pytest.mark.skipif(not mountable(), reason="takes the right to mount")
@pytest.mark.parametrize("beside", [True, False], ids=["beside a good one", "alone"])
@pytest.mark.parametrize("fault", ["full", "read-only"])
def test_with_a_log_folder_that_cannot_be_written_to_everything_becomes_active(
    six: Fleet, fault: str, beside: bool
) -> None:
    """At first the folder is well; its fault comes while the runs go on."""
    fleet = six
    much = "for n in $(seq 300); do echo a line of this run, to be kept; done\necho the end"
    fleet.add_role("first", fleet.work(0.3, much))
    fleet.add_role("second", fleet.work(0.0, much))
    with SmallDisk(fleet.folder / "disk") as disk:
        ill = fleet.annealer(log_dir=str(disk.folder / "runs")).start()
        others = [fleet.annealer().start()] if beside else []
        first = [fleet.bind("first", node) for node in fleet.nodes]
        second = [fleet.bind("second", node, [above]) for node, above in zip(fleet.nodes, first, strict=True)]
        fleet.until(lambda: fleet.starts(), "work begins")
        if fault == "full":
            disk.fill()
        else:
            disk.read_only()
        fleet.until_all_active(60.0)
        for noderole in first + second:
            (run,) = fleet.runs(noderole).values()
            assert (run.outcome, (run.tail or "").endswith("the end\n")) == ("succeeded", True)
        assert all(fleet.starts()[noderole] == 1 for noderole in first + second)
        assert ill.said.count("cannot be kept") <= 1
        assert all(annealer.ready() for annealer in [ill, *others])
        assert not fleet.faults()
        ill.close()


@pytest.mark.skipif(not mountable(), reason="takes the right to mount")
def test_an_annealer_begins_with_a_full_log_folder(fleet: Fleet) -> None:
    fleet.add_role("first", fleet.work(0.0, "echo the end"))
    noderole = fleet.bind("first", fleet.nodes[0])
    with SmallDisk(fleet.folder / "disk", 65536) as disk:
        disk.fill()
        annealer = fleet.annealer(log_dir=str(disk.folder)).start()
        fleet.until_state(noderole, State.ACTIVE)
        assert [run.tail for run in fleet.runs(noderole).values()] == ["the end\n"]
        annealer.close()
