"""``nodepool-ocb rollout``: started, refused, looked at, steered, while a loop in place of an annealer drives it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from nodepool_ocb.model import paths
from nodepool_ocb.model.records import (
    Create,
    Daemon,
    Deployment,
    DeploymentState,
    Json,
    LockOwner,
    NodeRole,
    Role,
    RolloutPointer,
    Set,
    State,
)
from nodepool_ocb.rollout.records import GroupState, NodeState, RolloutState
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.locks import Locks
from nodepool_ocb.store.world.load import load_world
from tests.cli.rollouts.driving import LAB, STRATEGY, Driver, failing
from tests.fixtures.commands import Ocb

Ask = Callable[..., Json]
FIRST = "lab/0000000000"


def states(session: Session) -> dict[str, State]:
    return {vertex.name: vertex.record.state for vertex in load_world(session).vertices()}


def says(document: Json) -> list[str]:
    """The rollout's state before and after, of a dry run."""
    fields = [field for row in document["changes"] if row["name"] == FIRST for field in row["fields"]]
    return next([field["old"], field["new"]] for field in fields if field["field"] == "state")


# -- starting --


@pytest.mark.usefixtures("site")
def test_start_begins_a_rollout_of_the_only_deployment(ask: Ask, ocb: Ocb, file: str) -> None:
    result = ocb("rollout", "start", file, "-o", "json")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert (document["deployment"], document["state"], document["groups"], document["nodes"]) == (LAB, "running", 5, 12)
    assert "no annealer is running" in result.stderr
    assert ask("rollout", "list") == [{**document, "driver": None}]
    assert ocb("rollout", "list", "-o", "name").stdout.split() == [document["rollout"]]


@pytest.mark.usefixtures("site")
def test_a_dry_run_shows_the_plan_and_begins_nothing(ask: Ask, ocb: Ocb, file: str) -> None:
    plan = ask("rollout", "start", file, "--dry-run", exit_code=10)
    assert plan["levels"][0] == ["monitoring-nodes", "ntp-node"]
    assert len(plan["members"]["control-nodes"]) == 3
    assert ask("rollout", "list") == []
    table = ocb("rollout", "start", "--default", "--dry-run")
    assert (table.exit_code, table.stdout.splitlines()[1].split()[:4]) == (10, ["0", "all", "yes", "12"])


def test_virtual_nodes_with_noderoles_are_named_since_they_are_in_no_group(site: Session, ocb: Ocb, file: str) -> None:
    said = (
        "note: 1 virtual node is in no group, since a rollout is about machines: v1.example.com;"
        " to commit PROPOSED noderoles there:"
    )
    site.commit([Create(paths.role("anchor"), Role(barclamp="b", jig="noop"))])
    for name in ("v1.example.com", "v2.example.com"):
        assert ocb("node", "create", name, "--virtual", "--deployment", LAB).exit_code == 0
    assert "virtual" not in ocb("rollout", "plan", file).stderr, "nothing is bound to them"
    assert ocb("node", "bind", "v1.example.com", "anchor").exit_code == 0
    for verb in (("plan", file), ("start", file, "--dry-run"), ("start", file)):
        answer = ocb("rollout", *verb)
        assert f"{said} nodepool-ocb node commit v1.example.com" in answer.stderr, answer.output


@pytest.mark.usefixtures("started")
def test_a_second_rollout_of_a_deployment_is_refused_while_one_is_under_way(started: Session, ocb: Ocb) -> None:
    result = ocb("rollout", "start", "--default")
    assert result.exit_code == 4
    assert f"rollout {FIRST} is under way" in result.stderr
    assert "no annealer drives it now; wait for it: nodepool-ocb rollout wait lab/0" in result.stderr
    holder = LockOwner(daemon="annealer-7", host="h7", pid=7, purpose="drives", since=1.0)
    assert Locks(started).take(paths.rollout_lock(LAB, FIRST[4:]), holder)
    assert "annealer-7 on h7 drives it" in ocb("rollout", "start", "--default").stderr
    listed = ocb("lock", "list", "-o", "json")
    assert [(each["kind"], each["name"], each["owner"]) for each in json.loads(listed.stdout)] == [
        ("rollout", FIRST, "annealer-7")
    ]
    ocb("rollout", "cancel")
    assert ocb("rollout", "start", "--default").stderr.endswith(f"wait for it: nodepool-ocb rollout wait {FIRST}\n")


