"""python -m pytest -p tests.jigs.careless --long tests/jigs: each guard of the machine's runner is removed once.

A guard's test (guards.yaml) runs on machines with a runner that lacks the guard, and passes where it fails.
``--guards WORD`` takes only the guards with this word in their names.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

TABLE: Final = Path(__file__).with_name("guards.yaml")
PATIENCE_SECONDS: Final = 15.0  # a test that waits for longer has failed
OUTCOME_SECONDS: Final = 30.0


class Guard(msgspec.Struct, frozen=True):
    """``old`` stands once in the runner, and is ``new`` where the guard is removed: then ``test`` fails.

    A guard without a test has a ``reason``: its removal has an effect that no test can bring about.
    """

    guard: str
    old: str
    new: str = ""
    test: str = ""
    reason: str = ""

    @property
    def function(self) -> str:
        return self.test.partition("[")[0]

    @property
    def case(self) -> str:
        """Of the parameters of the test; empty where it has none."""
        return self.test.partition("[")[2].removesuffix("]")


@cache
def guards() -> list[Guard]:
    """The table."""
    return msgspec.yaml.decode(TABLE.read_bytes(), type=list[Guard])


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--guards", default="", help="remove the guards with this word in their names")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    function = f"{metafunc.definition.path.name}::{metafunc.function.__name__}"
    word = metafunc.config.getoption("--guards")
    found = [each for each in guards() if each.function == function and word in each.guard]
    metafunc.parametrize("lacking", found, ids=[each.guard for each in found], indirect=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    named = {guard for item in items if (guard := _guard(item))}
    items[:] = [item for item in items if (guard := _guard(item)) and _is_of(item, guard)]
    if lost := named - {_guard(item) for item in items}:
        raise pytest.UsageError("no test has this case: " + ", ".join(sorted(each.test for each in lost)))


def _guard(item: pytest.Item) -> Guard | None:
    found = item.callspec.params.get("lacking") if hasattr(item, "callspec") else None
    return found if isinstance(found, Guard) else None


def _is_of(item: Any, guard: Guard) -> bool:
    name, case = guard.guard, guard.case
    return item.callspec.id in ((f"{case}-{name}", f"{name}-{case}") if "[" in guard.test else (name,))


@pytest.fixture(autouse=True)
def lacking(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """Machines get a runner without the guard."""
    from tests.jigs import workshop  # not before pytest has its hooks in the imports

    monkeypatch.setattr(workshop, "PATIENCE_SECONDS", PATIENCE_SECONDS)
    monkeypatch.setattr(workshop, "OUTCOME_SECONDS", OUTCOME_SECONDS)
    monkeypatch.setattr(workshop.Annealer, "run", lambda annealer, order: annealer.begin(order)())
    changes = {request.param.old: request.param.new}
    with workshop.other_runner(tmp_path_factory.mktemp("careless") / "runner", changes):
        yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failure is what is wanted, of the test or of what is looked at behind it."""
    report = yield
    failures = item.stash.setdefault(FAILURES, [])
    if report.failed:
        report.outcome, report.longrepr = "passed", None
        failures.append(call.excinfo.exconly() if call.excinfo else "")
    elif report.when == "teardown" and not failures and not report.skipped:
        report.outcome, report.longrepr = "failed", f"{item.name} passes without the guard"
    if report.when == "teardown" and failures:
        report.user_properties.append(("without", failures[0].splitlines()[0][:150]))
    return report


FAILURES: Final = pytest.StashKey[list[str]]()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    for _, said in report.user_properties if report.when == "teardown" else ():
        print(f"\n{report.nodeid.removeprefix('tests/jigs/')}: {said}")
