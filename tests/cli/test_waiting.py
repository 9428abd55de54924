"""Waiting ends at once when the answer is known; explaining finds the one cause."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from msgspec.structs import replace

from nodepool_ocb.cli.main import cli
from nodepool_ocb.cli.noderoles.waiting import wait
from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.engine.world import World
from nodepool_ocb.errors import NotFound
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import (
    Claim,
    Create,
    Daemon,
    DeploymentRole,
    Json,
    Run,
    Set,
    State,
)
from nodepool_ocb.operations.noderoles import awaiting
from nodepool_ocb.operations.operation import AwaitedNoderoles
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.world.load import load_world
from tests.cli.background_command import COMMAND, Later
from tests.fixtures.commands import Ocb

Ask = Callable[..., Json]
N1 = "n1.example.com"
BASE = f"base@{N1}"
RUN = Run(annealer="a", started=1.0, ended=2.0, outcome="succeeded", generation=1, epoch=1)


@pytest.fixture
def committed(world: Session, ask: Ask) -> Session:
    ask("deployment", "commit", "lab")
    return world


@pytest.mark.parametrize(
    ("state", "exit_code", "outcome"),
    [(State.ACTIVE, 0, "active"), (State.ERROR, 6, "error"), (State.PROPOSED, 6, "error")],
)
@pytest.mark.usefixtures("committed")
def test_wait_ends_with_the_state(
    ocb: Ocb, becomes: Callable[..., None], state: State, exit_code: int, outcome: str
) -> None:
    waiting = Later(lambda: ocb("noderole", "wait", BASE, "--timeout", "20", "-o", "json"))
    becomes(BASE, state, reason="because")
    answer = waiting.result()
    assert (answer.exit_code, json.loads(answer.stdout)["outcome"]) == (exit_code, outcome)


@pytest.mark.usefixtures("committed")
def test_wait_ends_when_it_is_deleted(ocb: Ocb, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = threading.Event()
    real = awaiting.names

    def names(world: World, awaited: AwaitedNoderoles) -> Iterator[str]:
        seen.set()
        return real(world, awaited)

    monkeypatch.setattr(awaiting, "names", names)
    with ThreadPoolExecutor() as beside:
        waiting = beside.submit(_wait_in_a_command, AwaitedNoderoles(noderoles=(BASE,)))
        assert seen.wait(10)
        assert ocb("node", "delete", N1, "--yes").exit_code == 0
        with pytest.raises(NotFound, match="was deleted"):
            waiting.result(10)


def test_watch_gives_one_object_a_line(
    world: Session, becomes: Callable[..., None], zk_settings: ZooKeeperSettings
) -> None:
    assert world.connected
    command = [*COMMAND, "--zookeeper", zk_settings.hosts, "noderole", "list", "--watch"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as watching:
        assert watching.stdout is not None
        first = [json.loads(watching.stdout.readline())["state"] for _ in range(3)]
        becomes(BASE, State.ACTIVE)
        then = json.loads(watching.stdout.readline())
        watching.send_signal(signal.SIGINT)
    assert first == ["PROPOSED"] * 3
    assert (then["noderole"], then["state"]) == (BASE, "ACTIVE")
    assert watching.returncode == 130


def _wait_in_a_command(awaited: AwaitedNoderoles) -> None:
    with cli.make_context("nodepool-ocb", ["status"], auto_envvar_prefix="NODEPOOL_OCB"):
        wait(awaited, 20.0)


@pytest.mark.usefixtures("committed")
def test_wait_ends_when_a_parent_fails(ocb: Ocb, becomes: Callable[..., None]) -> None:
    waiting = Later(lambda: ocb("deployment", "wait", "lab", "--timeout", "20"))
    becomes(BASE, State.ERROR, reason="disk full")
    answer = waiting.result()
    assert answer.exit_code == 6
    assert f"{BASE} is in ERROR: disk full" in answer.stderr


@pytest.mark.usefixtures("committed")
def test_a_wait_that_fails_names_the_next_command_and_settled_waits_for_the_rest(
    ocb: Ocb, becomes: Callable[..., None]
) -> None:
    becomes(BASE, State.ACTIVE)
    becomes(f"middle@{N1}", State.ERROR, reason="disk full")
    command = f"nodepool-ocb noderole log middle@{N1}; mend the cause, then: nodepool-ocb noderole retry middle@{N1}"
    answer = ocb("deployment", "wait", "lab", "--timeout", "20")
    assert (answer.exit_code, command in answer.stderr) == (6, True)
    becomes(BASE, State.TRANSITION)
    early = ocb("noderole", "wait", BASE, f"middle@{N1}", "--timeout", "20")
    assert "1 noderole may still become ACTIVE; --settled waits for all of them" in early.stderr
    waiting = Later(lambda: ocb("noderole", "wait", BASE, f"middle@{N1}", "--settled", "--timeout", "20"))
    becomes(BASE, State.ACTIVE)
    settled = waiting.result()
    assert (settled.exit_code, "1 of 2 ACTIVE, 1 ERROR" in settled.stdout) == (6, True)
    assert "--settled goes with --wait" in ocb("noderole", "refresh", BASE, "--settled").stderr


@pytest.mark.usefixtures("committed")
def test_wait_times_out(ask: Ask) -> None:
    document = ask("noderole", "wait", BASE, "--timeout", "0.2", exit_code=5)
    assert document["outcome"] == "timeout"
    assert document["noderoles"][0]["state"] == "TODO"


@pytest.mark.usefixtures("world")
def test_commit_and_wait_print_one_document(ask: Ask) -> None:
    document = ask("deployment", "commit", "lab", "--wait", "--timeout", "0.2", exit_code=5)
    assert len(document["changes"]) == 4
    assert len(document["noderoles"]) == 3


def test_where_a_role_refuses_its_deployment_a_wait_ends_and_its_noderoles_are_not_committed(
    committed: Session, ocb: Ocb
) -> None:
    waiting = Later(lambda: ocb("noderole", "wait", f"top@{N1}", "--timeout", "20"))
    refusal = DeploymentRole(refused={"on_deployment_create": "no server"})
    stored = load_world(committed).deployment_roles["lab", "base"]
    committed.commit([Set(paths.deployment_role("lab", "base"), refusal, stored.version)])
    why, way = "role base refuses deployment lab: no server", "nodepool-ocb deployment set lab base PATH=JSON"
    answers = [waiting.result(), ocb("node", "commit", N1, "--wait"), ocb("noderole", "commit", BASE, "--wait")]
    assert [answer.exit_code for answer in answers] == [6, 4, 4]
    assert all(why in answer.stderr and way in answer.stderr for answer in answers)


def test_explain_shows_the_failed_run(committed: Session, ask: Ask, ocb: Ocb, becomes: Callable[..., None]) -> None:
    becomes(BASE, State.ERROR, reason="exit code 3", run="r1")
    run = replace(RUN, outcome="failed", exit_code=3, tail="no space\n")
    committed.commit([Create(paths.run("base", N1, "r1"), run)])
    document = ask("noderole", "explain", f"top@{N1}")
    assert document["reasons"][0]["code"] == "PARENT_ERROR"
    assert document["reasons"][0]["subject"] == BASE
    assert document["failed_run"]["tail"] == "no space\n"
    words = ocb("noderole", "explain", f"top@{N1}").stdout
    assert f"1. PARENT_ERROR: {BASE}" in words
    assert "| no space" in words
    assert ocb("noderole", "log", BASE).stdout == "no space\n"


def test_log_prints_the_file_that_is_on_this_host(committed: Session, ask: Ask, tmp_path: Path) -> None:
    file = tmp_path / "whole.log"
    file.write_text("the whole\n")
    log = f"{socket.gethostname()}:{file}"
    run = replace(RUN, tail="the end", log=log)
    committed.commit([Create(paths.run("base", N1, "r1"), run)])
    document = ask("noderole", "log", BASE)
    assert (document["output"], document["log"]) == ("the whole\n", log)


def test_log_follows_the_file_until_the_run_ends(
    committed: Session, becomes: Callable[..., None], tmp_path: Path, zk_settings: ZooKeeperSettings
) -> None:
    (tmp_path / "nodepool-ocb.yaml").write_text(f"annealer: {{log_dir: {tmp_path}}}")
    file = tmp_path / N1 / "base-r1.log"
    file.parent.mkdir()
    file.write_text("begun\n")
    annealer = Daemon(host=socket.gethostname(), pid=1, version="1", started=1.0)
    claim = Claim(annealer="a", noderole=BASE, run="r1", epoch=1, since=1.0)
    committed.ensure(paths.daemons("annealer"))
    committed.commit([Create(paths.daemon("annealer", "a"), annealer), Create(paths.claim(N1), claim, ephemeral=True)])
    becomes(BASE, State.TRANSITION, run="r1")
    command = [*COMMAND, "--config", str(tmp_path), "--zookeeper", zk_settings.hosts, "noderole", "log", "-f", BASE]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as following:
        assert following.stdout is not None
        assert following.stdout.readline() == "begun\n"
        with file.open("a") as growing:
            growing.write("done\n")
        committed.commit([Create(paths.run("base", N1, "r1"), RUN)])
        becomes(BASE, State.ACTIVE, run="r1")
        assert following.stdout.read() == "done\n"
    assert following.returncode == 0
