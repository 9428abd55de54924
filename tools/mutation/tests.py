"""The tests that judge: those of the pure folders, which need no server, run in this process, and what each reaches."""

from __future__ import annotations

import ast
import hashlib
import os
import signal
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final, NoReturn

import coverage
import msgspec
import pytest
from _pytest.main import pytest_runtestloop

from mutation import forks
from mutation.forks import Send

#: Where such tests are, and the folders whose doctests are among them.
FOLDERS: Final = ("documents", "engine", "catalogue", "images", "rollout", "views", "telemetry")
SERVERS: Final = frozenset({"zookeeper"})  # fixtures
SLOW_SECONDS: Final = 4.0  # of processor time, while it is watched

ARGUMENTS: Final = ("-n", "0", "-q", "--tb=no", "-s", "-p", "no:cacheprovider", "--assert=plain")


class Reach(msgspec.Struct, frozen=True):
    """What one test reaches, as FILE::FUNCTION, and the processor time that this takes while it is watched.

    A test that takes SLOW_SECONDS is not watched any longer, and never asked: it is as if it reached nothing.
    """

    test: str  # pytest's id
    digest: str  # of the file that it stands in
    seconds: float
    functions: tuple[str, ...]


def places(root: Path) -> list[str]:
    """The folders of quick tests, for pytest."""
    return [place for name in FOLDERS for place in (f"tests/{name}", f"nodepool_ocb/{name}") if (root / place).is_dir()]


def ran(arguments: Iterable[str], plugin: object) -> int:
    """pytest in this process, with this plugin."""
    return int(pytest.main([*ARGUMENTS, *arguments], plugins=[plugin]))


def quick(items: Iterable[pytest.Item]) -> list[pytest.Item]:
    """Those that need neither servers nor minutes."""
    return [
        item
        for item in items
        if not SERVERS.intersection(getattr(item, "fixturenames", ())) and item.get_closest_marker("long") is None
    ]


class First:
    """A plugin that asks some tests, until one fails; ``failed`` names it."""

    def __init__(self) -> None:
        self.failed = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self.failed:
            self.failed = report.nodeid

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed and not self.failed:
            self.failed = report.nodeid

    def ask(self, session: pytest.Session, items: Sequence[pytest.Item]) -> None:
        """Run these, of those that were collected."""
        session.items = list(items)
        session.config.option.maxfail = 1
        try:
            pytest_runtestloop(session)
        except session.Failed:
            assert self.failed


class Watching:
    """A plugin that runs each test that is not known yet, and sends what it reaches."""

    def __init__(self, root: Path, files: Iterable[str], known: Mapping[str, Reach], send: Send) -> None:
        self._files = {str(root / file): dict(_functions(root, file)) for file in files}
        self._known, self._send = known, send
        self._watch = coverage.Coverage(data_file=None, config_file=False, include=list(self._files))
        self._watch.set_option("run:disable_warnings", ["no-data-collected"])  # a test of something else

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        pending = [item for item in quick(session.items) if not self._is_known(item)]
        while pending:  # a slow test ends the process that it runs in
            done = 0
            for line in forks.lines(partial(self._all, list(pending))):
                self._send(line)
                done += 1
            del pending[:done]
        return True

    def _is_known(self, item: pytest.Item) -> bool:
        known = self._known.get(item.nodeid)
        return known is not None and known.digest == _digest(item)

    def _all(self, items: Sequence[pytest.Item], send: Send) -> None:
        for item in items:
            self._watch.erase()
            signal.signal(signal.SIGPROF, partial(self._too_slow, item, send))
            signal.setitimer(signal.ITIMER_PROF, SLOW_SECONDS)
            began = time.process_time()
            self._watch.start()
            item.ihook.pytest_runtest_protocol(item=item, nextitem=None)
            self._watch.stop()
            signal.setitimer(signal.ITIMER_PROF, 0.0)
            send(self._reach(item, time.process_time() - began))

    def _too_slow(self, item: pytest.Item, send: Send, *_: object) -> NoReturn:
        send(msgspec.json.encode(Reach(item.nodeid, _digest(item), SLOW_SECONDS, ())))
        os._exit(0)

    def _reach(self, item: pytest.Item, seconds: float) -> bytes:
        data = self._watch.get_data()
        reached = (
            self._files.get(file, {}).get(line) for file in data.measured_files() for line in data.lines(file) or ()
        )
        functions = sorted({function for function in reached if function})
        return msgspec.json.encode(Reach(item.nodeid, _digest(item), round(seconds, 4), tuple(functions)))


def _digest(item: pytest.Item) -> str:
    return hashlib.sha256(item.path.read_bytes()).hexdigest()[:16]


def _functions(root: Path, file: str) -> Iterator[tuple[int, str]]:
    """Each line of a body, with FILE::FUNCTION, the outermost around it."""

    def within(nodes: Iterable[ast.stmt], names: tuple[str, ...]) -> Iterator[tuple[int, str]]:
        for node in nodes:
            if isinstance(node, ast.ClassDef):
                yield from within(node.body, (*names, node.name))
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                for line in range(node.body[0].lineno, (node.end_lineno or node.lineno) + 1):
                    yield line, f"{file}::{'.'.join((*names, node.name))}"
            elif isinstance(node, ast.If):
                yield from within([*node.body, *node.orelse], names)

    return within(ast.parse((root / file).read_text()).body, ())
