"""The first run of tasks of a deployment, its head and its pointer, as tests change them by hand."""

from __future__ import annotations

from msgspec.structs import replace

from nodepool_ocb.config import Settings
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Set
from nodepool_ocb.operations.operation import Call
from nodepool_ocb.operations.performer import Performer
from nodepool_ocb.operations.tasks.stopping import RunStopped, TasksStop
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.tasks import runs
from nodepool_ocb.store.tasks.runs import Versions
from nodepool_ocb.tasks.runs.records import LoadedTaskRun, TaskRun
from tests.annealer.tasks.task_staging import LAB
from tests.operations.performing import ListeningCaller

RUN = "0000000000"


def read(session: Session) -> tuple[LoadedTaskRun, Versions]:
    found = runs.read(session, LAB, RUN)
    assert found is not None
    return found


def write(session: Session, **more: object) -> None:
    """Change the head of the run."""
    running, versions = read(session)
    session.commit([Set(paths.task_run(LAB, RUN), replace(running.head, **more), versions.head)])


def point(session: Session, **more: object) -> None:
    """Change the pointer of the deployment."""
    known, version = runs.pointer(session, LAB)
    session.commit([Set(paths.task_runs(LAB), replace(known, **more), version)])


def ask_to_stop(session: Session, run: str, by: str = "ann", now: bool = False) -> RunStopped:
    """``tasks stop`` of ``DEPLOYMENT`` or ``DEPLOYMENT/ID``."""
    used = Performer(Call(login=by, host="desk"), ListeningCaller(), Settings)
    return used.perform(TasksStop(run=run, now=now), session).answer


def stop(session: Session, run: str, by: str, now: bool) -> TaskRun:
    """Stop a run; gives its head after that."""
    ask_to_stop(session, f"{LAB}/{run}", by, now)
    found = runs.read(session, LAB, run)
    assert found is not None
    return found[0].head
