"""What people do to noderoles in general leaves those of tasks alone: only a run moves them."""

from __future__ import annotations

from nodepool_ocb.model import paths
from nodepool_ocb.model.records import State
from nodepool_ocb.store import tree
from nodepool_ocb.store.client.session import Session
from tests.annealer.tasks.task_staging import LAB, begin, build, me
from tests.fixtures.commands import Ocb

NODES = {"n1": ["a"]}
LIST = "- {id: first, type: shell, role: [a], parameters: {cmd: x}}"
FIRST = "lab.first@n1.example.com"


def state(session: Session) -> State:
    vertex = tree.load(session).vertex(FIRST)
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
        assert (answer.exit_code, "belongs to run 0000000000 of tasks" in answer.output) == (4, True), (
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
    assert (waits.exit_code, "run 0000000000 of tasks has not committed it" in waits.output) == (0, True), waits.output
    assert "noderole commit" not in waits.output, "that would be refused"
    skipped = ocb("noderole", "explain", "lab.never@n1.example.com")
    assert skipped.output == "lab.never@n1.example.com is SKIPPED by run lab/0000000000 of tasks: its type is skipped\n"


def test_status_and_locks_show_runs_of_tasks(zk_session: Session, ocb: Ocb) -> None:
    build(zk_session, NODES)
    begin(zk_session, LIST, NODES)
    shown = ocb("status").output
    assert "RUNS OF TASKS UNDER WAY" in shown
    assert "lab/0000000000" in shown
    zk_session.create_next(f"{paths.task_run_lock(LAB, '0000000000')}/{'0' * 32}__lock__", me(), ephemeral=True)
    assert "tasks run" in ocb("lock", "list").output
