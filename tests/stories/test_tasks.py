"""Task lists, run by a real annealer on nodes without machines: tasks.story beside this file, which says how it is written."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.store import clusters
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.tasks.plan import TaskPlan
from nodepool_ocb.tasks.runs.history import HistoryRow
from nodepool_ocb.tasks.runs.records import TaskRun
from nodepool_ocb.tasks.selection import Selection
from nodepool_ocb.testing.processes import DaemonProcess
from nodepool_ocb.testing.zookeeper.server import Server
from tests.annealer.tasks import task_staging as staging
from tests.fixtures.chroots import fresh
from tests.stories.reading import Line, Story, stories
from tests.stories.tasks_checker import Checker

DELAY_SECONDS = 0.1


class Script:
    """What a story says before its run."""

    def __init__(self, lines: list[Line]) -> None:
        self.text = ""
        self.nodes: dict[str, list[str]] = {}
        self.failing: list[str] = []
        for line in lines:
            with line.shown() as text:
                self._takes(text.split())

    def _takes(self, words: list[str]) -> None:
        match words:
            case ["list", *files]:
                self.text = "".join((Path(__file__).parent / "tasks" / file).read_text() for file in files)
            case [node, "fails"]:
                self.failing.append(node)
            case [role, *nodes]:
                assert role.endswith(":"), "ROLE: NODE..."
                for node in nodes:
                    self.nodes.setdefault(node, []).append(role.removesuffix(":"))

    @property
    def entries(self) -> list[dict[str, Any]]:
        """The documents as plain YAML."""
        return yaml.safe_load(self.text)  # type: ignore[no-any-return]

    def begin(self, session: Session, options: list[str]) -> str:
        behaviour = {entry["id"]: {"delay": DELAY_SECONDS} for entry in self.entries}
        return staging.begin(
            session,
            self.text,
            self.nodes,
            behaviour,
            [f"a task@{node}" for node in self.failing],
            compiling={"selection": selection(options)},
        )


def selection(options: list[str]) -> Selection | None:
    """``--start A --skip B``."""
    said: dict[str, tuple[str, ...]] = {}
    for option, name in zip(options[::2], options[1::2], strict=True):
        said[option.removeprefix("--")] = (*said.get(option.removeprefix("--"), ()), name)
    return Selection(**said) if said else None


def expects(found: Checker, head: TaskRun, lines: list[Line]) -> None:
    """What a story says behind its run."""
    named: dict[str, str] = {}
    for line in lines:
        with line.shown() as text:
            names, colon, outcome = text.partition(": ")
            if names == "run":
                assert ", ".join(filter(None, (head.state, head.reason))) == outcome
            elif outcome == "one at a time":
                found.one_at_a_time(names)
            elif colon:
                named |= {each: outcome for name in names.split() for each in found.meant(name)}
            elif " beside " in text:
                found.beside(text)
            else:
                found.follows(text)
    assert {name: row.outcome for name, row in found.rows.items()} == dict.fromkeys(found.rows, "successful") | named


def split(story: Story) -> tuple[list[Line], list[str], list[Line]]:
    """What is before the run, its options, and what is behind it."""
    at = next(number for number, line in enumerate(story.lines) if line.text.split()[0] == "run")
    return list(story.lines[:at]), story.lines[at].text.split()[1:], list(story.lines[at + 1 :])


class Lab(NamedTuple):
    """Nine nodes, and an annealer that works on them, story after story."""

    session: Session
    annealer: DaemonProcess


@pytest.fixture(scope="module")
def lab(zookeeper: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    settings = ZooKeeperSettings(hosts=f"{zookeeper.hosts}{fresh('stories-of-tasks')}")
    with Session(settings) as session:
        clusters.bootstrap(session)
        staging.build(session, {f"n{number}": [] for number in range(1, 10)})
        with staging.annealer(settings, tmp_path_factory.mktemp("stories")) as one:
            yield Lab(session, one)


@pytest.mark.parametrize("story", stories("tasks.story"), ids=lambda story: story.title)
def test_tasks(story: Story, lab: Lab) -> None:
    before, options, behind = split(story)
    script = Script(before)
    run = script.begin(lab.session, options)
    head = staging.finished(lab.session, run, lab.annealer)
    found = Checker(of_tasks(staging.history(lab.session, run)), staging.read(lab.session, run).plan)
    for node in script.nodes:
        found.one_at_a_time(node)
    found.as_the_list_requires(script.entries)
    expects(found, head, behind)


def of_tasks(rows: dict[str, HistoryRow]) -> dict[str, HistoryRow]:
    """Without barriers, which stand in no list."""
    return {name: row for name, row in rows.items() if "." not in row.task}


# -- the checker --


def history(**times: tuple[float, float]) -> dict[str, HistoryRow]:
    """Each TASK_NODE with its times."""
    rows = ((name.rpartition("_"), time) for name, time in times.items())
    return {f"{t}@{n}": HistoryRow(t, n, "successful", started=time[0], ended=time[1]) for (t, _, n), time in rows}


NO_PLAN = TaskPlan(
    nodes=("n1.x", "n2.x", ""),
    tasks=("a", "b"),
    task_of=(0, 1, 1),
    node_of=(0, 0, 1),
    parents=((), (), (0,)),
    rank=(1, 0, 0),
)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a then b", "a@n1.*b@n2"),
        ("b@n1 then a", "b@n1.*a@n1"),
        ("a beside b@n2", None),
        ("b@n1 beside b@n2", None),
    ],
)
def test_the_checker_goes_by_times(text: str, said: str | None) -> None:
    found = Checker(history(a_n1=(1, 3), b_n1=(3, 4), b_n2=(2, 3)), NO_PLAN)
    with pytest.raises(AssertionError, match=said) if said else nullcontext():
        (found.beside if " beside " in text else found.follows)(text)


def test_the_checker_asks_the_plan_only_where_nothing_overlaps() -> None:
    found = Checker(history(a_n1=(1, 2), b_n1=(2, 3), b_n2=(3, 4)), NO_PLAN)
    found.beside("a beside b@n1")
    with pytest.raises(AssertionError, match="one of a and b@n2 waited for the other"):
        found.beside("a beside b@n2")


def test_the_checker_notices_two_at_once_on_a_node_and_what_a_list_requires() -> None:
    found = Checker(history(a_n1=(1, 3), b_n1=(2, 4)), NO_PLAN)
    with pytest.raises(AssertionError, match="a@n1 and b@n1 ran at once"):
        found.one_at_a_time("n1")
    with pytest.raises(AssertionError, match="b requires a: a@n1, b@n1"):
        found.as_the_list_requires([{"id": "a"}, {"id": "b", "requires": ["a"]}])
    with pytest.raises(AssertionError, match="nothing of this run"):
        found.follows("a then c")
