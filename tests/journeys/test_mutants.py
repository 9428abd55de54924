"""Each guard is needed: with it nothing comes of the bad luck that it is for; without it the checker finds the harm.

The bad luck is arranged, not waited for: an annealer stops itself between a decision and the act, all others go on, and
then it acts (mutants.py).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from nodepool_ocb.cli.main import cli
from nodepool_ocb.engine import claim, structure
from nodepool_ocb.engine.liveness import died
from nodepool_ocb.engine.noderole import Event, apply
from nodepool_ocb.engine.world import World
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Change, Role, State
from nodepool_ocb.testing.processes import CutDaemon
from nodepool_ocb.testing.zookeeper.server import Server
from tests.annealer.runs.test_jig_changed import import_anew
from tests.annealer.test_unreadable_records import unreadable, until_swept
from tests.journeys import mutants
from tests.journeys.fleet import DEPLOYMENT, SESSION_SECONDS, Fleet, vertex_of
from tests.journeys.history import Event as Noted
from tests.journeys.troubles import KEY, new_key

SLOW_SECONDS = 2.0


@pytest.fixture
def two(zookeeper: Server, chroot: str, tmp_path: Path) -> Iterator[Fleet]:
    with Fleet(zookeeper, chroot, tmp_path, machines=2) as fleet:
        yield fleet


@pytest.fixture
def eight(zookeeper: Server, chroot: str, tmp_path: Path) -> Iterator[Fleet]:
    """So many that each annealer is the first to ask some."""
    with Fleet(zookeeper, chroot, tmp_path, machines=8) as fleet:
        yield fleet


def launch(
    fleet: Fleet, mutant: str, moment: str, role: str, session_seconds: float = SESSION_SECONDS, **settings: Any
) -> CutDaemon:
    launcher = (mutants.__file__, mutant, moment, role)
    return fleet.annealer(launcher=launcher, session_seconds=session_seconds, **settings)


def does(fleet: Fleet, *words: str) -> None:
    """A command, which succeeds."""
    result = CliRunner().invoke(cli, ["--zookeeper", fleet.hosts, *words], prog_name="nodepool-ocb")
    assert result.exit_code == 0, result.output


def late_order(fleet: Fleet, mutant: str) -> None:
    """An order leaves after the node was taken over, and after its noderole was put into another generation."""
    fleet.add_role("slow", fleet.work(SLOW_SECONDS))
    noderole, node = fleet.bind("slow", fleet.nodes[0]), fleet.nodes[0]
    late = launch(fleet, mutant, "order", "slow").begin(BAD_LUCK="1")
    fleet.until(lambda: late.frozen, "it has claimed, and not ordered")
    fleet.until(lambda: not fleet.claim_stands(node), "its session is over")
    fleet.write(lambda world: died(world.nodes[node], time.time(), "it was seen dead"))
    fleet.set_node(node, alive=True)
    launch(fleet, mutant, "order", "slow").begin()
    fleet.until_started(noderole)
    late.thaw()


def late_claim(fleet: Fleet, mutant: str) -> None:
    """A claim leaves after a parent was taken back, and runs again."""
    fleet.add_role("above", fleet.work(SLOW_SECONDS))
    fleet.add_role("below", fleet.work(0.0))
    above = fleet.bind("above", fleet.nodes[0])
    fleet.bind("below", fleet.nodes[1], [above])
    late = launch(fleet, mutant, "claim", "below", session_seconds=60.0).begin(BAD_LUCK="1")
    fleet.until(lambda: late.frozen, "it has decided to claim")
    fleet.happens(above, Event.PROPOSE)
    fleet.happens(above, Event.COMMIT)
    launch(fleet, mutant, "claim", "below").begin()
    fleet.until(lambda: fleet.starts()[above] == 2, "the parent runs again")
    late.thaw()


def changed_jig(fleet: Fleet, mutant: str) -> None:
    """A role has another jig when its run is taken over."""
    fleet.add_role("slow", fleet.work(600.0))
    fleet.add_role("below", fleet.work(0.0))
    fleet.bind("below", fleet.nodes[1], [slow := fleet.bind("slow", fleet.nodes[0])])
    doomed = launch(fleet, mutant, "none", "slow").begin()
    fleet.until_started(slow)
    import_anew(fleet, "slow", Role(barclamp="fleet", jig="noop"))
    doomed.kill()
    launch(fleet, mutant, "none", "slow").begin()
    fleet.until_all_active()


def sick_host(fleet: Fleet, mutant: str) -> str:
    """An annealer's host fails once, after the machine has taken the order."""
    begun = fleet.folder / "begun"
    then = f": >{begun}\nsleep {SLOW_SECONDS}"
    fleet.add_role("wipe", fleet.work(0.0, then, flags=("destructive",), retries=1, backoff_seconds=0.1))
    launch(fleet, mutant, "answer", "wipe").begin(BAD_LUCK=str(begun))
    return fleet.bind("wipe", fleet.nodes[0])