def test_what_was_in_error_before_a_rollout_begins_is_named(site: Session, ocb: Ocb, file: str) -> None:
    ocb("rollout", "start", file)
    Driver(site, failing("os@monitor1")).run()
    ocb("noderole", "propose", "work@compute21.example.com")
    message = ocb("rollout", "start", file, "--dry-run").stderr
    assert "1 noderole is in ERROR already, so that the nodes fail: os@monitor1.example.com" in message


@pytest.mark.usefixtures("site")
def test_a_file_or_the_default_is_wanted_and_not_both(ocb: Ocb, file: str) -> None:
    for given, end in (((), "of all nodes\n"), ((file, "--default"), "of all nodes, not both\n")):
        answer = ocb("rollout", "start", *given)
        assert (answer.exit_code, answer.stderr.endswith(end)) == (2, True)


@pytest.mark.usefixtures("started")
def test_a_rollout_above_or_below_one_that_is_under_way_is_refused(ocb: Ocb, ask: Ask) -> None:
    """It would be about the same noderoles."""
    ask("deployment", "create", "rack", "--parent", LAB)
    for name in ("system", "rack"):
        result = ocb("rollout", "start", "--default", "--deployment", name)
        assert result.exit_code == 4
        assert f"rollout {FIRST} is under way" in result.stderr
        assert f"wait for it: nodepool-ocb rollout wait {FIRST}" in result.stderr
    ask("deployment", "create", "beside")
    assert "under way" not in ocb("rollout", "start", "--default", "--deployment", "beside").stderr


def test_a_deployment_that_is_proposed_is_refused_until_it_is_committed_without_its_noderoles(
    site: Session, ocb: Ocb, ask: Ask, file: str
) -> None:
    site.commit([Set(paths.deployment(LAB), Deployment(state=DeploymentState.PROPOSED), 0)])
    result = ocb("rollout", "start", file)
    assert result.exit_code == 4
    assert "deployment lab is PROPOSED" in result.stderr
    ask("deployment", "commit", LAB, "--no-noderoles")
    assert set(states(site).values()) == {State.PROPOSED}
    ask("rollout", "start", file)


def test_a_rollout_that_would_commit_nothing_is_refused(site: Session, ocb: Ocb, file: str) -> None:
    ocb("rollout", "start", file)
    Driver(site).run()
    result = ocb("rollout", "start", file)
    assert result.exit_code == 4
    assert "nothing that this rollout would commit in deployment lab is PROPOSED" in result.stderr


@pytest.mark.usefixtures("site")
def test_criteria_that_cannot_be_met_are_refused_unless_forced(ocb: Ocb, file: str) -> None:
    Path(file).write_text(STRATEGY.replace("minimum_successful_nodes: 3", "minimum_successful_nodes: 4"))
    result = ocb("rollout", "start", file)
    assert result.exit_code == 1
    assert "group control-nodes: minimum_successful_nodes: 4 wanted, and it has 3 nodes; --force" in result.stderr
    forced = ocb("rollout", "start", file, "--force")
    assert forced.exit_code == 0
    assert "warning: group control-nodes" in forced.stderr


@pytest.mark.usefixtures("site")
def test_a_strategy_without_groups_begins_no_rollout(ocb: Ocb, ask: Ask, file: str) -> None:
    Path(file).write_text("groups: []\n")
    answer = ocb("rollout", "start", file, "--wait")
    assert answer.exit_code == 0, answer.output
    assert "nothing to do: strategy deployment-strategy has no groups" in answer.stderr
    assert ask("rollout", "list") == []


