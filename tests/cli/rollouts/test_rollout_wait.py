"""``rollout wait`` and ``rollout show --watch``: over at once when the end is known, with the seed's report."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Json
from nodepool_ocb.rollout.records import GroupState
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.subtree import removal
from tests.cli.background_command import COMMAND, Later
from tests.cli.rollouts.driving import LAB, STRATEGY, Driver, Ends, all_well, failing
from tests.fixtures.commands import Ocb

Ask = Callable[..., Json]
ID = "0000000000"

#: The seed's three runs ("Example Processing"), with the groups in the order of our document.
SUCCESS = """\
Start
|
| prepare monitoring-nodes   <SUCCESS>
| deploy monitoring-nodes    <SUCCESS>
V
| prepare ntp-node           <SUCCESS>
| deploy ntp-node            <SUCCESS>
V
| prepare control-nodes      <SUCCESS>
| deploy control-nodes       <SUCCESS>
V
| prepare compute-nodes-1    <SUCCESS>
| deploy compute-nodes-1     <SUCCESS>
V
| prepare compute-nodes-2    <SUCCESS>
| deploy compute-nodes-2     <SUCCESS>
|
Finish (success)
"""
NTP_FAILS = """\
Start
|
| prepare monitoring-nodes   <SUCCESS>
| deploy monitoring-nodes    <SUCCESS>
V
| prepare ntp-node           <FAILED>
| deploy ntp-node            <FAILED, due to prepare failure>
V
| prepare control-nodes      <FAILED, due to dependency>
| deploy control-nodes       <FAILED, due to dependency>
V
| prepare compute-nodes-1    <FAILED, due to dependency>
| deploy compute-nodes-1     <FAILED, due to dependency>
V
| prepare compute-nodes-2    <FAILED, due to dependency>
| deploy compute-nodes-2     <FAILED, due to dependency>
|
Finish (failed due to critical group failed)

failure (1):
  ntp01.example.com  os@ntp01.example.com: it broke
not started (8):
  compute11.example.com
  compute12.example.com
  compute13.example.com
  compute21.example.com
  compute22.example.com
  control1.example.com
  control2.example.com
  control3.example.com
success (3):
  monitor1.example.com
  monitor2.example.com
  monitor3.example.com
