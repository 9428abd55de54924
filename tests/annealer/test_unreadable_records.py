"""Records that turn unreadable under real annealers, as a hand or a later version makes them, and are mended again."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from nodepool_ocb.engine.noderole import Event
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import (
    Create,
    Delete,
    Deployment,
    DeploymentRole,
    DeploymentState,
    Node,
    NodeRole,
    Role,
    Set,
    State,
)
from nodepool_ocb.testing.processes import CutDaemon
from nodepool_ocb.testing.zookeeper.server import Server
from tests.journeys.fleet import DEPLOYMENT, Fleet
from tests.journeys.staging import LiveRollout, acting, document, generations, nodes, roles, stack
from tests.stories.test_annealer import package

HUB = "hub.example.com"
BASE = f"base@{HUB}"
LATER = {"schema": 2, "state": "of a later version"}


@pytest.fixture
def bare(zookeeper: Server, chroot: str, tmp_path: Path) -> Iterator[Fleet]:
    """No machines."""
    with Fleet(zookeeper, chroot, tmp_path, machines=0) as fleet:
        yield fleet


@contextlib.contextmanager
def unreadable(fleet: Fleet, path: str) -> Iterator[None]:
    """Spoil a record meanwhile; it is written back as it was."""
    good = fleet.session.get(path)
    assert good is not None
    fleet.session.commit([Set(path, LATER, good.version)])
    yield
    client = fleet.session._client
    client.set(path, good.data, version=good.version + 1)


def until_swept(fleet: Fleet, *annealers: CutDaemon) -> None:
    """Each of them has looked at everything twice."""
    before = {each.pid: each.metric("nodepool_ocb_sweeps_total") for each in annealers}
    fleet.until(
        lambda: all(each.metric("nodepool_ocb_sweeps_total") >= before[each.pid] + 2 for each in annealers),
        "they look at everything, twice",
    )


def test_a_record_that_cannot_be_read_for_a_while_runs_nothing_again(bare: Fleet) -> None:
    """Neither where an annealer saw it whole, nor where it began meanwhile."""
    leaves = [f"n{number}.example.com" for number in range(10)]
    roles(bare, base=acting(), app=acting())
    nodes(bare, dict.fromkeys([HUB, *leaves], Node()))
    bare.bind("base", HUB)
    for leaf in leaves:
        bare.bind("app", leaf, [BASE])
    saw = bare.annealer(sweep_seconds=0.5).start()
    bare.until_all_active()
    with unreadable(bare, paths.noderole("base", HUB)):
        until_swept(bare, saw)
        began = bare.annealer(sweep_seconds=0.5).start()
        bare.until(lambda: bare.living() == 2, "the second one is there")
        until_swept(bare, saw, began)
        assert {bare.state(f"app@{leaf}") for leaf in leaves} == {State.ACTIVE}
        assert bare.session.get(paths.noderole("base", HUB)).data.startswith(b'{"schema":2')  # type: ignore[union-attr]
    bare.until(lambda: began.metric("nodepool_ocb_quarantined") == 0, "it is seen to be mended")
    until_swept(bare, saw, began)
    assert set(generations(bare).values()) == {1}
    assert [len(bare.runs(f"app@{leaf}")) for leaf in leaves] == [1] * 10
    bare.happens(BASE, Event.PROPOSE)
    bare.until(lambda: {bare.state(f"app@{leaf}") for leaf in leaves} == {State.BLOCKED}, "it counts again")


@pytest.mark.parametrize(
    "path",
    [
        paths.role("app"),
        paths.node("n0.example.com"),
        paths.noderole("base", HUB),
        paths.deployment("lab"),
        paths.deployment_role("lab", "app"),
    ],
)
def test_what_waits_for_a_record_starts_once_when_it_can_be_read(bare: Fleet, path: str) -> None:
    lab = Deployment(state=DeploymentState.COMMITTED)
    bare.session.commit([Create(paths.deployment("lab"), lab), Create(paths.deployment_roles("lab"))])
    bare.session.commit([Create(paths.deployment_role("lab", "app"), DeploymentRole(user={"colour": "red"}))])
    roles(bare, base=acting(), app=acting(), other=acting())
    nodes(bare, {HUB: Node(), "n0.example.com": Node(), "n1.example.com": Node()})
    bare.session.commit([Create(paths.noderole("base", HUB), NodeRole(state=State.ACTIVE, since=1.0, generation=1))])
    name = bare.bind("app", "n0.example.com", [BASE], deployment="lab")
    with unreadable(bare, path):
        annealer = bare.annealer(sweep_seconds=0.5).start()
        bare.until_state(bare.bind("other", "n1.example.com"), State.ACTIVE)  # nothing else suffers
        until_swept(bare, annealer)
        assert bare.runs(name) == {}
    bare.until_state(name, State.ACTIVE)
    assert bare.record(name).generation == 1
    assert len(bare.runs(name)) == 1


def test_a_node_whose_claim_is_garbage_is_left_alone_until_the_claim_is_gone(bare: Fleet) -> None:
    roles(bare, base=acting())
    nodes(bare, {HUB: Node()})
    bare.session.commit([Create(paths.claim(HUB), LATER, ephemeral=True)])
    name = bare.bind("base", HUB)
    annealer = bare.annealer(sweep_seconds=0.5).start()
    bare.until(lambda: annealer.metric("nodepool_ocb_sweeps_total") >= 3, "it looks at everything")
    assert bare.state(name) is State.TODO
    assert annealer.metric("nodepool_ocb_zookeeper_stale_total") == 0
    bare.session.commit([Delete(paths.claim(HUB), 0)])
    bare.until_state(name, State.ACTIVE)


def test_what_a_run_came_to_is_kept_until_its_record_can_be_written(bare: Fleet) -> None:
    roles(bare, base=acting(1.0), other=acting())
    nodes(bare, {HUB: Node(), "n1.example.com": Node()})
    name = bare.bind("base", HUB)
    annealer = bare.annealer(slots=1, sweep_seconds=0.5).start()
    bare.until_state(name, State.TRANSITION)
    with unreadable(bare, paths.noderole("base", HUB)):
        bare.until_state(bare.bind("other", "n1.example.com"), State.ACTIVE)  # its slot serves others meanwhile
        until_swept(bare, annealer)
        assert bare.claim_stands(HUB)
        assert bare.runs(name) == {}
    bare.until_state(name, State.ACTIVE)
    assert [run.outcome for run in bare.runs(name).values()] == ["succeeded"]
    assert bare.record(name).generation == 1


def test_a_machine_dies_although_one_of_its_noderoles_cannot_be_read(fleet: Fleet) -> None:
    roles(fleet, base=acting(), other=acting())
    (machine,) = fleet.nodes
    done = [fleet.bind(role, machine) for role in ("base", "other")]
    fleet.annealer().begin()
    fleet.until_all_active()
    with unreadable(fleet, paths.noderole("base", machine)):
        fleet.farm.kill(0)
        fleet.until(lambda: not fleet.node(machine).alive, "it is seen to be dead")
        assert fleet.state(done[1]) is State.TODO
    assert fleet.record(done[0]).generation == 1
    fleet.farm.start(0)
    fleet.until_all_active()


def test_hooks_of_a_node_wait_for_a_role_that_may_have_them(bare: Fleet) -> None:
    roles(bare, base=acting())
    with unreadable(bare, paths.role("base")):
        nodes(bare, {HUB: Node(hooks=("on_node_create",)), "n1.example.com": Node()})
        annealer = bare.annealer(sweep_seconds=0.5).start()
        until_swept(bare, annealer)
        assert bare.node(HUB).hooks == ("on_node_create",)
    bare.until(lambda: bare.node(HUB).hooks == (), "they have run: no role has one")


def test_a_rollout_whose_pointer_cannot_be_read_goes_on_when_it_can(bare: Fleet) -> None:
    roles(bare, os=acting(0.5), app=acting(0.5))
    nodes(bare, {HUB: Node()})
    stack(bare)
    annealer = bare.annealer(sweep_seconds=0.5).start()
    live = LiveRollout(bare, document([{"name": "all", "critical": True}]))
    bare.until(lambda: live.states() != {"hub": "not started"}, "it is under way")
    with unreadable(bare, paths.rollouts(DEPLOYMENT)):
        until_swept(bare, annealer)
        lines = annealer.said.count("\n")
        until_swept(bare, annealer)
        assert annealer.said.count("\n") - lines < 10
    assert live.until_over().head.state == "success"
    assert set(generations(bare).values()) == {1}


@pytest.mark.long
def test_a_rollout_of_which_a_part_cannot_be_read_is_told_once_and_goes_on_when_it_can(bare: Fleet) -> None:
    roles(bare, os=acting(), app=acting())
    nodes(bare, {HUB: Node()})
    stack(bare)
    live = LiveRollout(bare, document([{"name": "all", "critical": True}]))
    with unreadable(bare, paths.rollout(DEPLOYMENT, live.id, "groups/all")):
        annealer = bare.annealer().start()
        bare.until(lambda: annealer.metric("nodepool_ocb_turn_failures_total") >= 2, "it is tried again")
        assert annealer.said.count("the rollout of deployment") == 1
    assert live.until_over().head.state == "success"


DEEP: Final = b'{"a":' * 300 + b"1" + b"}" * 300


@pytest.mark.parametrize(
    ("layer", "garbage"),
    [(paths.user, b"{oops"), (paths.system, b"[1]"), (paths.wall, DEEP)],
    ids=["user", "system", "wall"],
)
def test_a_noderole_with_unreadable_inputs_waits_until_they_are_mended(
    bare: Fleet, layer: Callable[[str, str], str], garbage: bytes
) -> None:
    leaves = [f"n{number}.example.com" for number in range(8)]
    roles(bare, base=acting(), app=acting(), other=acting())
    nodes(bare, dict.fromkeys([HUB, *leaves], Node()))
    path = layer("base", HUB)
    bare.session.commit([Create(paths.noderole("base", HUB), NodeRole(state=State.ACTIVE, since=1.0, generation=1))])
    bare.session.commit([Create(path, {})])
    bare.session._client.set(path, garbage)
    waiting = [bare.bind("app", leaf, [BASE]) for leaf in leaves] + [bare.bind("other", HUB)]
    annealers = [bare.annealer(slots=2, sweep_seconds=0.5).start() for _ in range(2)]
    until_swept(bare, *annealers)
    before = sum(len(bare.runs(name)) for name in waiting)
    bare.until_state(bare.bind("other", leaves[0]), State.ACTIVE)  # the node is free for others
    until_swept(bare, *annealers)
    assert {bare.state(name) for name in waiting} == {State.TODO}
    assert sum(len(bare.runs(name)) for name in waiting) == before
    assert {bare.record(name).attempt for name in waiting} == {0}
    assert all(each.said.count("until they are mended") <= 1 for each in annealers)
    bare.session._client.set(path, b"{}")
    bare.until_all_active()


def test_a_refresh_that_would_see_attributes_that_cannot_be_read_waits_and_its_children_stay(bare: Fleet) -> None:
    roles(bare, base=acting(), app=acting())
    nodes(bare, {HUB: Node(), "n0.example.com": Node()})
    names = [bare.bind("base", HUB), bare.bind("app", "n0.example.com", [BASE])]
    annealer = bare.annealer(sweep_seconds=0.5).start()
    bare.until_all_active()
    bare.session.commit([Create(paths.user("base", HUB), {})])
    bare.session._client.set(paths.user("base", HUB), b"{oops")
    bare.happens(BASE, Event.REFRESH)
    bare.until(lambda: "until they are mended" in annealer.said, "it comes across them")
    until_swept(bare, annealer)
    assert bare.state(names[1]) is State.ACTIVE
    bare.session._client.delete(paths.user("base", HUB))
    bare.until(lambda: not bare.record(BASE).refresh and not bare.unfinished(), "it was run again")
    assert bare.record(names[1]).generation == 1


def test_a_hook_that_would_see_attributes_that_cannot_be_read_waits_until_they_are_mended(bare: Fleet) -> None:
    installed = package(
        bare.folder / "site", "from nodepool_ocb.catalogue.code import Role\nclass Watched(Role): ...\n"
    )
    roles(bare, watched=Role(barclamp="fleet", jig="noop", hooks=("on_todo",)))
    nodes(bare, {HUB: Node()})
    name = bare.bind("watched", HUB, hooks=("on_todo",))
    bare.session.commit([Create(paths.system("watched", HUB), {})])
    bare.session._client.set(paths.system("watched", HUB), b"{oops")
    annealer = bare.annealer(sweep_seconds=0.5).begin(PYTHONPATH=str(installed))
    bare.until(lambda: "until they are mended" in annealer.said, "it comes across them")
    until_swept(bare, annealer)
    assert bare.state(name) is State.TODO
    assert annealer.said.count("until they are mended") == 1
    bare.session._client.set(paths.system("watched", HUB), b"{}")
    bare.until_state(name, State.ACTIVE)


def test_a_hook_that_would_change_attributes_that_cannot_be_read_waits_until_they_are_mended(bare: Fleet) -> None:
    source = "from nodepool_ocb.catalogue.code import Role\nclass Watched(Role):\n"
    source += f"    def on_todo(self, hooked): hooked.set_system[{BASE!r}] = {{'told': True}}\n"
    installed = package(bare.folder / "site", source)
    roles(bare, base=acting(), watched=Role(barclamp="fleet", jig="noop", hooks=("on_todo",)))
    nodes(bare, {HUB: Node(), "n0.example.com": Node()})
    bare.session.commit([Create(paths.noderole("base", HUB), NodeRole(state=State.ACTIVE, since=1.0, generation=1))])
    bare.session.commit([Create(paths.system("base", HUB), {})])
    bare.session._client.set(paths.system("base", HUB), b"{oops")
    name = bare.bind("watched", "n0.example.com", hooks=("on_todo",))
    annealer = bare.annealer(sweep_seconds=0.5).begin(PYTHONPATH=str(installed))
    bare.until(lambda: "until they are mended" in annealer.said, "it comes across them")
    until_swept(bare, annealer)
    assert bare.state(name) is State.TODO
    bare.session._client.set(paths.system("base", HUB), b'{"kept": 1}')
    bare.until_state(name, State.ACTIVE)
    assert bare.blob(paths.system("base", HUB)) == {"kept": 1, "told": True}