def test_an_empty_group_with_a_minimum_fails_when_its_turn_comes(site: Session, ocb: Ocb, file: str) -> None:
    Path(file).write_text(STRATEGY.replace("[control], rack_names: [rack03]", "[nobody]"))
    answer = ocb("rollout", "start", file)
    assert answer.exit_code == 0, answer.output
    assert "group control-nodes has no nodes, and fails: minimum_successful_nodes: 3 wanted" in answer.stderr
    ended = Driver(site).run()
    control = ended.groups["control-nodes"]
    assert (ended.head.state, control.state, control.reason) == (RolloutState.FAILED, GroupState.FAILED, "prepare")
    assert control.unmet == ("minimum_successful_nodes: 3 wanted, 0 successful",)


def test_a_parent_in_a_group_that_comes_later_is_found_before_anything_begins(
    site: Session, ocb: Ocb, file: str
) -> None:
    """ntp-node comes after monitoring-nodes: os on monitor1 would wait for it until its time is up."""
    child, parent = "monitor1.example.com", "os@ntp01.example.com"
    record = NodeRole(state=State.PROPOSED, since=1.0, deployment=LAB, parents=(parent,))
    site.commit([Set(paths.noderole("os", child), record, 0)])
    sentence = (
        f"group monitoring-nodes: os@{child} waits for {parent}, which group ntp-node commits later;"
        " let group monitoring-nodes depend on group ntp-node"
    )
    for verb in ("plan", "start"):
        answer = ocb("rollout", verb, file)
        assert (answer.exit_code, f"error: {sentence}" in answer.stderr) == (1, True), answer.output
    Path(file).write_text(
        STRATEGY.replace("critical: false\n      depends_on: []", "critical: false\n      depends_on: [ntp-node]")
    )
    assert ocb("rollout", "plan", file).exit_code == 0
    Path(file).write_text(STRATEGY)
    assert f"warning: {sentence}" in ocb("rollout", "start", file, "--force").stderr


@pytest.mark.usefixtures("site")
def test_without_a_document_there_is_no_phase_that_commits_nothing(site: Session, ocb: Ocb) -> None:
    assert ocb("rollout", "start", "--default").exit_code == 0
    Driver(site).run()
    report = ocb("rollout", "show", "--report").stdout
    assert "| deploy all   <SUCCESS>" in report
    assert "prepare" not in report


@pytest.mark.usefixtures("site")
@pytest.mark.parametrize(
    ("arguments", "exit_code", "message"),
    [
        (["--default", "--deployment", "lap"], 3, "did you mean `lab`?"),
        ([], 2, "--default"),
        (["--default", "--phase", "prepar=os"], 2, "did you mean `prepare`?"),
        (["--default", "--phase", "prepare=wrok"], 3, "did you mean `work`?"),
        (["missing.yaml"], 3, "missing.yaml does not exist"),
    ],
)
def test_absent_objects_are_refused(ocb: Ocb, arguments: list[str], exit_code: int, message: str) -> None:
    result = ocb("rollout", "start", *arguments)
    assert (result.exit_code, result.stdout) == (exit_code, ""), result.output
    assert message in result.stderr


def test_phases_may_be_given_their_roles(site: Session, ask: Ask, ocb: Ocb) -> None:
    result = ocb("rollout", "start", "--default", "--phase", "deploy=os", "-o", "json")
    assert result.exit_code == 0
    assert "12 noderoles stay PROPOSED, in no phase" in result.stderr
    assert ocb("rollout", "start", "--default", "--phase", "prepare=os").exit_code == 4
    driver = Driver(site)
    assert driver.run().head.state is RolloutState.SUCCESS
    assert {state for name, state in states(site).items() if name.startswith("work@")} == {State.PROPOSED}
    assert ask("rollout", "list")[0]["state"] == "success"


