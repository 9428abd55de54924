"""A run of tasks whose driver is killed at any step ends as if nobody had died, and nothing is run twice."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable
from functools import partial
from pathlib import Path

import pytest
from msgspec.structs import replace

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Run
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.world.load import load_world
from nodepool_ocb.tasks.runs.records import Outcome, TaskRunState
from nodepool_ocb.testing.processes import DaemonProcess, await_that
from tests.annealer.tasks.task_staging import LAB, annealer, begin, build, finished, history, read
from tests.journeys import crashing_annealer as dying

NODES = {"n1": ["a"], "n2": ["a"], "n3": ["b"]}
LIST = """
- {id: first, type: shell, role: [a], parameters: {cmd: x}}
- {id: second, type: shell, role: [a], requires: [first], parameters: {cmd: x}}
- {id: done, type: stage, requires: [second]}
- {id: third, type: shell, role: ['*'], requires: [done], parameters: {cmd: x}}
"""


def killed_at(moments: Iterable[int], session: Session, settings: ZooKeeperSettings, folder: Path) -> int:
    """How many drivers died at these of their moments, as far as a run has so many."""
    settings = replace(settings, session_timeout_seconds=4.0)
    build(session, NODES)
    for deaths, moment in enumerate(moments):
        before = ended(session)
        doomed = annealer(settings, folder / f"doomed-{moment}", (dying.__file__,), MOMENT=str(moment))
        with doomed:
            run = begin(session, LIST, NODES, failing=["first@n2"])
            await_that(partial(_over, session, run, doomed), 60.0, "it ends, or its driver does")
            met = not doomed.running()
            with annealer(settings, folder / f"heir-{moment}") as heir:
                head = finished(session, run, heir)
        found = {name: row.outcome for name, row in history(session, run).items() if "@" in name}
        assert head.state is TaskRunState.FAILED, moment
        assert found == {
            "first@n1": Outcome.SUCCESSFUL, "second@n1": Outcome.SUCCESSFUL, "third@n1": Outcome.NOT_RUN,
            "first@n2": Outcome.FAILED, "second@n2": Outcome.NOT_RUN, "third@n2": Outcome.NOT_RUN,
            "third@n3": Outcome.NOT_RUN,
        }, moment  # fmt: skip
        more = Counter(name for name, _ in ended(session) - before)
        assert more == {"lab.first@n1.example.com": 1, "lab.second@n1.example.com": 1, "lab.first@n2.example.com": 1}
        if not met:
            return deaths
    return deaths + 1


def _over(session: Session, run: str, driver: DaemonProcess) -> bool:
    return read(session, run).head.over or not driver.running()


def ended(session: Session) -> set[tuple[str, str]]:
    """The runs of tasks that ended by themselves: not those that died with their annealer, in which jig test runs."""
    found = set()
    for vertex in load_world(session).vertices():
        folder = paths.runs(vertex.role, vertex.node.name)
        names = [] if vertex.role == f"{LAB}.done" else session.children(folder) or []
        for name, znode in zip(names, session.get_many([f"{folder}/{name}" for name in names]), strict=True):
            if znode is not None and codec.decode(Run, znode).outcome in ("succeeded", "failed"):
                found.add((vertex.name, name))
    return found


@pytest.mark.long
def test_a_driver_that_is_killed_between_two_transactions_costs_nothing(
    zk_session: Session, zk_settings: ZooKeeperSettings, tmp_path: Path
) -> None:
    assert killed_at((4, 9), zk_session, zk_settings, tmp_path) == 2


@pytest.mark.long
def test_a_driver_may_be_killed_at_any_step(
    zk_session: Session, zk_settings: ZooKeeperSettings, tmp_path: Path
) -> None:
    assert killed_at(itertools.count(1), zk_session, zk_settings, tmp_path) >= 10