def hidden_parent(fleet: Fleet, mutant: str) -> str:
    """An annealer begins while the record of a parent cannot be read; gives the child, which is done already."""
    fleet.add_role("above", fleet.work(0.0))
    fleet.add_role("below", fleet.work(0.0))
    above = fleet.bind("above", fleet.nodes[0])
    child = fleet.bind("below", fleet.nodes[1], [above])
    launch(fleet, mutant, "none", "below").begin()
    fleet.until_all_active()
    fleet.annealers[0].terminate()
    fleet.until(lambda: fleet.living() == 0, "it is gone")
    with unreadable(fleet, paths.noderole("above", fleet.nodes[0])):
        began = launch(fleet, mutant, "none", "below", sweep_seconds=0.2).start()
        until_swept(fleet, began)
    until_swept(fleet, began)
    return child


def second_life(fleet: Fleet, mutant: str) -> None:
    """A node is deleted and created again, and its role bound once more."""
    fqdn, machine = fleet.farm.records()[0]
    fleet.add_role("setup", fleet.work(0.0))
    noderole = fleet.bind("setup", fqdn)
    launch(fleet, mutant, "none", "setup").begin()
    fleet.until_all_active()
    address = ("--address", machine.addresses[0], "--user", machine.user, "--host-key", machine.host_keys[0])
    for words in (
        ("delete", fqdn, "--yes"),
        ("create", fqdn, "--deployment", DEPLOYMENT, *address),
        ("bind", fqdn, "setup"),
        ("commit", fqdn),
    ):
        does(fleet, "node", *words)
        if words[0] == "delete":
            fleet.begins_anew(noderole)


def unheard_member(fleet: Fleet, mutant: str) -> tuple[str, str]:
    """A member of a cluster is taken back, its annealer does not hear of it, and then its child could start: gives both."""
    first, second = fleet.nodes
    fleet.add_role("member", fleet.work(0.0, flags=("cluster",)))
    fleet.add_role("child", fleet.work(0.0, requires=("member",)))
    fleet.set_node(second, available=False)
    for words in (("node", "bind", first, "member"), ("node", "bind", second, "child")):
        does(fleet, *words)
    member, child = f"member@{first}", f"child@{second}"
    does(fleet, "noderole", "commit", member)
    does(fleet, "noderole", "commit", child)
    launch(fleet, mutant, "deaf", "member", sweep_seconds=600.0).start()
    fleet.until_state(member, State.ACTIVE)
    fleet.until_state(child, State.TODO)

    def alone(world: World) -> list[Change]:  # its child is left to those who watch
        vertex = vertex_of(world, member)
        return list(claim.writes(vertex, apply({vertex: Event.PROPOSE}, time.time())[vertex]))

    fleet.write(alone)
    fleet.set_node(second, available=True)
    return member, child


def lost_runs(fleet: Fleet, mutant: str) -> str:
    """A script kills what watches over it, twice."""
    kill = 'read -r _ _ _ _ _ keeper _ <"${OCB_RUN%/runs/*}/current"; kill -9 "$keeper"; sleep 600'
    twice = f'test "$(grep -c begins "$home/work")" -gt 2 || {{ {kill}; }}'
    fleet.add_role("fragile", fleet.work(0.0, twice, backoff_seconds=0.1))
    noderole = fleet.bind("fragile", fleet.nodes[0])
    launch(fleet, mutant, "none", "fragile").begin()
    return noderole


def bad_key(fleet: Fleet, mutant: str) -> CutDaemon:
    """Beside an annealer that is well, and has done all, one begins whose key no machine takes."""
    fleet.add_role("setup", fleet.work(0.0))
    for node in fleet.nodes:
        fleet.bind("setup", node)
    launch(fleet, mutant, "none", "setup").start()
    fleet.until_all_active()
    wrong = launch(fleet, mutant, "none", "setup", own_key=KEY, probe_seconds=0.5)
    (wrong.config.with_name(KEY)).unlink()
    new_key(wrong.config.with_name(KEY))
    return wrong.begin()


def test_an_order_that_comes_late_is_refused_by_the_machine(fleet: Fleet) -> None:
    late_order(fleet, "none")
    fleet.until(lambda: fleet.noted(Noted.FENCED), "the machine refuses the late order")
    fleet.until_all_active()
    assert not fleet.faults()


def test_a_claim_that_comes_late_is_refused_by_zookeeper(two: Fleet) -> None:
    late_claim(two, "none")
    two.until_all_active()
    assert not two.faults()
    assert sum(two.starts().values()) == 3


