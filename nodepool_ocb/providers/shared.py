"""Questions that many threads ask at the same time: a call that has not begun yet answers all threads that wait for it.

Each thread gets the answer of a call that began after the thread asked. So no change before the question is missed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class _Question(Generic[T]):
    """A question that some threads ask at present."""

    def __init__(self) -> None:
        self.askers = 0
        self.calling = threading.Lock()  # one call at a time
        self.next: Future[T] | None = None  # the answer of the call that has not begun


class SharedQuestions(Generic[K, T]):
    """Questions by key, such as the name of a machine. A key takes no memory while no thread asks."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._questions: dict[K, _Question[T]] = {}

    def ask(self, key: K, call: Callable[[], T]) -> T:
        """The answer of a call that began after this. Raises its exception. All calls of a key must ask the same."""
        with self._guard:
            question = self._questions.setdefault(key, _Question())
            question.askers += 1
            first = question.next is None
            answer = question.next = question.next or Future()
        try:
            if first:
                self._call(question, answer, call)
            return answer.result()
        finally:
            with self._guard:
                question.askers -= 1
                if not question.askers:
                    del self._questions[key]

    def askers(self, key: K) -> int:
        """The number of threads that ask at present."""
        with self._guard:
            return self._questions[key].askers if key in self._questions else 0

    def _call(self, question: _Question[T], answer: Future[T], call: Callable[[], T]) -> None:
        with question.calling:
            with self._guard:
                question.next = None  # a thread that asks from now on waits for the next call
            try:
                answer.set_result(call())
            except BaseException as error:
                answer.set_exception(error)
