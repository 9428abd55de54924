"""The tests that judge, run by pytest in this process, and the functions that each reaches."""

from __future__ import annotations

import ast
import hashlib
import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple, NoReturn

import coverage
import msgspec
import pytest

from mutation import forks
from mutation.forks import Send
from mutation.places import is_served
from mutation.reached import REACHED, Notes
from mutation.servers import Server, Sharing

SLOW_SECONDS: Final = 4.0  # of processor time, while it is watched
SLOW_CLOCK_SECONDS: Final = 20.0  # on the clock, of a test with servers, while it is watched

ARGUMENTS: Final = ("-n", "0", "-q", "--tb=no", "-s", "-p", "no:cacheprovider", "--assert=plain")


class Reach(msgspec.Struct, frozen=True):
    """The functions that one test reaches, as FILE::FUNCTION, and the time that this takes while it is watched.

    The time is processor time, or time on the clock where a test may wait for servers. A test that takes SLOW_SECONDS is not
    watched any longer, and never asked: it is as if it reached nothing. So is one that fails.
    """

    test: str  # pytest's id
    digest: str  # of the file that it stands in
    seconds: float
    functions: tuple[str, ...]


class Room(msgspec.Struct, frozen=True):
    """Where the tests that judge are, and the server that they share, if any."""

    root: Path
    places: tuple[str, ...]  # for pytest
    server: Server | None = None
    folder: Path = Path()  # for notes of the tool


def ran(arguments: Iterable[str], room: Room, plugin: object) -> int:
    """pytest in this process, with this plugin and the server of the room."""
    plugins = [plugin] if room.server is None else [plugin, Sharing(room.server)]
    return int(pytest.main([*ARGUMENTS, *arguments], plugins=plugins))


def quick(items: Iterable[pytest.Item]) -> list[pytest.Item]:
    """Those that do not need minutes; of the pure folders, those that need no server."""
    return [
        item
        for item in items
        if item.get_closest_marker("long") is None
        and (is_served(item.nodeid) or "zookeeper" not in getattr(item, "fixturenames", ()))
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

    def ask(self, items: Sequence[pytest.Item]) -> None:
        """Run these, of those that were collected. A test with servers fails only where it fails twice."""
        for item, following in pairwise((*items, None)):
            assert item is not None
            self._run(item, following)
            if self.failed and is_served(item.nodeid):
                self.failed = ""
                self._run(item, following)
            if self.failed:
                return

    @staticmethod
    def _run(item: pytest.Item, following: pytest.Item | None) -> None:
        item.ihook.pytest_runtest_protocol(item=item, nextitem=following)


class Watching:
    """A plugin that runs each unknown test, and sends the functions that it reaches."""

    def __init__(self, room: Room, files: Iterable[str], known: Mapping[str, Reach], send: Send) -> None:
        self._files = {str(room.root / file): dict(_functions(room.root, file)) for file in files}
        self._known, self._send = known, send
        self._notes = Notes(room.folder / "reached")
        self._watch = coverage.Coverage(data_file=None, config_file=False, include=list(self._files))
        self._watch.set_option("run:disable_warnings", ["no-data-collected"])  # a test of something else

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        os.environ[REACHED] = str(self._notes.file)  # for the daemons
        pending = [item for item in quick(session.items) if not self._is_known(item)]
        while pending:  # a slow test ends the process that it runs in
            done = 0
            for line in forks.lines(partial(self._all, list(pending), session)):
                self._send(line)
                done += 1
            del pending[:done]
        return True

    def _is_known(self, item: pytest.Item) -> bool:
        known = self._known.get(item.nodeid)
        return known is not None and known.digest == _digest(item)

    def _all(self, items: Sequence[pytest.Item], session: pytest.Session, send: Send) -> None:
        first = First()
        session.config.pluginmanager.register(first)
        for item, following in pairwise((*items, None)):
            assert item is not None
            self._watch.erase()
            self._notes.new()
            timer, number, clock, limit = _measured(item)
            signal.signal(number, partial(self._too_slow, item, send))
            signal.setitimer(timer, limit)
            began = clock()
            self._watch.start()
            item.ihook.pytest_runtest_protocol(item=item, nextitem=following)
            self._watch.stop()
            signal.setitimer(timer, 0.0)
            reached = set() if first.failed else self._reached()
            if first.failed:
                os.write(forks.SAID, f"\nfails while it is watched, and is not asked: {item.nodeid}\n".encode())
            first.failed = ""
            send(_encoded(item, clock() - began, reached))

    def _too_slow(self, item: pytest.Item, send: Send, *_: object) -> NoReturn:
        send(_encoded(item, _measured(item).limit, ()))
        os.write(forks.SAID, f"\ntakes too long, and is not asked: {item.nodeid}\n".encode())
        os._exit(0)

    def _reached(self) -> set[str]:
        data = self._watch.get_data()
        reached = {self._files.get(file, {}).get(at) for file in data.measured_files() for at in data.lines(file) or ()}
        noted = self._notes.new().intersection(each for file in self._files.values() for each in file.values())
        return {function for function in reached if function} | noted


class _Measured(NamedTuple):
    timer: int
    signal: int
    clock: Callable[[], float]
    limit: float


def _measured(item: pytest.Item) -> _Measured:
    if is_served(item.nodeid):
        return _Measured(signal.ITIMER_REAL, signal.SIGALRM, time.monotonic, SLOW_CLOCK_SECONDS)
    return _Measured(signal.ITIMER_PROF, signal.SIGPROF, time.process_time, SLOW_SECONDS)


def _encoded(item: pytest.Item, seconds: float, functions: Iterable[str]) -> bytes:
    return msgspec.json.encode(Reach(item.nodeid, _digest(item), round(seconds, 4), tuple(sorted(functions))))


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
