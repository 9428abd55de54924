"""A step of the launcher that fails keeps no lock, and delays no other launch at its provider."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from nodepool_ocb.config import Settings, ZooKeeperSettings
from nodepool_ocb.errors import Unavailable
from nodepool_ocb.model import paths
from nodepool_ocb.model.pool import PoolNodeState, launch_facts
from nodepool_ocb.pool.configuration import LaunchProvider, PoolConfiguration, PoolLabel, PoolLabelPolicy, ProviderPool
from nodepool_ocb.pool.instructions import FailNode
from nodepool_ocb.pool.launches.launching import LaunchAction, LaunchStep
from nodepool_ocb.pool.launches.refusals import quota_refusals
from nodepool_ocb.providers import launching
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.pool.cache import PoolCache
from nodepool_ocb.store.pool.journal import PoolJournal
from nodepool_ocb.store.pool.nodes import HeldNode, NodeWriter
from nodepool_ocb_launcher.carrying import InstructionCarrier
from nodepool_ocb_launcher.context import LauncherContext
from nodepool_ocb_launcher.launching import Launch, parts
from nodepool_ocb_launcher.work import NodeWork
from nodepool_ocb_launcher.works import NodeWorks
from tests.launcher.launcher_fleet import LauncherFleet


@pytest.fixture
def context(launchers: LauncherFleet) -> Iterator[LauncherContext]:
    """A launcher with the label ``small``, of the image ``debian``."""
    label = PoolLabel(name="small", diskimage="debian")
    pool = ProviderPool(name="main", provider="north", labels={"small": label})
    options = {"fake-cloud": {"directory": str(launchers.folder / "north")}}
    north = LaunchProvider(name="north", driver="fake", pools={"main": pool}, options=options)
    file = PoolConfiguration(labels={"small": PoolLabelPolicy(name="small")}, providers={"north": north})
    settings = Settings()
    with Session(ZooKeeperSettings(hosts=launchers.server.hosts + launchers.chroot)) as session:
        calls = {"north": launching.open(north, settings.ssh)}
        yield LauncherContext(session, settings, file, calls, lambda: None)


def _node(context: LauncherContext) -> HeldNode:
    """A new node of the label, locked."""
    writer = NodeWriter(context.session, context.locks, context.holder)
    held = writer.create("launch", provider="north", pool="main", type=("small",), driver_data={"key": ""})
    assert held is not None
    return held


def test_a_launch_whose_image_went_is_no_refusal_of_the_provider(context: LauncherContext) -> None:
    held = _node(context)
    found = parts(context, held.record)
    assert found is not None
    Launch(context, held, found).take(LaunchStep(action=LaunchAction.WRITE_NAME))
    facts = launch_facts(held.record)
    assert facts is not None
    assert (held.record.state, facts.party) == (PoolNodeState.ABORTED, "image")
    assert held.record.reason == "image debian has no ready upload at north"
    cache = PoolCache(context.session, context.locks, lambda: None)
    cache.load()
    assert len(cache.view().nodes) == 1
    assert quota_refusals(cache.view().nodes.values()) == {}


def test_a_failure_that_cannot_be_written_frees_the_node(
    context: LauncherContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    def enter(*_: object, **__: object) -> None:
        raise Unavailable("no answer")

    held = _node(context)
    held.release()
    cache = PoolCache(context.session, context.locks, lambda: None)
    cache.load()
    step = FailNode(node=held.id, version=0, reason="too late")
    monkeypatch.setattr(HeldNode, "enter", enter)
    with pytest.raises(Unavailable):
        InstructionCarrier(context, NodeWorks(context, lambda: None), lambda: None).carry_out(cache.view(), [step])
    assert context.locks.get(paths.pool_node_lock(held.id)) is None


def test_a_node_that_is_given_up_while_its_launch_begins_to_wait_is_deleted_at_once(
    context: LauncherContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = _node(context)
    work = NodeWork(context, held)

    def step(_: Launch) -> LaunchStep:
        work.delete("its label is gone")  # by the turn, on its own thread
        return LaunchStep(action=LaunchAction.WAIT, seconds=1800.0)

    monkeypatch.setattr(Launch, "step", step)
    work.run()
    assert context.session.get(paths.pool_node(held.id)) is None
    assert work.over


def test_a_last_write_without_an_answer_gives_the_node_up(
    context: LauncherContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = _node(context)
    work = NodeWork(context, held)
    monkeypatch.setattr(Launch, "step", lambda _: LaunchStep(action=LaunchAction.SET_READY))
    monkeypatch.setattr(Launch, "take", lambda *_: held.finish(PoolNodeState.ABORTED))
    monkeypatch.setattr(PoolJournal, "commit", _no_answer)
    work.run()
    assert held.given_up
    assert not work.over, "the lock may still stand"
    monkeypatch.undo()
    work.run()
    assert work.over, "the work does not wait for a lock that it gave up"


def _no_answer(*_: object, **__: object) -> None:
    raise Unavailable("no answer")