@pytest.mark.usefixtures("site")
def test_several_deployments_must_be_told_apart(site: Session, ocb: Ocb) -> None:
    site.commit([Create(paths.deployment("other"), Deployment()), Create(paths.deployment_roles("other"))])
    result = ocb("rollout", "start", "--default")
    assert (result.exit_code, "lab, other" in result.stderr) == (2, True)
    assert ocb("rollout", "start", "--default", "--deployment", LAB).exit_code == 0
    assert ocb("rollout", "start", "--default", "--deployment", "other").exit_code == 4


# -- looking --


def test_show_draws_groups_and_the_nodes_that_failed(started: Session, ask: Ask, ocb: Ocb) -> None:
    Driver(started, failing("os@control2", "work@compute21")).run()
    document = ask("rollout", "show")
    groups = {row["group"]: row for row in document["groups"]}
    assert (groups["control-nodes"]["state"], groups["control-nodes"]["phase"]) == ("failed", "prepare")
    assert groups["control-nodes"]["nodes"] == {"failure": 1, "prepared": 2}
    assert groups["compute-nodes-1"]["reason"] == "dependency"
    assert document["nodes"]["failure"] == ["control2.example.com"]
    assert len(document["nodes"]["not started"]) == 5
    assert [(row["node"], row["group"], row["reason"]) for row in document["failed"]] == [
        ("control2.example.com", "control-nodes", "os@control2.example.com: it broke")
    ]
    assert document["finish"] == "Finish (failed due to critical group failed)"
    table = ocb("rollout", "show").stdout
    assert "percent_successful_nodes: 90 wanted, 2 of 3 (66%) successful" in table
    assert "os@control2.example.com: it broke" in table


@pytest.mark.usefixtures("started")
def test_show_names_a_rollout_in_every_way(ocb: Ocb, ask: Ask) -> None:
    for written in ([], [LAB], [FIRST], ["lab/0"], ["0"], ["--deployment", LAB], ["0", "--deployment", LAB]):
        assert ask("rollout", "show", *written)["rollout"] == FIRST, written
    assert ocb("rollout", "show", "-o", "name").stdout == f"{FIRST}\n"
    for written, message in (("lap", "did you mean `lab`?"), ("lab/7", f"did you mean `{FIRST}`?")):
        result = ocb("rollout", "show", written)
        assert (result.exit_code, message in result.stderr) == (3, True), result.output


@pytest.mark.usefixtures("site")
def test_without_any_rollout_it_is_not_found(ocb: Ocb, ask: Ask) -> None:
    assert ask("rollout", "list") == []
    for verb in ("show", "wait", "cancel", "resume", "retry"):
        assert ocb("rollout", verb).exit_code == 3, verb
        assert ocb("rollout", verb, LAB).exit_code == 3, verb


def test_status_tells_rollouts_under_way_and_those_that_failed(started: Session, ask: Ask, ocb: Ocb) -> None:
    under_way = ask("status")["rollouts"]
    assert ([row["rollout"] for row in under_way["under_way"]], under_way["failed"]) == ([FIRST], [])
    assert "ROLLOUTS UNDER WAY" in ocb("status").stdout
    Driver(started, failing("os@ntp01")).run()
    failed = ask("status")["rollouts"]
    assert ([row["rollout"] for row in failed["failed"]], failed["under_way"]) == ([FIRST], [])
    table = ocb("status").stdout
    assert table.index("IN ERROR") < table.index("ROLLOUTS THAT FAILED") < table.index("NODEROLES")


def test_a_rollout_that_was_cancelled_is_none_of_those_that_failed(started: Session, ask: Ask, ocb: Ocb) -> None:
    ask("rollout", "cancel", "--reason", "not today")
    Driver(started).run()
    seen = ask("status")["rollouts"]
    assert (seen["failed"], [row["rollout"] for row in seen["cancelled"]]) == ([], [FIRST])
    table = ocb("status").stdout
    assert "ROLLOUTS THAT FAILED" not in table
    assert "not today" in table.split("ROLLOUTS CANCELLED")[1].split("DEPLOYMENTS")[0]


