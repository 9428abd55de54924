"""Which test fails on account of a mutant.

A change within a function is put into the function itself, in a fork of a process that has collected all tests. For any
other change the module is imported anew, changed, in a fork that has imported nothing of the product yet. A change of a
function that runs while its module is imported is judged so, too. Processes that such a fork starts import the changed module.
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import CodeType, FunctionType
from typing import Final, Literal, TypeAlias

import msgspec
import pytest
from hypothesis import Phase, settings

from mutation import forks
from mutation.changed import change
from mutation.imported import runs_at_import
from mutation.mutant import Mutant
from mutation.places import is_served, judges_declarations, may_judge
from mutation.tests import First, Reach, Room, quick, ran

Fate: TypeAlias = Literal["killed", "time-out", "survived", "unreached"]
LEAST_CPU_SECONDS: Final = 10
QUICK_SECONDS: Final = 0.3  # of a test that is asked before others
SLOWER: Final = 10  # times: a test that judges a mutant may take so much longer
LEAST_CLOCK_SECONDS: Final = 60.0  # for tests with servers
SLOWER_ON_CLOCK: Final = 4  # times


class Verdict(msgspec.Struct, frozen=True):
    """The result of a mutant; ``by`` is the test that failed first, ``left`` counts the tests that were not asked."""

    fate: Fate
    by: str = ""
    asked: int = 0
    left: int = 0


class Question(msgspec.Struct, frozen=True):
    """A mutant, and the tests to ask, in this order."""

    mutant: Mutant
    tests: tuple[str, ...]
    left: int
    seconds: float  # that they take
    inside: bool  # whether the change is put into a function


def question(mutant: Mutant, reaches: Sequence[Reach], budget_seconds: float) -> Question:
    """The tests that reach changed lines, within the budget.

    First those that are quick, for the budget is seldom too small for them; of each file the quickest, then of each the
    second, and so on.
    """
    reaching, inside = _reaching(mutant, [reach for reach in reaches if may_judge(reach.test, mutant.file)])
    asked: list[Reach] = []
    seconds, left = 0.0, 0
    for reach in _in_turn(reaching):
        if seconds + reach.seconds <= budget_seconds:
            asked.append(reach)
            seconds += reach.seconds
        else:
            left += 1
    return Question(mutant, tuple(reach.test for reach in asked), left, seconds, inside)


def _in_turn(reaches: Iterable[Reach]) -> list[Reach]:
    ranks: Counter[str] = Counter()
    ordered: list[tuple[bool, int, float, str, Reach]] = []
    for reach in sorted(reaches, key=lambda reach: (reach.seconds, reach.test)):
        file = reach.test.partition("::")[0]
        ordered.append((reach.seconds >= QUICK_SECONDS, ranks[file], reach.seconds, reach.test, reach))
        ranks[file] += 1
    return [reach for *_, reach in sorted(ordered, key=lambda each: each[:4])]


def _reaching(mutant: Mutant, reaches: Sequence[Reach]) -> tuple[list[Reach], bool]:
    """The tests that reach the function, also where it stood in another file when they were watched.

    If none does, the code runs while its module is imported: then the tests that reach the module, or its declarations.
    """
    if mutant.function:
        for place in (f"{mutant.file}::{mutant.function}", f"::{mutant.function}"):
            found = [reach for reach in reaches if any(each.endswith(place) for each in reach.functions)]
            if found:
                return found, not runs_at_import(mutant.source, mutant.function)
    return [reach for reach in reaches if _imports(reach, mutant.file)], False


def _imports(reach: Reach, file: str) -> bool:
    return judges_declarations(reach.test, file) or any(each.startswith(f"{file}::") for each in reach.functions)


def verdicts(room: Room, questions: Sequence[Question]) -> Iterator[tuple[Mutant, Verdict]]:
    """The verdict on each."""
    inside = [question for question in questions if question.inside]
    outside = [question for question in questions if not question.inside]
    answers = forks.lines(partial(_collected, room, inside)) if inside else iter(())
    for question, answer in zip(inside, answers, strict=True):
        yield question.mutant, msgspec.json.decode(answer, type=Verdict)
    for question in outside:
        yield question.mutant, _verdict(question, partial(_imported, room, question))


def _verdict(question: Question, work: forks.Work) -> Verdict:
    if not question.tests:
        return Verdict("unreached", left=question.left)
    limit = LEAST_CPU_SECONDS + int(SLOWER * question.seconds)
    try:
        failed = b"".join(forks.lines(work, limit, _clock_seconds(question))).decode()
    except forks.Ended:
        return Verdict("time-out")
    if failed:
        return Verdict("killed", failed)
    return Verdict("survived", asked=len(question.tests), left=question.left)


def _clock_seconds(question: Question) -> float | None:
    if any(map(is_served, question.tests)):
        return LEAST_CLOCK_SECONDS + SLOWER_ON_CLOCK * question.seconds
    return None


# -- within a function --


def _collected(room: Room, questions: Sequence[Question], send: forks.Send) -> None:
    status = ran(room.places, room, _Swapping(room, questions, send))
    assert status == pytest.ExitCode.OK, status


class _Steady:
    """Tests that draw the same cases each time, and shrink none."""

    def pytest_configure(self) -> None:
        steady = settings(derandomize=True, database=None, phases=(Phase.explicit, Phase.generate))
        settings.register_profile("mutants", parent=steady)
        settings.load_profile("mutants")


class _Swapping(_Steady):
    def __init__(self, room: Room, questions: Sequence[Question], send: forks.Send) -> None:
        self._room, self._questions, self._send = room, questions, send

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = {item.nodeid: item for item in quick(session.items)}
        for question in self._questions:
            verdict = _verdict(question, partial(self._asked, session, items, question))
            self._send(msgspec.json.encode(verdict))
        return True

    def _asked(
        self, session: pytest.Session, items: Mapping[str, pytest.Item], question: Question, send: forks.Send
    ) -> None:
        mutant = question.mutant
        change(self._room.root, mutant.file, mutant.source, self._room.folder / "mutant")
        try:
            swap(self._room.root, mutant)
        except LookupError:
            if not any(map(is_served, question.tests)):
                raise  # else no test has imported it yet: daemons do
        first = First()
        session.config.pluginmanager.register(first)
        first.ask([items[test] for test in question.tests if test in items])
        send(first.failed.encode())


def swap(root: Path, mutant: Mutant) -> None:
    """Give the body of the mutant's function to every function of this process that equals the former one.

    Raises LookupError where there is none.
    """
    path = str(root / mutant.file)
    changed = _code(compile(mutant.source, path, "exec", dont_inherit=True), mutant.function)
    functions = [
        each
        for each in gc.get_objects()
        if isinstance(each, FunctionType)
        and each.__code__.co_qualname == mutant.function
        and each.__code__.co_filename == path
    ]
    if not functions:
        raise LookupError(mutant.function)
    for function in functions:
        function.__code__ = changed


def _code(within: CodeType, function: str) -> CodeType:
    for each in within.co_consts:
        if isinstance(each, CodeType):
            if each.co_qualname == function:
                return each
            if function.startswith(f"{each.co_qualname}."):
                return _code(each, function)
    raise LookupError(function)


# -- anywhere else --


def _imported(room: Room, question: Question, send: forks.Send) -> None:
    change(room.root, question.mutant.file, question.mutant.source, room.folder / "mutant")
    chosen = _Chosen(question.tests)
    status = ran(sorted({test.split("::")[0] for test in question.tests}), room, chosen)
    send((chosen.failed or ("" if status == pytest.ExitCode.OK else f"pytest: {status}")).encode())


class _Chosen(_Steady, First):
    def __init__(self, tests: Iterable[str]) -> None:
        super().__init__()
        self._tests = tuple(tests)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        if not self.failed:
            items = {item.nodeid: item for item in session.items}
            self.ask([items[test] for test in self._tests if test in items])
        return True
