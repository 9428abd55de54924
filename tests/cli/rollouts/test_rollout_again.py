"""Rollouts of a site that is ACTIVE: named roles run again, driven by a real annealer; jig test acts in place of machines."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Attrib, Create, Given, Json, NodeRole, Role, Set, State
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.world.load import load_world
from nodepool_ocb.testing.processes import DaemonProcess
from tests.cli.rollouts.driving import NODES, build
from tests.fixtures.commands import Ocb

Ask = Callable[..., Json]
SETTINGS = {"annealer": {"probe_seconds": 600.0}}  # there are no machines to look at
CANARY = "compute11.example.com"  # the first by name
BATCHES = ("--batch", "1", "--batch", "10%", "--batch", "100%")


@pytest.fixture
def annealer(zk_session: Session, zk_settings: ZooKeeperSettings, tmp_path: Path) -> Iterator[DaemonProcess]:
    assert zk_session.connected
    with DaemonProcess(zk_settings, tmp_path / "annealer", SETTINGS) as daemon:
        yield daemon


def records(session: Session) -> dict[str, NodeRole]:
    return {vertex.name: vertex.record for vertex in load_world(session).vertices()}


def ran(session: Session) -> dict[str, int]:
    """The noderoles that anybody ran, with the number of their generation."""
    return {name: record.generation for name, record in records(session).items() if record.epoch}


@pytest.mark.usefixtures("annealer")
def test_a_failing_canary_stops_a_rollout_of_a_role_and_a_retry_reaches_everybody_once(
    zk_session: Session, ask: Ask, ocb: Ocb
) -> None:
    build(zk_session, {"work@compute11": {"fail": "no disk"}}, State.ACTIVE)
    answer = ocb("rollout", "start", "--refresh", "work", *BATCHES, "--wait", "--timeout", "60")
    assert answer.exit_code == 6, answer.output
    assert "note: role work: to run again: 12 noderoles on 12 nodes\n" in answer.stderr
    assert f"{CANARY}  work@{CANARY}: no disk" in answer.stdout
    assert "not started (11):" in answer.stdout
    assert list(ran(zk_session)) == [f"work@{CANARY}"], "the others keep what they have"
    zk_session.commit([Set(paths.user("work", CANARY), {}, 0)])
    ask("rollout", "retry")
    answer = ocb("rollout", "wait", "--timeout", "60", "-o", "json")
    assert answer.exit_code == 0, answer.output
    assert json.loads(answer.stdout)["again"] == "role work"
    again = {f"work@{name}.example.com": 1 for name in NODES}
    assert ran(zk_session) == {**again, f"work@{CANARY}": 2}
    assert {record.state for record in records(zk_session).values()} == {State.ACTIVE}


def test_cancelling_withdraws_what_has_not_begun_and_resuming_sends_it_again(
    annealer: DaemonProcess, zk_session: Session, ask: Ask, ocb: Ocb, until: Callable[..., None]
) -> None:
    build(zk_session, state=State.ACTIVE)
    view = load_world(zk_session).nodes[CANARY]
    assert view.record is not None
    zk_session.commit([Set(paths.node(CANARY), replace(view.record, available=False), view.version)])
    ask("rollout", "start", "--refresh", "work")
    name = f"work@{CANARY}"
    until(lambda: records(zk_session)[name].refresh and len(ran(zk_session)) == 11)
    ask("rollout", "cancel")
    assert ocb("rollout", "wait", "--timeout", "30").exit_code == 6
    record = records(zk_session)[name]
    assert (record.state, record.refresh, record.epoch) == (State.ACTIVE, False, 0)
    ask("node", "set", CANARY, "available=true")
    assert name not in ran(zk_session), "it is left alone"
    ask("rollout", "resume")
    answer = ocb("rollout", "wait", "--timeout", "60")
    assert answer.exit_code == 0, answer.output + annealer.said[-3000:]
    assert len(ran(zk_session)) == 12
    others = {generation for each, generation in ran(zk_session).items() if each != name}
    assert others == {1}, "what has run is not sent again"


def test_another_driver_goes_on_and_sends_nothing_twice(
    annealer: DaemonProcess, zk_session: Session, ask: Ask, ocb: Ocb, until: Callable[..., None]
) -> None:
    build(zk_session, {f"work@{name}": {"delay": 0.2} for name in NODES}, State.ACTIVE)
    ask("rollout", "start", "--refresh", "work", "--refresh", "os", *("--batch", "3", "--batch", "6"))
    until(lambda: len(ran(zk_session)) >= 4)
    annealer.terminate()
    annealer.wait()
    assert len(ran(zk_session)) < 24, "it had not ended by then"
    annealer.start()
    assert ocb("rollout", "wait", "--timeout", "60").exit_code == 0
    assert ran(zk_session) == {f"{role}@{name}.example.com": 1 for name in NODES for role in ("os", "work")}


def test_a_time_out_withdraws_what_has_not_begun(zk_session: Session, ocb: Ocb, annealer: DaemonProcess) -> None:
    assert annealer.running
    build(zk_session, state=State.ACTIVE)
    view = load_world(zk_session).nodes[CANARY]
    assert view.record is not None
    zk_session.commit([Set(paths.node(CANARY), replace(view.record, available=False), view.version)])
    file = annealer.log.parent / "short.yaml"
    file.write_text(
        "phases: [{name: deploy, timeout_seconds: 2}]\n"
        "groups: [{name: all, critical: true, depends_on: [], selectors: []}]\n"
    )
    answer = ocb("rollout", "start", str(file), "--refresh", "work", "--wait", "--timeout", "60")
    assert answer.exit_code == 6, answer.output
    record = records(zk_session)[f"work@{CANARY}"]
    assert (record.state, record.refresh, record.epoch) == (State.ACTIVE, False, 0)
    assert len(ran(zk_session)) == 11


def test_one_changed_attribute_is_sent_in_batches_and_a_failing_canary_leaves_the_rest_as_it_is(
    annealer: DaemonProcess, zk_session: Session, ask: Ask, ocb: Ocb
) -> None:
    """Every noderole has run once; what its newest run was given is what its machine has."""
    assert annealer.running
    build(zk_session)
    role = Role(barclamp="b", jig="test", requires=("os",), attribs=(Attrib(name="text", map="text"),))
    zk_session.commit([Set(paths.role("work"), role, 0)])
    assert ocb("rollout", "start", "--default", "--wait", "--timeout", "60").exit_code == 0
    answer = ocb("rollout", "start", "--changed")
    assert (answer.exit_code, "nothing of the outdated noderoles is to run again" in answer.stderr) == (4, True), (
        answer.output
    )
    before = ran(zk_session)
    ask("deployment", "propose", "lab")
    ask("deployment", "set", "lab", "work", 'text="new"')
    ask("deployment", "commit", "lab", "--no-noderoles")
    zk_session.commit([Create(paths.user("work", CANARY), {"fail": "no disk"})])
    start = ("rollout", "start", "--changed", *BATCHES)
    answer = ocb(*start, "--wait", "--timeout", "60")
    assert answer.exit_code == 6, answer.output
    assert "note: the outdated noderoles: to run again: 12 noderoles on 12 nodes\n" in answer.stderr
    assert f"{CANARY}  work@{CANARY}: no disk" in answer.stdout
    assert ran(zk_session) == {**before, f"work@{CANARY}": before[f"work@{CANARY}"] + 1}
    assert set(texts(zk_session).values()) == {None}, "no machine has the new value"
    assert "the outdated noderoles: to run again: 11 noderoles on 11 nodes" in ocb(*start, "--dry-run").stderr
    zk_session.commit([Set(paths.user("work", CANARY), {}, 0)])
    ask("rollout", "retry")
    assert ocb("rollout", "wait", "--timeout", "60").exit_code == 0
    assert set(texts(zk_session).values()) == {"new"}
    once = {name: generation + name.startswith("work@") for name, generation in before.items()}
    assert ran(zk_session) == {**once, f"work@{CANARY}": before[f"work@{CANARY}"] + 2}
    assert ocb(*start).exit_code == 4


def test_nothing_is_called_outdated_from_attributes_that_cannot_be_read(zk_session: Session, ocb: Ocb) -> None:
    build(zk_session, state=State.ACTIVE)
    vertex = load_world(zk_session).nodes[CANARY].noderoles["work"]
    path = paths.user("work", CANARY)
    zk_session.commit(
        [
            Set(paths.noderole("work", CANARY), replace(vertex.record, given=7), vertex.version),
            Create(path, ["garbage"]),
        ]
    )
    answer = ocb("rollout", "start", "--changed")
    assert (answer.exit_code, f"error: {path}: these are no attributes" in answer.stderr) == (1, True), answer.output


def test_a_commit_by_hand_does_not_send_what_a_rollout_sends_in_its_turn(
    zk_session: Session, ocb: Ocb, ask: Ask
) -> None:
    build(zk_session, state=State.ACTIVE)
    vertex = load_world(zk_session).nodes[CANARY].noderoles["work"]
    zk_session.commit([Set(paths.noderole("work", CANARY), replace(vertex.record, given=7), vertex.version)])
    ask("rollout", "start", "--changed")
    answer = ocb("deployment", "commit", "lab")
    sentence = f"is under way and sends work@{CANARY} in their turn"
    assert (answer.exit_code, sentence in answer.stderr) == (4, True), answer.output
    assert not records(zk_session)[f"work@{CANARY}"].refresh


def texts(session: Session) -> dict[str, Json]:
    """What the newest run of ``work`` that succeeded was given, on each node."""
    found = {}
    for name in NODES:
        znode = session.get(paths.given("work", f"{name}.example.com"))
        found[name] = codec.decode(Given, znode).attributes.get("text") if znode is not None else None
    return found


@pytest.mark.parametrize("sizes", [("5", "1"), ("5", "5"), ("10%", "5%"), ("1", "10%", "5%")])
def test_batches_that_do_not_rise_are_refused(zk_session: Session, ocb: Ocb, sizes: tuple[str, ...]) -> None:
    build(zk_session, state=State.ACTIVE)
    given = [word for size in sizes for word in ("--batch", size)]
    answer = ocb("rollout", "start", "--refresh", "work", *given, "--dry-run")
    assert (answer.exit_code, f"--batch {sizes[-1]}: must be more than the batch before it" in answer.stderr) == (
        2,
        True,
    )


def test_what_is_in_error_is_named_where_what_is_outdated_runs_again(zk_session: Session, ocb: Ocb) -> None:
    build(zk_session, state=State.ACTIVE)
    outdated, *broken = [vertex for vertex in load_world(zk_session).vertices() if vertex.role == "work"]
    changes = [(outdated, replace(outdated.record, given=7))]
    changes += [(vertex, replace(vertex.record, state=State.ERROR)) for vertex in broken[:2]]
    zk_session.commit([Set(paths.noderole("work", v.node.name), record, v.version) for v, record in changes])
    one, two = sorted(vertex.name for vertex in broken[:2])
    left_out = (
        f"note: {one}, {two}: not ACTIVE, and left out: in ERROR; mend the cause, then: nodepool-ocb noderole retry"
    )
    answer = ocb("rollout", "start", "--changed", "--dry-run")
    assert (answer.exit_code, f"{left_out} {one} {two}\n" in answer.stderr) == (10, True), answer.output
    lost = [(vertex, replace(vertex.record, state=State.ERROR)) for vertex in broken[2:4]]
    zk_session.commit([Set(paths.noderole("work", v.node.name), record, v.version) for v, record in lost])
    many = ocb("rollout", "start", "--changed", "--dry-run").stderr
    assert (
        "and 1 more: not ACTIVE, and left out: in ERROR; mend the cause, then:"
        " nodepool-ocb noderole retry --failed --deployment lab\n" in many
    )


def test_noderoles_that_cannot_rerun_are_left_out_and_named(zk_session: Session, ocb: Ocb, ask: Ask) -> None:
    build(zk_session, state=State.ACTIVE)
    for role, flags in (("os", ("destructive",)),):
        zk_session.commit([Set(paths.role(role), Role(barclamp="b", jig="test", flags=flags), 0)])
    world = load_world(zk_session)
    lost = world.nodes[CANARY].noderoles["work"]
    zk_session.commit([Set(paths.noderole("work", CANARY), replace(lost.record, state=State.ERROR), lost.version)])
    both = ocb("rollout", "start", "--refresh", "work", "--refresh", "os", "--dry-run")
    assert both.exit_code == 10
    for sentence in (
        "and 9 more: destructive, and left out; nodepool-ocb noderole redeploy runs it again",
        f"note: work@{CANARY}: not ACTIVE, and left out",
        "note: role work, role os: to run again: 11 noderoles on 11 nodes",
    ):
        assert sentence in both.stderr, both.stderr
    for arguments, exit_code, message in (
        (["--refresh", "os"], 4, "nothing of role os is to run again in deployment lab"),
        (["--refresh", "wrok"], 3, "did you mean `work`?"),
        (["--refresh", "work", "--batch", "0%"], 2, "--batch 0%: write a number of nodes such as 5"),
    ):
        answer = ocb("rollout", "start", *arguments)
        assert (answer.exit_code, message in answer.stderr) == (exit_code, True), answer.output
    assert ask("rollout", "list") == []