@pytest.mark.usefixtures("started")
@pytest.mark.parametrize("form", ["json", "yaml", "name", "table"])
@pytest.mark.parametrize(
    ("line", "exit_code"),
    [
        ("list", 0), ("show", 0), ("show --report", 0), ("wait --timeout 0", 5), ("cancel", 0), ("resume", 4), ("retry", 4),
        ("promote ntp-node --batch 1", 4), ("accept ntp-node --reason so", 4), ("start --default", 4),
        ("promote none --batch 1", 3),
    ],
)  # fmt: skip
def test_every_verb_answers_in_every_form(ocb: Ocb, line: str, exit_code: int, form: str) -> None:
    answer = ocb("rollout", *line.split(), "-o", form)
    assert answer.exit_code == exit_code, answer.output
    assert bool(answer.stdout) == (exit_code in (0, 5))
    assert "Traceback" not in answer.stderr
    if form == "json" and answer.stdout:
        json.loads(answer.stdout)


# -- steering --


def test_cancel_takes_back_what_has_not_begun(started: Session, ask: Ask, ocb: Ocb) -> None:
    driver = Driver(started, lambda _: None)
    driver.run(lambda rollout: any(each.state is NodeState.SENT for each in rollout.nodes.values()))
    assert State.TODO in states(started).values()
    result = ocb("rollout", "cancel", "--reason", "the power goes", "-o", "json")
    assert json.loads(result.stdout)["state"] == "cancelling"
    assert "the power goes" in result.stderr
    assert driver.run().head.state is RolloutState.CANCELLED
    assert set(states(started).values()) == {State.PROPOSED}
    again = ocb("rollout", "cancel")
    assert again.exit_code == 4
    assert f"see: nodepool-ocb rollout show {FIRST}" in again.stderr
    assert "the power goes" in ask("rollout", "show")["finish"]


def test_resume_goes_on_and_retry_sends_what_failed_again(started: Session, ask: Ask, ocb: Ocb) -> None:
    assert ocb("rollout", "resume").exit_code == 4
    assert ocb("rollout", "retry").exit_code == 4
    assert says(ask("rollout", "cancel", "--dry-run", exit_code=10)) == ["running", "cancelling"]
    ask("rollout", "cancel")
    Driver(started).run()
    assert says(ask("rollout", "resume", FIRST, "--dry-run", exit_code=10)) == ["cancelled", "running"]
    ask("rollout", "resume", FIRST)
    assert Driver(started, failing("work@compute21")).run().nodes["compute21.example.com"].state is NodeState.FAILURE
    assert ocb("rollout", "resume").exit_code == 4
    assert says(ask("rollout", "retry", "--attempt", "2", "--dry-run", exit_code=10)) == ["success", "running"]
    ask("rollout", "retry", "--attempt", "2")
    ended = Driver(started).run()
    assert {each.state for each in ended.nodes.values()} == {NodeState.SUCCESS}
    instead = f"see: nodepool-ocb rollout show {FIRST}; or begin another: nodepool-ocb rollout start"
    assert ocb("rollout", "retry").stderr == f"error: nothing failed in rollout {FIRST}; {instead}\n"


