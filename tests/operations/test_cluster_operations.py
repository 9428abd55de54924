"""Operations on the cluster itself, without a command line."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.errors import Conflict, NoCluster
from nodepool_ocb.operations.cluster.founding import InitCluster
from nodepool_ocb.operations.cluster.rights import AclCheck, AclInit
from nodepool_ocb.operations.nodes.reading import NodeList
from nodepool_ocb.store import clusters
from nodepool_ocb.store.client.session import Session
from tests.operations.performing import calm, faster_writer


@pytest.fixture
def empty(zk_settings: ZooKeeperSettings) -> ZooKeeperSettings:
    """A place without a cluster."""
    return replace(zk_settings, hosts=f"{zk_settings.hosts}/new")


def test_of_two_that_make_a_cluster_the_slower_one_finds_it(empty: ZooKeeperSettings) -> None:
    with Session(empty) as other, faster_writer(lambda: clusters.bootstrap(other, admin_domain="example.com")) as acted:
        performed = calm(empty).perform(InitCluster())
    assert acted == [1]
    row = performed.answer.row
    assert row is not None
    assert (row.made, row.admin_domain, performed.rows) == (False, "example.com", ())
    with pytest.raises(Conflict, match="is there already, with "):
        calm(empty).perform(InitCluster(admin_domain="example.org"))


def test_a_cluster_is_made_with_its_entry_in_the_journal(empty: ZooKeeperSettings) -> None:
    dry = calm(empty, dry_run=True).perform(InitCluster())
    assert (dry.answer.row, [row.kind for row in dry.rows]) == (None, ["cluster", "key for logs", "deployment"])
    with pytest.raises(NoCluster):
        calm(empty).perform(NodeList())
    mine = calm(empty)
    made = mine.perform(InitCluster(admin_domain="example.com")).answer.row
    assert made is not None
    assert made.made
    assert calm(empty).perform(NodeList()).answer == []


def test_rights_that_differ_are_named_and_set(zk_session: Session, zk_settings: ZooKeeperSettings) -> None:
    clusters.parents(zk_session)
    mine = calm(zk_settings)
    assert mine.perform(AclCheck()).answer.rows == ()
    assert mine.perform(AclInit()).answer.rows == ()
