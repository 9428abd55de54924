"""Writers that meet: the record of another stays, the second looks again, and one that cannot go on writes nothing."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from nodepool_ocb.errors import Conflict, Stale, Unavailable
from nodepool_ocb.model import paths
from nodepool_ocb.model.images import Build, BuildState
from nodepool_ocb.model.records import Create, Deployment, RolloutPointer, Set
from nodepool_ocb.store import images, rollouts
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.images import ImageCache
from nodepool_ocb.store.tasks import lists
from tests.store.test_rollouts import read, rollout


@pytest.fixture
def session(zk_session: Session) -> Session:
    """With deployment lab."""
    zk_session.commit([Create(paths.deployment("lab"), Deployment(parent="system"))])
    return zk_session


def pointer(session: Session) -> tuple[RolloutPointer, int]:
    znode = session.get(paths.rollouts("lab"))
    assert znode is not None
    return codec.decode(RolloutPointer, znode), znode.version


def test_a_rollout_that_begins_keeps_all_else_that_the_pointer_says(session: Session) -> None:
    session.ensure(paths.ROLLOUTS)
    session.commit([Create(paths.rollouts("lab"), RolloutPointer(id_base=6, driver="a1", since=3.0))])
    begun = rollout()
    identity = rollouts.begin(session, "lab", begun)
    assert identity == "0000000007"
    expected = RolloutPointer(newest=identity, over=False, id_base=6, since=begun.head.started)
    assert pointer(session) == (expected, 1)


def test_a_rollout_that_may_not_begin_takes_no_number(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    rollouts.begin(session, "lab", rollout())
    monkeypatch.setattr(rollouts, "_next", lambda *_: pytest.fail("a number is taken"))
    with pytest.raises(Conflict, match="is under way"):
        rollouts.begin(session, "lab", rollout())


def test_a_rollout_begins_with_the_pointer_as_another_left_it_a_moment_ago(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    entered, writes = rollouts.lines.entered, [5.0]

    def meanwhile(*given: Any) -> Any:
        found = entered(*given)
        if writes and len(session.children(paths.rollouts("lab")) or ()) == 1:
            known, version = pointer(session)
            session.commit([Set(paths.rollouts("lab"), replace(known, id_base=4, since=writes.pop()), version)])
        return found

    monkeypatch.setattr(rollouts.lines, "entered", meanwhile)
    identity = rollouts.begin(session, "lab", rollout())
    assert writes == []
    assert pointer(session)[0].id_base == 4
    assert read(session, identity)[0].head.state is not None


@pytest.mark.parametrize("times", [1, lists.ATTEMPTS])
def test_settings_are_written_over_those_that_another_wrote_meanwhile(
    session: Session, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    lists.configure(session, "lab", {"a": 0}, None, None)
    commit, left = session.commit, [times]

    def meanwhile(changes: Any) -> Any:
        if left[0]:
            left[0] -= 1
            znode = session.get(paths.deployment_tasks("lab") + "/settings")
            assert znode is not None
            commit([Set(znode.path, codec.decode(lists.TaskSettings, znode), znode.version)])
        return commit(changes)

    monkeypatch.setattr(session, "commit", meanwhile)
    if times == 1:
        lists.configure(session, "lab", {"a": 1}, "ann", None)
        assert lists.read(session, lists.deployment("lab")).settings == {"a": 1}
    else:
        with pytest.raises(Stale):
            lists.configure(session, "lab", {"a": 1}, "ann", None)
        assert lists.read(session, lists.deployment("lab")).settings == {"a": 0}


def test_an_image_that_could_not_be_read_is_read_by_the_next_sweep(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    session.ensure(paths.builds("jammy"))
    cache = ImageCache(session, lambda: None)
    cache.load()
    record = Build(builder="h", builder_id="b1", filename="f", state_time=1.0, formats=(), state=BuildState.READY)
    session.create_next(paths.builds("jammy") + "/", record)
    session.sync()

    def fails(*_: Any) -> Any:
        raise Unavailable("no connection")

    with monkeypatch.context() as cut:
        cut.setattr(images, "read", fails)
        with pytest.raises(Unavailable):
            cache.refresh()
    cache._swept = session.last_zxid  # nothing was written since
    cache.sweep()
    assert [len(view.builds) for view in cache.images.values()] == [1]