def test_promote_lets_a_group_that_pauses_go_on(site: Session, ask: Ask, ocb: Ocb, file: str) -> None:
    canary = "batches: [{nodes: 1, pause: true}]\n      selectors: [{node_tags: [monitoring]"
    Path(file).write_text(STRATEGY.replace("selectors: [{node_tags: [monitoring]", canary))
    ask("rollout", "start", file)
    driver = Driver(site)
    driver.run(lambda rollout: rollout.groups["monitoring-nodes"].state is GroupState.PAUSED)
    for words in (ocb("rollout", "list").stdout, ocb("status").stdout.split("ROLLOUTS UNDER WAY")[1]):
        assert "running, paused" in words
    pauses = "pauses after batch 1: 1 of 1 successful, 0 failed; it waits for a promotion"
    (listed,) = ask("rollout", "list")
    assert (listed["state"], listed["paused"]) == ("running", {"monitoring-nodes": pauses})
    assert f"group monitoring-nodes {pauses}" in ocb("rollout", "show").stdout
    shown = ask("rollout", "show")
    line = f"nodepool-ocb rollout promote monitoring-nodes {shown['rollout']} --batch 1"
    assert (shown["groups"][0]["batch"], shown["next"]) == ("1/2", [line])
    assert f"to go on:\n  {line}\n" in ocb("rollout", "show").stdout
    assert ocb("rollout", "promote", "monitoring-nodes").exit_code == 2, (
        "without the batch nobody knows which pause is meant"
    )
    unknown = ocb("rollout", "promote", "monitoring-node", "--batch", "1")
    assert (unknown.exit_code, "did you mean `monitoring-nodes`?" in unknown.stderr) == (3, True)
    assert ocb("rollout", "promote", "ntp-node", "--batch", "1").exit_code == 4
    dry = ask("rollout", "promote", "monitoring-nodes", "--batch", "1", "--dry-run", exit_code=10)
    assert "promoted by" in dry["explanations"][0]
    assert "promoted by" in ocb("rollout", "promote", "monitoring-nodes", "--batch", "1").stderr
    assert "nothing to do" in ocb(*line.split()[1:]).stderr
    assert driver.run().head.state is RolloutState.SUCCESS


def test_accept_lets_those_that_depend_on_a_failed_group_go_on(started: Session, ask: Ask, ocb: Ocb) -> None:
    Driver(started, failing("os@control2")).run()
    assert ocb("rollout", "accept", "control-nodes").exit_code == 2
    never = ocb("rollout", "accept", "compute-nodes-1", "--reason", "because")
    assert (never.exit_code, "was never sent" in never.stderr) == (4, True)
    accept = ("rollout", "accept", "control-nodes", "--reason", "two are enough")
    assert says(ask(*accept, "--dry-run", exit_code=10)) == ["failed", "running"]
    message = ask(*accept)
    assert message["state"] == "running"
    ended = Driver(started).run()
    assert ended.head.state is RolloutState.SUCCESS
    words = ocb("rollout", "show", "--report").stdout
    assert "<FAILED, due to prepare failure, accepted: two are enough>" in words
    assert "Finish (success with some nodes/groups failed)" in words


def test_a_second_resume_of_a_rollout_is_refused(started: Session, ask: Ask, ocb: Ocb) -> None:
    lost = failing("os@control2")
    Driver(started, lost).run()
    ask("rollout", "retry", "--attempt", "1")
    ended = Driver(started, lost).run()
    for line, what in (
        ("retry", "the rollout"),
        ("resume", "the rollout"),
        ("accept control-nodes --reason because", "group control-nodes"),
        ("promote control-nodes --batch 1", "group control-nodes"),
    ):
        for seen in ("", "--attempt 1"):
            late = ocb("rollout", *line.split(), *seen.split())
            message = f"{what} is at attempt 2 by now, not 1: it was continued meanwhile"
            assert (late.exit_code, message in late.stderr) == (4, True), (line, late.output)
    assert Driver(started).read() == ended
    assert ask("rollout", "retry", "--attempt", "2")["state"] == "running"


def test_an_older_rollout_is_left_as_it_is(started: Session, ask: Ask, ocb: Ocb) -> None:
    Driver(started, failing("work@compute21", "os@control1")).run()
    second = ask("rollout", "start", "--default")["rollout"]
    for asked in (["retry", FIRST], ["resume", FIRST]):
        result = ocb("rollout", *asked)
        assert (result.exit_code, "not the newest" in result.stderr) == (4, True), result.output
    assert [row["rollout"] for row in ask("rollout", "list")] == [second, FIRST]


def test_daemons_are_not_warned_of_where_one_runs(site: Session, ocb: Ocb, file: str) -> None:
    site.ensure(paths.daemons("annealer"))
    annealer = Daemon(host="h", pid=1, version="1", started=time.time(), jigs=("noop",))
    site.commit([Create(paths.daemon("annealer", "a"), annealer, ephemeral=True)])
    assert "no annealer" not in ocb("rollout", "start", file).stderr