"""
COMPUTE_FAILS = SUCCESS.replace(
    "| deploy compute-nodes-2     <SUCCESS>", "| deploy compute-nodes-2     <FAILED>"
).replace("Finish (success)", "Finish (success with some nodes/groups failed)")
KEY = "lab/0000000000"


# -- wait --


@pytest.mark.parametrize(
    ("ends", "exit_code", "report"),
    [
        (all_well, 0, SUCCESS),
        (failing("os@ntp01"), 6, NTP_FAILS),
        (failing("work@compute21", "work@compute22"), 0, COMPUTE_FAILS),
    ],
    ids=["all well", "ntp-node fails", "compute-nodes-2 fails"],
)
def test_wait_ends_with_the_report_of_the_seed(
    started: Session, ocb: Ocb, ends: Ends, exit_code: int, report: str
) -> None:
    waiting = Later(lambda: ocb("rollout", "wait", "--timeout", "30"))
    Driver(started, ends).run()
    answer = waiting.result()
    assert answer.exit_code == exit_code, answer.output
    assert answer.stdout.startswith(report)
    assert sum(line.startswith("  ") for line in answer.stdout.splitlines()) == 12  # every node
    assert "no annealer is running" in answer.stderr


def test_start_and_wait_print_one_document(site: Session, ocb: Ocb, file: str, until: Callable[..., None]) -> None:
    waiting = Later(lambda: ocb("rollout", "start", file, "--wait", "--timeout", "30", "-o", "json"))
    until(lambda: Driver.known(site))
    Driver(site, failing("os@ntp01")).run()
    answer = waiting.result()
    document = json.loads(answer.stdout)
    assert (answer.exit_code, document["outcome"], document["state"]) == (6, "failed", "failed")
    assert (len(document["nodes"]["not started"]), document["report"].startswith("Start\n|\n")) == (8, True)


@pytest.mark.usefixtures("started")
def test_wait_times_out_with_what_there_is(ask: Ask, ocb: Ocb) -> None:
    document = ask("rollout", "wait", "--timeout", "0.2", exit_code=5)
    assert (document["outcome"], len(document["nodes"]["not started"])) == ("timeout", 12)
    assert document["finish"].startswith("Not finished (running")
    assert ocb("rollout", "wait", "--timeout", "0.2", "-o", "name").stdout == f"{LAB}/{ID}\n"


def test_every_end_that_is_not_well_says_what_to_do_next(started: Session, ocb: Ocb) -> None:
    open_ = ocb("rollout", "wait", "--timeout", "0").stderr
    assert open_.endswith(f"goes on beyond the time-out; to wait on: nodepool-ocb rollout wait {KEY}\n")
    assert "no annealer is running" in ocb("rollout", "show").stderr
    Driver(started, failing("os@control2")).run()
    failed = ocb("rollout", "wait").stderr
    assert f"mend the cause, then: nodepool-ocb rollout retry {KEY}\n" in failed
    ocb("rollout", "accept", "control-nodes", "--reason", "two are enough")
    assert "group control-nodes: failed, accepted: two are enough\n" in ocb("rollout", "wait", "--timeout", "0").stderr
    ocb("rollout", "cancel", "--reason", "the power goes")
    Driver(started).run()
    cancelled = ocb("rollout", "wait").stderr.splitlines()[-1]
    assert cancelled.startswith(f"error: rollout {KEY}: cancelled by ")
    assert cancelled.endswith(f"the power goes; to go on: nodepool-ocb rollout resume {KEY} --attempt 2")


def test_wait_ends_when_the_rollout_is_gone(started: Session, ocb: Ocb) -> None:
    waiting = Later(lambda: ocb("rollout", "wait", "--timeout", "30"))
    started.commit(removal(started, paths.rollout(LAB, ID)))
    answer = waiting.result()
    assert (answer.exit_code, answer.stdout) == (3, ""), answer.output


def test_wait_ends_when_it_is_cancelled(started: Session, ocb: Ocb) -> None:
    waiting = Later(lambda: ocb("rollout", "wait", "--timeout", "30"))
    assert ocb("rollout", "cancel", "--reason", "enough").exit_code == 0
    Driver(started).run()
    answer = waiting.result()
    assert answer.exit_code == 6
    assert "enough" in answer.stderr
    assert "not started (12):" in answer.stdout


def test_wait_ends_where_only_a_person_lets_it_go_on(site: Session, ask: Ask, ocb: Ocb, file: str) -> None:
    canary = "batches: [{nodes: 1, pause: true}]\n      selectors: [{node_tags: [monitoring]"
    Path(file).write_text(STRATEGY.replace("selectors: [{node_tags: [monitoring]", canary))
    ask("rollout", "start", file)
    waiting = Later(lambda: ocb("rollout", "wait", "--timeout", "30"))
    Driver(site).run(lambda rollout: rollout.groups["monitoring-nodes"].state is GroupState.PAUSED)
    answer = waiting.result()
    assert answer.exit_code == 6
    assert answer.stderr.endswith(
        f"error: rollout {LAB}/{ID}: group monitoring-nodes pauses after batch 1: 1 of 1 successful, 0 failed;"
        f" it waits for a promotion: nodepool-ocb rollout promote monitoring-nodes {KEY} --batch 1\n"
    )


def test_nodes_in_no_group_are_named_and_are_no_failure(site: Session, ocb: Ocb, tmp_path: Path) -> None:
    some = tmp_path / "some.yaml"
    some.write_text("groups: [{name: a, critical: true, depends_on: [], selectors: [{node_names: [ntp01]}]}]")
    assert "11 in no group" in ocb("rollout", "start", str(some)).stderr
    Driver(site).run()
    words = ocb("rollout", "wait").stdout
    assert "Finish (success)\n\nnot started (11):\n" in words


def test_wait_fails_fast_when_it_is_told_to(started: Session, ocb: Ocb) -> None:
    driver = Driver(started, failing("os@ntp01"))
    assert not driver.run(lambda rollout: rollout.groups["ntp-node"].state is GroupState.FAILED).over
    answer = ocb("rollout", "wait", "--fail-fast", "--timeout", "30")
    assert answer.exit_code == 6
    assert "critical group ntp-node failed: prepare failed" in answer.stderr
    assert "Not finished (running" in answer.stdout


# -- watch --


def test_watch_gives_one_object_a_line_until_it_is_over(started: Session, zk_settings: ZooKeeperSettings) -> None:
    command = [*COMMAND, "--zookeeper", zk_settings.hosts, "rollout", "show", "--watch"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as watching:
        assert watching.stdout is not None
        first = [json.loads(watching.stdout.readline()) for _ in range(12 + 5 + 1)]
        Driver(started, failing("os@ntp01")).run()
        rest = [json.loads(line) for line in watching.stdout]
    assert watching.returncode == 0
    assert [each["kind"] for each in first] == ["node"] * 12 + ["group"] * 5 + ["rollout"]
    assert (rest[-1]["kind"], rest[-1]["state"]) == ("rollout", "failed")
    ended = {(each["kind"], each.get("node") or each.get("group")): each["state"] for each in [*first, *rest]}
    assert ended["node", "ntp01.example.com"] == "failure"
    assert ended["group", "compute-nodes-1"] == "failed"


def test_watch_ends_at_an_interrupt(started: Session, zk_settings: ZooKeeperSettings) -> None:
    assert started.connected
    command = [*COMMAND, "--zookeeper", zk_settings.hosts, "rollout", "show", "--watch"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as watching:
        assert watching.stdout is not None
        watching.stdout.readline()
        watching.send_signal(signal.SIGINT)
    assert watching.returncode == 130


def test_watch_draws_on_a_terminal_and_leaves_the_end_there(started: Session, zk_settings: ZooKeeperSettings) -> None:
    command = [*COMMAND, "--zookeeper", zk_settings.hosts, "rollout", "show", "--watch"]
    ours, theirs = pty.openpty()
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "150"}
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment) as watching:
        os.close(theirs)
        drawn = b""
        while b"0 of 12 nodes done" not in drawn:
            drawn += os.read(ours, 4096)
        Driver(started, failing("os@ntp01")).run()
        while chunk := _read(ours):
            drawn += chunk
    os.close(ours)
    assert watching.returncode == 0
    words = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", drawn.decode())
    end = words[words.rindex("GROUP") :]
    assert "os@ntp01.example.com: it broke" in end


def test_a_picture_has_one_line_for_each_group_however_narrow_the_terminal(
    started: Session, zk_settings: ZooKeeperSettings
) -> None:
    assert started.connected
    command = [*COMMAND, "--zookeeper", zk_settings.hosts, "rollout", "show", "--watch"]
    ours, theirs = pty.openpty()
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "80"}
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment) as watching:
        os.close(theirs)
        drawn = b""
        while drawn.count(b"not started") < 6 or b"compute-nodes-2" not in drawn:
            drawn += os.read(ours, 4096)
        watching.send_signal(signal.SIGINT)
        while _read(ours):
            pass
    os.close(ours)
    lines = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", drawn.decode()).splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith("GROUP"))
    groups = lines[first + 1 : first + 6]
    assert all(re.match(r"[a-z]+-nodes?(-\d)? +(yes|no) +not started", line) for line in groups), groups
    assert max(map(len, lines)) <= 80


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 4096)
    except OSError:  # its other side is closed
        return b""
