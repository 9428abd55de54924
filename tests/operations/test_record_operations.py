"""Operations on records, locks and the whole cluster, without a command line."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.engine.structure import stored
from nodepool_ocb.errors import Ambiguous, Conflict, NoCluster, NotFound
from nodepool_ocb.model import limits, paths
from nodepool_ocb.model.images import Build, BuildState
from nodepool_ocb.model.records import Change, Claim, Create, Delete, LockOwner, Role, Run, Set
from nodepool_ocb.operations.records.deleting import RecordDelete
from nodepool_ocb.operations.records.graph import GraphDraw
from nodepool_ocb.operations.records.locking import LockList
from nodepool_ocb.operations.records.reading import RecordList, RecordShow
from nodepool_ocb.store.client.session import Session, Stats
from nodepool_ocb.store.world.load import load_world
from tests.operations.performing import calm, faster_writer

N1 = "n1.example.com"
BROKEN = b"{oops"


def hold(session: Session, lock: str, daemon: str) -> None:
    holder = LockOwner(daemon=daemon, host="h", pid=1, purpose="p", since=1.0)
    session.ensure(lock)
    session.commit([Create(f"{lock}/5f__lock__0000000002", holder, ephemeral=True)])


def build_and_break(session: Session, image: str) -> str:
    """The path of a build with a record that cannot be read."""
    session.ensure(paths.builds(image))
    path = paths.build(image, "0000000001")
    build = Build(builder="b", builder_id="b", filename="f", state=BuildState.READY, state_time=1.0)
    session.commit([Create(path, build)])
    session._client.set(path, BROKEN)
    return path


def test_claims_and_locks_are_listed_and_a_broken_build_is_named(
    world: Session, zk_settings: ZooKeeperSettings
) -> None:
    claim = Claim(annealer="a1", noderole=f"base@{N1}", run="0000000001-a", epoch=1, since=1.0)
    world.commit([Create(paths.claim(N1), claim, ephemeral=True)])
    broken = build_and_break(world, "jammy")
    hold(world, paths.build_lock("jammy"), "b1")
    hold(world, paths.WEBHOOK_LOCK, "a2")
    alone = calm(zk_settings)
    found = alone.perform(LockList()).answer
    assert [(row.kind, row.name, row.owner) for row in found] == [
        ("node", N1, "a1"),
        ("webhook", "journal", "a2"),
        ("image", "jammy", "b1"),
    ]
    assert any(note.startswith(f"warning: {broken} is left out") for note in alone.heard.notes)


def test_records_are_listed_and_shown_though_the_record_of_the_cluster_is_broken(
    world: Session, zk_settings: ZooKeeperSettings
) -> None:
    broken = paths.CLUSTER
    world._client.set(broken, BROKEN)
    assert [row.path for row in calm(zk_settings).perform(RecordList()).answer] == [broken]
    shown = calm(zk_settings).perform(RecordShow(path=broken)).answer
    assert (shown.kind, shown.data, shown.cannot_be_read is not None) == ("Cluster", BROKEN.decode(), True)


def test_a_path_without_a_record_is_refused_and_a_place_without_a_cluster_is_named(
    world: Session, zk_settings: ZooKeeperSettings
) -> None:
    with pytest.raises(NotFound, match="nothing is at /ocb/roles/nothing"):
        calm(zk_settings).perform(RecordShow(path=paths.role("nothing")))
    with pytest.raises(Ambiguous, match="a path begins with /ocb"):
        calm(zk_settings).perform(RecordShow(path="/zookeeper/quota"))
    cluster = world.get(paths.CLUSTER)
    assert cluster is not None
    world.commit([Delete(paths.CLUSTER, cluster.version)])
    with pytest.raises(NoCluster):
        calm(zk_settings).perform(RecordShow(path=paths.role("nothing")))


def test_a_record_that_is_mended_before_the_commit_is_not_deleted(
    world: Session, zk_settings: ZooKeeperSettings
) -> None:
    path = paths.role("other")
    world._client.set(path, BROKEN)

    def mend() -> None:
        znode = world.get(path)
        assert znode is not None
        Session.commit(world, [Set(path, Role(barclamp="chain", jig="noop"), znode.version)])

    with faster_writer(mend) as acted, pytest.raises(Conflict, match="changed meanwhile"):
        calm(zk_settings).perform(RecordDelete(path=path, force=True))
    assert acted
    assert "other" in load_world(world).roles


def test_a_deletion_goes_on_after_another_writer_raised_the_structure_between_its_parts(
    world: Session, zk_settings: ZooKeeperSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer names all records that went, also those of the part before."""
    run = Run(annealer="a", started=1.0, ended=2.0, outcome="succeeded", generation=1, epoch=1)
    runs = [paths.run("top", N1, f"{number:010}-a") for number in range(limits.MOST_CHANGES + 10)]
    world.commit([Create(path, run) for path in runs])
    path = paths.noderole("top", N1)
    world._client.set(path, BROKEN)
    real, parts = Session.commit, list[int]()

    def commit(session: Session, changes: Sequence[Change]) -> Stats:
        parts.append(len(changes))
        if len(parts) == 2:
            known = stored(load_world(world))
            real(world, [Set(paths.STRUCTURE, known.record, known.version)])
        return real(session, changes)

    monkeypatch.setattr(Session, "commit", commit)
    answer = calm(zk_settings).perform(RecordDelete(path=path)).answer
    assert len(parts) == 3  # the second is refused
    assert {each.path for each in answer} >= {path, *runs}
    assert world.get(path) is None


@pytest.mark.usefixtures("world")
def test_a_graph_has_the_noderoles_that_are_asked_for(zk_settings: ZooKeeperSettings) -> None:
    def names(**fields: str) -> set[str]:
        return {each.name for each in calm(zk_settings).perform(GraphDraw(**fields)).answer.nodes}

    every = {f"{role}@{N1}" for role in ("base", "middle", "top")}
    assert names() == names(around=f"middle@{N1}") == every
    assert names(selector="role:top") == {f"top@{N1}"}
    assert names(deployment="system") == set()
    with pytest.raises(NotFound):
        names(deployment="nowhere")
