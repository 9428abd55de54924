"""The rows of record kinds decide which writes a World reports, and which data it shows."""

from __future__ import annotations

from nodepool_ocb.engine.world import World
from nodepool_ocb.model.records import Cluster, Daemon, Node, Record, Role, Structure
from nodepool_ocb.store.client.frames import Znode
from nodepool_ocb.store.world.kinds import ReadRecord
from nodepool_ocb.store.world.load import WorldTree
from nodepool_ocb.store.world.paths import Listing, WorldPath


def reported(tree: WorldTree, at: WorldPath, record: Record, version: int) -> bool:
    """Whether the tree reports a change of this kind after a record was shown."""
    tree.show(at, ReadRecord(record, version, 10 + version))
    return tree.changes().has(at.kind)


def test_each_write_of_a_role_is_reported_and_of_a_daemon_another_content_alone() -> None:
    tree = WorldTree(World())
    role, daemon = Role(barclamp="b", jig="noop"), Daemon(host="h", pid=1, version="0", started=0.0)
    at = WorldPath(Role, "ntp")
    assert [reported(tree, at, role, version) for version in range(2)] == [True, True]
    at = WorldPath(Daemon, "annealer", "a")
    assert [reported(tree, at, daemon, version) for version in range(2)] == [True, False]
    assert reported(tree, at, Daemon(host="g", pid=1, version="0", started=0.0), 2)


def test_no_write_of_the_cluster_is_reported() -> None:
    assert not reported(WorldTree(World()), WorldPath(Cluster), Cluster(id="c"), 0)


def test_data_of_another_kind_is_not_shown() -> None:
    tree = WorldTree(World())
    for data in (None, {"a": 1}, Role(barclamp="b", jig="noop")):
        tree.show(WorldPath(Node, "n1"), ReadRecord(data, 0, 10))
    assert not tree.world.nodes
    assert not tree.changes()


def test_a_structure_that_cannot_be_read_counts_as_gone_after_a_listing() -> None:
    tree = WorldTree(World())
    tree.put("/ocb/structure", Znode("/ocb/structure", b"{oops", 1, 11))
    assert tree.world.unreadable
    listed = Listing({})
    assert (listed.has(WorldPath(Structure)), listed.has(WorldPath(Cluster))) == (False, True)
