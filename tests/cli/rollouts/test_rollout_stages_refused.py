"""What keeps a rollout from sending tasks, and a run of tasks and a rollout from going on side by side; no annealer runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from nodepool_ocb.errors import Unavailable
from nodepool_ocb.model.records import Json
from nodepool_ocb.store import rollouts
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.tasks import runs
from tests.cli.rollouts.test_rollout_stages import LIST, STRATEGY
from tests.fixtures.commands import Ocb

Ask = Callable[..., Json]


@pytest.fixture
def file(zk_session: Session, tmp_path: Path, ocb: Ocb) -> Path:
    """A strategy for deployment lab, which has three nodes and the list."""
    assert zk_session.connected
    assert ocb("deployment", "create", "lab").exit_code == 0
    for number in (1, 2, 3):
        tags = ["--tag", "web", *(("--tag", "canary") if number == 1 else ())]
        answer = ocb(
            "node", "create", f"n{number}.example.com", "--deployment", "lab", "--address", f"192.0.2.{number}", *tags
        )
        assert answer.exit_code == 0, answer.output
    assert ocb("deployment", "commit", "lab").exit_code == 0
    (tmp_path / "tasks.yaml").write_text(LIST.format(place=tmp_path))
    assert ocb("tasks", "upload", str(tmp_path / "tasks.yaml"), "--deployment", "lab").exit_code == 0
    (tmp_path / "strategy.yaml").write_text(STRATEGY)
    return tmp_path / "strategy.yaml"


def start(file: Path, *more: str) -> tuple[str, ...]:
    return ("rollout", "start", str(file), "--deployment", "lab", *more)


def changed(file: Path, before: str, after: str) -> Path:
    assert before in STRATEGY
    file.write_text(STRATEGY.replace(before, after))
    return file


def test_a_stage_that_the_list_has_not_is_refused_with_the_one_that_is_meant(ocb: Ocb, file: Path) -> None:
    answer = ocb(*start(changed(file, "stages: [deploy]", "stages: [deplo]")))
    assert answer.exit_code == 3
    assert "phase deploy names stage deplo, which the task list does not have; did you mean `deploy`?" in answer.stderr
    assert ocb("rollout", "plan", str(file), "--deployment", "lab").exit_code == 3


def test_a_plan_says_which_tasks_no_phase_sends_and_begins_nothing(ocb: Ocb, ask: Ask, file: Path) -> None:
    for command, code in ((("rollout", "plan", str(file), "--deployment", "lab"), 0), (start(file, "--dry-run"), 10)):
        answer = ocb(*command)
        assert answer.exit_code == code, answer.output
        assert "1 task is before no stage that a phase names, and not run: report" in answer.stderr
    assert ask("tasks", "runs", "lab") == []


def test_limits_that_may_hold_back_a_node_for_which_another_waits_are_refused(ocb: Ocb, file: Path) -> None:
    assert ocb(*start(changed(file, "groups:", "max_in_flight: {group: 1}\ngroups:"), "--dry-run")).exit_code == 10
    one = STRATEGY.replace("  - {name: prepare, stages: [pre_deployment], timeout_seconds: 300}\n", "")
    file.write_text(one.replace("groups:", "max_in_flight: {group: 1}\ngroups:"))
    answer = ocb(*start(file, "--dry-run"))
    assert (answer.exit_code, "waits for" in answer.stderr) == (1, True), answer.output
    file.write_text(one)
    assert ocb(*start(file, "--dry-run")).exit_code == 10


def test_a_rollout_and_a_run_of_tasks_refuse_each_other(ocb: Ocb, file: Path) -> None:
    assert ocb("tasks", "run", "--deployment", "lab").exit_code == 0
    for more in ((str(file),), ("--default",)):
        answer = ocb("rollout", "start", "--deployment", "lab", *more)
        assert (answer.exit_code, "tasks run lab/0000000000 is under way, and no rollout begins" in answer.stderr) == (
            4,
            True,
        )


def test_while_a_rollout_sends_a_run_no_other_begins_and_nobody_stops_it_by_itself(
    ocb: Ocb, ask: Ask, file: Path, zk_session: Session
) -> None:
    assert ocb(*start(file)).exit_code == 0
    answer = ocb("tasks", "run", "--deployment", "lab")
    assert (answer.exit_code, "rollout lab/0000000000 is under way, and no run of tasks" in answer.stderr) == (4, True)
    answer = ocb("tasks", "stop", "lab")
    assert (answer.exit_code, "to end both: nodepool-ocb rollout cancel lab/0000000000" in answer.stderr) == (4, True)
    assert ask("tasks", "runs", "lab")[0]["rollout"] == "lab/0000000000"
    found = rollouts.read(zk_session, "lab", "0000000000")
    assert found is not None
    assert found[0].head.task_run == "0000000000"
    assert found[0].head.sends == {"prepare": ("lab.prep",), "deploy": ("lab.site", "lab.after")}


def test_a_run_whose_command_died_before_its_rollout_began_waits_and_can_be_stopped(
    ocb: Ocb, ask: Ask, file: Path, zk_session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dies(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(rollouts, "begin", dies)
    ocb(*start(file))
    (row,) = ask("tasks", "runs", "lab")
    assert (row["state"], row["rollout"]) == ("committing", None)
    assert runs.pointer(zk_session, "lab")[0].over is False
    assert ocb("tasks", "stop", "lab").exit_code == 0


def test_a_run_whose_rollout_cannot_begin_is_stopped(
    ocb: Ocb, file: Path, zk_session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(*_: object) -> None:
        raise Unavailable("just now")

    monkeypatch.setattr(rollouts, "begin", refuses)
    assert ocb(*start(file)).exit_code != 0
    found = runs.read(zk_session, "lab", "0000000000")
    assert found is not None
    assert found[0].head.stop == "asked"
