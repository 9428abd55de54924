"""The verbs of a rollout beside a real annealer that drives it; jig test acts in place of machines."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Json, Set, State
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.world.load import load_world
from nodepool_ocb.testing.processes import DaemonProcess
from tests.cli.rollouts.driving import build
from tests.fixtures.commands import Ocb

Ask = Callable[..., Json]
SETTINGS = {"annealer": {"probe_seconds": 600.0}}  # there are no machines to look at


@pytest.fixture
def annealer(zk_session: Session, zk_settings: ZooKeeperSettings, tmp_path: Path) -> Iterator[DaemonProcess]:
    assert zk_session.connected
    with DaemonProcess(zk_settings, tmp_path / "annealer", SETTINGS) as daemon:
        yield daemon


def test_start_and_wait_with_an_annealer_and_retry_what_failed(
    annealer: DaemonProcess, zk_session: Session, ask: Ask, ocb: Ocb, file: str
) -> None:
    build(zk_session, {"work@compute21": {"fail": "no disk"}, "work@compute22": {"fail": "no disk"}})
    answer = ocb("rollout", "start", file, "--wait", "--timeout", "60")
    assert answer.exit_code == 0, answer.output
    assert "Finish (success with some nodes/groups failed)\n\nfailure (2):\n" in answer.stdout
    assert "compute21.example.com  work@compute21.example.com: no disk" in answer.stdout
    assert "no annealer is running" not in answer.stderr
    logged = f"rollout {ask('rollout', 'show')['rollout']}: "
    for line in ("| deploy compute-nodes-2     <FAILED>", "Finish (success with some nodes/groups failed)"):
        assert f"{logged}{line}" in annealer.said, "the driver logs the report"
    assert f"{logged}failure: compute21.example.com: work@compute21.example.com: no disk" in annealer.said
    zk_session.commit([Set(paths.user("work", "compute21.example.com"), {}, 0)])
    ask("rollout", "retry")
    answer = ocb("rollout", "wait", "--timeout", "60")
    assert answer.exit_code == 0
    assert "failure (1):\n  compute22.example.com" in answer.stdout
    assert "| deploy compute-nodes-2     <SUCCESS>" in answer.stdout  # one of two is half of them


def test_cancel_ends_what_runs(
    annealer: DaemonProcess, zk_session: Session, ask: Ask, ocb: Ocb, file: str, until: Callable[..., None]
) -> None:
    build(zk_session, {"os@monitor1": {"hang": True}})
    ask("rollout", "start", file)
    hanging = "os@monitor1.example.com"
    until(lambda: states(zk_session)[hanging] is State.TRANSITION)
    (held,) = [each for each in ask("lock", "list") if each["kind"] == "rollout"]
    assert held["pid"] == annealer.pid
    assert ask("rollout", "show")["driver"]["daemon"] == held["owner"]
    assert ocb("rollout", "cancel", "--reason", "enough").exit_code == 0
    answer = ocb("rollout", "wait", "--timeout", "30", "-o", "json")
    document = json.loads(answer.stdout)
    assert (answer.exit_code, document["outcome"]) == (6, "cancelled")
    assert states(zk_session)[hanging] is State.ERROR
    until(lambda: not [each for each in ask("lock", "list") if each["kind"] == "rollout"])


def states(session: Session) -> dict[str, State]:
    return {vertex.name: vertex.record.state for vertex in load_world(session).vertices()}
