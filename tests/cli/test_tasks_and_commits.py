"""What people do to noderoles in general leaves those of tasks alone: only a run moves them."""

from __future__ import annotations

from pathlib import Path

from nodepool_ocb.model import paths
from nodepool_ocb.model.records import State
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.world.load import load_world
from tests.annealer.tasks.task_staging import LAB, begin, build, me
from tests.fixtures.commands import Ocb

NODES = {"n1": ["a"]}
LIST = "- {id: first, type: shell, role: [a], parameters: {cmd: x}}"
FIRST = "lab.first@n1.example.com"


def state(session: Session) -> State:
    vertex = load_world(session).vertex(FIRST)
    assert vertex is not None
    return vertex.record.state


def test_commits_and_retries_leave_tasks_alone(zk_session: Session, ocb: Ocb) -> None:
    build(zk_session, NODES)
    begin(zk_session, LIST, NODES)
    assert state(zk_session) is State.PROPOSED, "no annealer drives the run"
    for command in (("deployment", "commit", LAB), ("node", "commit", "n1.example.com")):
        ocb(*command)
        assert state(zk_session) is State.PROPOSED, command
    for verb in ("commit", "propose", "retry", "refresh", "redeploy"):
        more = ["--yes"] if verb == "redeploy" else []
        answer = ocb("noderole", verb, FIRST, *more)
        assert (answer.exit_code, "belongs to tasks run lab/0000000000" in answer.output) == (4, True), (
            verb,
            answer.output,
        )
    assert ocb("noderole", "retry", "--failed").exit_code == 0
    assert zk_session.get(paths.noderole("lab.first", "n1.example.com")) is not None


SOME = """
- {id: first, type: shell, role: [a], parameters: {cmd: x}}
- {id: never, type: skipped, role: [a]}
"""


def test_explain_says_what_a_task_waits_for_and_why_it_is_skipped(zk_session: Session, ocb: Ocb) -> None:
    build(zk_session, NODES)
    begin(zk_session, SOME, NODES)
    waits = ocb("noderole", "explain", FIRST)
    assert (waits.exit_code, "tasks run lab/0000000000 has not committed it" in waits.output) == (0, True), waits.output
    assert "noderole commit" not in waits.output, "that would be refused"
    skipped = ocb("noderole", "explain", "lab.never@n1.example.com")
    assert skipped.output == "lab.never@n1.example.com is SKIPPED by tasks run lab/0000000000: its type is skipped\n"


def test_status_and_locks_show_runs_of_tasks(zk_session: Session, ocb: Ocb) -> None:
    build(zk_session, NODES)
    begin(zk_session, LIST, NODES)
    shown = ocb("status").output
    assert "RUNS OF TASKS UNDER WAY" in shown
    assert "lab/0000000000" in shown
    zk_session.create_next(f"{paths.task_run_lock(LAB, '0000000000')}/{'0' * 32}__lock__", me(), ephemeral=True)
    assert "tasks run" in ocb("lock", "list").output


def test_without_settings_that_comes_first_of_what_is_wrong_with_conditions(
    zk_session: Session, ocb: Ocb, tmp_path: Path
) -> None:
    build(zk_session, NODES)
    assert ocb("node", "create", "n2.example.com", "--deployment", LAB, "--tag", "a").exit_code == 0
    (tmp_path / "tasks.yaml").write_text(
        "- {id: first, type: shell, role: [a], condition: 'settings:a.b == true', parameters: {cmd: x}}"
    )
    assert ocb("tasks", "upload", str(tmp_path / "tasks.yaml"), "--deployment", LAB).exit_code == 0
    answer = ocb("tasks", "plan", "--deployment", LAB)
    assert answer.exit_code == 1
    first, second = answer.stderr.splitlines()[:2]
    assert "deployment lab has no settings" in first, answer.stderr
    assert "tasks upload --deployment lab --settings FILE" in first
    assert "settings:a.b leads nowhere" in second
    (tmp_path / "settings.yaml").write_text("a: {}")
    assert ocb("tasks", "upload", "--deployment", LAB, "--settings", str(tmp_path / "settings.yaml")).exit_code == 0
    answer = ocb("tasks", "plan", "--deployment", LAB)
    assert (answer.exit_code, "has no settings" in answer.stderr) == (1, False)
