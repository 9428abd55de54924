"""What people do to noderoles in general leaves those of tasks alone: only a run moves them."""

from __future__ import annotations

from nodepool_ocb.model import paths
from nodepool_ocb.model.records import State
from nodepool_ocb.store import tree
from nodepool_ocb.store.client.session import Session
from tests.annealer.tasks.task_staging import LAB, begin, build
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
