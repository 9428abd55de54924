"""The numbers of runs of tasks have no gaps, also where two begin at once."""

from __future__ import annotations

from nodepool_ocb.model import paths
from nodepool_ocb.model.records import LockOwner, Set, TaskRunPointer
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.driven import pointers
from nodepool_ocb.store.locks import Lock, Locks
from nodepool_ocb.store.tasks import beginning, runs
from tests.annealer.tasks.task_staging import LAB, build, me


class Slow(Locks):
    """Somebody writes the pointer while the first lock is taken."""

    late = True

    def take(self, path: str, owner: LockOwner) -> Lock | None:  # type: ignore[override]
        lock = super().take(path, owner)
        if self.late:
            self.late = False
            known, version = runs.pointer(self._session, LAB)
            self._session.commit([Set(paths.task_runs(LAB), known, version)])
        return lock


def test_an_id_that_was_taken_for_a_run_that_could_not_begin_is_given_again(zk_session: Session) -> None:
    build(zk_session, {"n1": ["a"]})
    pointers.opened(zk_session, paths.task_runs(LAB), TaskRunPointer)
    identity, lock, _ = beginning._reserve(zk_session, Slow(zk_session), LAB, me())
    assert identity == "0000000000"
    assert zk_session.children(paths.task_runs(LAB)) == [identity]
    Locks(zk_session).release(lock)