# -- explaining --


def test_explain_tells_the_turn_that_a_noderole_waits_for(started: Session, ask: Ask, ocb: Ocb) -> None:
    driver = Driver(started, lambda _: None)
    driver.run(lambda rollout: any(each.state is NodeState.SENT for each in rollout.nodes.values()))
    reason = ask("noderole", "explain", "os@compute11.example.com")["reasons"][0]
    assert (reason["code"], reason["subject"]) == ("ROLLOUT_WAITING", f"{FIRST} compute-nodes-1")
    assert reason["text"] == (
        f"rollout {FIRST}: group compute-nodes-1 waits for group control-nodes, which is not started"
    )
    assert (
        f"-> wait, or see: nodepool-ocb rollout show {FIRST}"
        in ocb("noderole", "explain", "os@compute11.example.com").stdout
    )
    jumping = ask("noderole", "explain", "os@compute11.example.com")["reasons"][1]
    assert jumping["code"] == "PROPOSED"
    assert jumping["advice"].startswith("leave it to the rollout; or, out of its turn: nodepool-ocb noderole commit")
    cancelled = ocb("noderole", "cancel", "os@compute11.example.com").stderr
    assert cancelled == (
        "error: os@compute11.example.com is PROPOSED; only running noderoles can be cancelled;"
        " it was not committed, and does not run before: nodepool-ocb noderole explain os@compute11.example.com\n"
    )
    turn = ask("noderole", "explain", "os@ntp01.example.com")["reasons"][0]["text"]
    assert turn.endswith("group ntp-node waits for its turn: one group is at work at once, now monitoring-nodes")
    phase = ask("noderole", "explain", "work@monitor1.example.com")["reasons"][0]["text"]
    assert phase.endswith("the node is at work for phase prepare of group monitoring-nodes")
    committed = ask("noderole", "explain", "os@monitor1.example.com")["reasons"]
    assert "ROLLOUT_WAITING" not in {reason["code"] for reason in committed}


def test_explain_tells_that_a_rollout_left_a_noderole_out(started: Session, ask: Ask) -> None:
    Driver(started, failing("os@ntp01")).run()
    reason = ask("noderole", "explain", "os@control1.example.com")["reasons"][0]
    assert reason["code"] == "ROLLOUT_LEFT_OUT"
    assert reason["text"].endswith("group control-nodes failed: it depends on group ntp-node, which failed")
    lost = ask("noderole", "explain", "work@ntp01.example.com")["reasons"][0]
    assert (lost["code"], "the node failed in group ntp-node" in lost["text"]) == ("ROLLOUT_LEFT_OUT", True)


def test_explain_is_silent_of_rollouts_that_are_done_with_a_node(started: Session, ask: Ask) -> None:
    Driver(started).run()
    znode = started.get(paths.noderole("work", "ntp01.example.com"))
    assert znode is not None
    record = replace(codec.decode(NodeRole, znode), state=State.PROPOSED)
    started.commit([Set(znode.path, record, znode.version)])
    codes = {reason["code"] for reason in ask("noderole", "explain", "work@ntp01.example.com")["reasons"]}
    assert "PROPOSED" in codes
    assert not codes & {"ROLLOUT_WAITING", "ROLLOUT_LEFT_OUT"}


def test_a_deployment_that_is_deleted_takes_its_finished_rollouts_with_it(
    ask: Callable[..., Json], zk_session: Session
) -> None:
    ask("deployment", "create", "gone")
    path = f"{paths.rollouts('gone')}/0000000000"
    zk_session.ensure(paths.ROLLOUTS)
    zk_session.commit([Create(paths.rollouts("gone"), RolloutPointer())])
    zk_session.ensure(f"{path}/groups/one", f"{path}/nodes/0000")
    ask("deployment", "delete", "gone", "--yes")
    assert zk_session.get(paths.rollouts("gone")) is None
