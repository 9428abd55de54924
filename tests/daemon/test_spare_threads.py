"""Threads that stay after their work: each work begins at once, the names are those of the works, and idle threads go."""

from __future__ import annotations

import threading
from functools import partial
from queue import SimpleQueue

import pytest

from nodepool_ocb import threads
from nodepool_ocb.testing.processes import await_that
from nodepool_ocb.threads import SpareThreads

PATIENCE_SECONDS = 30.0


def test_a_work_gets_the_thread_of_the_work_before_it_and_its_own_name() -> None:
    used, seen = SpareThreads(), SimpleQueue[tuple[int, str]]()
    for name in ("first", "second"):
        used.begin(name, lambda: seen.put((threading.get_ident(), threading.current_thread().name)))
        await_that(lambda: used.spare == 1, PATIENCE_SECONDS, "the work has ended")
    first, second = seen.get(), seen.get()
    assert first[0] == second[0]
    assert (first[1], second[1]) == ("first", "second")


def test_works_that_block_do_not_wait_for_each_other() -> None:
    used, begun = SpareThreads(), threading.Barrier(6)
    for round in range(2):  # with new threads, then with those that were left
        for number in range(5):
            used.begin(f"{round}/{number}", partial(begun.wait, PATIENCE_SECONDS))
        begun.wait(PATIENCE_SECONDS)  # raises BrokenBarrierError if not all are at work
        await_that(lambda: used.spare == 5, PATIENCE_SECONDS, "the works have ended")
        begun.reset()


def test_a_thread_without_work_ends_and_the_next_work_begins_nevertheless(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "SPARE_SECONDS", 0.01)
    used, done = SpareThreads(), SimpleQueue[int]()
    for number in range(200):  # some begin while a thread leaves
        used.begin("work", partial(done.put, number))
    assert sorted(done.get(timeout=PATIENCE_SECONDS) for _ in range(200)) == [*range(200)]
    await_that(lambda: used.spare == 0, PATIENCE_SECONDS, "the threads have ended")
    used.begin("work", partial(done.put, 200))
    assert done.get(timeout=PATIENCE_SECONDS) == 200