@pytest.mark.parametrize(
    ("mutant", "rules"),
    [
        ("no fence", {"shared_epochs", "run_again"}),
        ("no epoch on the machine", {"falling_epochs", "run_again"}),
    ],
)
def test_without_an_epoch_a_late_order_does_harm_and_is_found(fleet: Fleet, mutant: str, rules: set[str]) -> None:
    late_order(fleet, mutant)
    fleet.until(lambda: rules <= fleet.broken(), f"the checker finds {rules}")


def test_without_versions_a_late_claim_does_harm_and_is_found(two: Fleet) -> None:
    late_claim(two, "no versions")
    two.until(lambda: "before_parents" in two.broken(), "the checker finds a child before its parent")


def test_a_run_that_is_taken_over_is_ended_by_the_jig_that_ordered_it(two: Fleet) -> None:
    changed_jig(two, "none")
    assert "leftovers" not in two.broken()


def test_without_the_jig_of_the_order_a_script_goes_on_for_ever_and_is_found(two: Fleet) -> None:
    changed_jig(two, "no jig of the order")
    assert "leftovers" in two.broken()


def test_what_a_host_fails_at_after_the_order_is_not_done_again(fleet: Fleet) -> None:
    noderole = sick_host(fleet, "none")
    fleet.until_state(noderole, State.ACTIVE)
    assert "no room at all" in fleet.annealers[0].said
    assert fleet.starts()[noderole] == 1
    assert not fleet.faults()


def test_without_unknown_what_is_destructive_is_started_again_and_is_found(fleet: Fleet) -> None:
    sick_host(fleet, "no unknown")
    fleet.until(lambda: "destroyed_twice" in fleet.broken(), "the checker finds a second start")


def test_each_run_that_is_lost_is_an_attempt_of_its_own(fleet: Fleet) -> None:
    noderole = lost_runs(fleet, "none")
    fleet.until_state(noderole, State.ACTIVE)
    assert fleet.starts()[noderole] == 3
    assert not fleet.faults()


def test_without_the_count_of_lost_runs_one_run_is_started_again_and_again_and_is_found(fleet: Fleet) -> None:
    lost_runs(fleet, "no count of lost runs")
    fleet.until(lambda: "started_twice" in fleet.broken(), "the checker finds a run that was started twice")


def test_a_parent_that_cannot_be_read_makes_nobody_run_again(two: Fleet) -> None:
    child = hidden_parent(two, "none")
    assert two.starts()[child] == 1
    assert not two.unfinished()
    assert not two.faults()


def test_without_doubt_about_a_parent_a_child_runs_again(two: Fleet) -> None:
    child = hidden_parent(two, "no doubt")
    two.until(lambda: two.starts()[child] == 2, "it runs again, though nobody asked for that")


def test_an_annealer_whose_key_no_machine_takes_makes_nothing_run_again(eight: Fleet) -> None:
    wrong = bad_key(eight, "none")
    eight.until(lambda: "others reach it" in wrong.said, "another takes its suspicion back", 60.0)
    assert all(eight.node(node).alive for node in eight.nodes)
    assert set(eight.starts().values()) == {1}
    assert not eight.unfinished()


def test_without_agreement_machines_that_are_well_are_dead_and_nothing_on_them_counts_any_more(eight: Fleet) -> None:
    bad_key(eight, "no agreement")
    eight.until(lambda: not all(eight.node(node).alive for node in eight.nodes), "one is called dead", 60.0)
    assert eight.unfinished()


def test_a_second_life_uses_no_number_of_the_first(fleet: Fleet) -> None:
    second_life(fleet, "none")
    fleet.until_all_active()
    assert not fleet.faults()


def test_without_the_watermark_a_second_life_is_taken_for_the_first_and_is_found(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(structure, "_above_all_deleted", lambda _world, record, _transaction: record)
    second_life(fleet, "no watermark")
    fleet.until(lambda: "shared_epochs" in fleet.broken(), "the checker finds an epoch that had been used")


def test_a_member_that_is_taken_back_unheard_keeps_its_child_from_starting(two: Fleet) -> None:
    _, child = unheard_member(two, "none")
    two.until_state(child, State.BLOCKED)
    assert two.starts()[child] == 0


@pytest.mark.parametrize("mutant", ["no gates", "gates before members"])
def test_without_a_gate_that_is_shown_after_its_members_a_child_starts_before_one(
    two: Fleet, mutant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if mutant == "no gates":
        monkeypatch.setattr(claim, "gates_raised", lambda _: iter(()))
    member, child = unheard_member(two, mutant)
    two.until_started(child)
    assert two.state(member) is State.PROPOSED


def test_the_bad_luck_alone_changes_nothing(fleet: Fleet) -> None:
    """The launcher without bad luck is an annealer like any other."""
    fleet.add_role("slow", fleet.work(0.0))
    noderole = fleet.bind("slow", fleet.nodes[0])
    launch(fleet, "none", "order", "slow").begin()
    fleet.until_state(noderole, State.ACTIVE)
    assert not fleet.faults()
