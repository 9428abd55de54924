"""Two people who roll out a parent and its child at the same moment: processes of the command line beside a real annealer."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest
from msgspec.structs import replace

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Change, Create, Deployment, DeploymentState, Fence, Node, NodeRole, Role, State
from nodepool_ocb.rollout.plan import begin
from nodepool_ocb.rollout.records import Decision, GroupState, RolloutState, apply
from nodepool_ocb.rollout.selectors import inventory
from nodepool_ocb.rollout.strategy import WHOLE
from nodepool_ocb.store import rollouts
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.world.load import load_world
from nodepool_ocb.testing.processes import DaemonProcess

PARENT, CHILD = "lab", "sub"
OLD, NEW = "0000000000", "0000000001"
PROGRAM = str(Path(sys.executable).with_name("nodepool-ocb"))

Together = Callable[..., dict[str, "Said"]]


class Said(NamedTuple):
    code: int
    words: str


@pytest.fixture
def line(zk_session: Session) -> Session:
    """A deployment and one below it, each with a node whose work never ends and a rollout that failed."""
    made: list[Change] = [Create(paths.role("work"), Role(barclamp="b", jig="test"))]
    for deployment, above in ((PARENT, "system"), (CHILD, PARENT)):
        fqdn = f"n1.{deployment}.example.com"
        made += [
            Create(paths.deployment(deployment), Deployment(parent=above, state=DeploymentState.COMMITTED)),
            Create(paths.deployment_roles(deployment)),
            Create(paths.node(fqdn), Node(deployment=deployment, alive=True)),
            Create(paths.fence(fqdn), Fence()),
            Create(paths.noderoles(fqdn)),
            Create(paths.noderole("work", fqdn), NodeRole(state=State.PROPOSED, since=1.0, deployment=deployment)),
            Create(paths.runs("work", fqdn)),
            Create(paths.user("work", fqdn), {"hang": True}),
        ]
    zk_session.commit(made)
    for deployment in (PARENT, CHILD):
        begun = begin(WHOLE, inventory(load_world(zk_session), deployment), 1.0)
        rollouts.begin(zk_session, deployment, begun)
        (group,) = begun.groups
        failed = replace(begun.groups[group], state=GroupState.FAILED, reason="deploy", attempt=1)
        over = replace(begun.head, state=RolloutState.FAILED)
        found = rollouts.read(zk_session, deployment, OLD)
        assert found is not None
        after = apply(found[0], [Decision(group, failed, "it failed"), Decision("", over, "it failed")])
        zk_session.commit(rollouts.changes(deployment, OLD, found[0], after, found[1], 1.0))
    return zk_session


@pytest.fixture
def annealer(line: Session, zk_settings: ZooKeeperSettings, tmp_path: Path) -> Iterator[DaemonProcess]:
    assert line.connected
    with DaemonProcess(zk_settings, tmp_path / "annealer", {"annealer": {"probe_seconds": 600.0}}) as daemon:
        yield daemon


@pytest.fixture
def together(zk_settings: ZooKeeperSettings, tmp_path: Path) -> Together:
    """Commands, each in a process of its own, all at the same time."""
    environment = {**os.environ, "NODEPOOL_OCB_ZOOKEEPER": zk_settings.hosts, "HOME": str(tmp_path)}

    def run(*lines: str) -> dict[str, Said]:
        running = {
            each: subprocess.Popen(
                [PROGRAM, *each.split()], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
            )
            for each in lines
        }
        said = {each: process.communicate(timeout=120)[1] for each, process in running.items()}
        return {each: Said(process.returncode, said[each]) for each, process in running.items()}

    return run


def under_way(session: Session) -> Mapping[str, str | None]:
    known = load_world(session).rollouts
    return {name: stored.record.newest for name, stored in known.items() if not stored.record.over}


def running(session: Session) -> dict[str, str | None]:
    """The noderoles at work that nobody ends, each with its run."""
    records = {vertex.name: vertex.record for vertex in load_world(session).vertices()}
    return {
        name: record.run
        for name, record in records.items()
        if record.state is State.TRANSITION and record.cancel_reason is None
    }


@pytest.mark.long
@pytest.mark.usefixtures("annealer")
def test_of_a_parent_and_a_child_one_is_under_way_and_nothing_asked_of_the_other_ends_its_runs(
    line: Session, together: Together, until: Callable[..., None]
) -> None:
    starts = {name: f"rollout start --default --deployment {name}" for name in (PARENT, CHILD)}
    said = together(*starts.values())
    codes = {name: said[start].code for name, start in starts.items()}
    assert sorted(codes.values()) == [0, 4], said
    first, other = sorted(codes, key=lambda name: codes[name])
    assert f"rollout {first}/{NEW} is under way" in said[starts[other]].words
    assert under_way(line) == {first: NEW}
    nodes = {PARENT, CHILD} if first == PARENT else {CHILD}
    until(lambda: running(line).keys() == {f"work@n1.{name}.example.com" for name in nodes}, 60.0)
    before = running(line)

    asked = together(
        f"rollout resume {other}",
        f"rollout retry {other}",
        f"rollout accept all {other} --reason fine",
        f"rollout cancel {other}",
    )
    assert [each.code for each in asked.values()] == [4, 4, 4, 4], asked
    assert under_way(line) == {first: NEW}
    assert running(line) == before

    assert together(f"rollout cancel {first}")[f"rollout cancel {first}"].code == 0
    until(lambda: not under_way(line) and not running(line), 60.0)
    again = f"rollout retry {other}"
    assert together(again)[again].code == 0
