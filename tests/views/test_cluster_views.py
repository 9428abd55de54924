"""The cluster, its znodes and the configuration as they are shown."""

from __future__ import annotations

from nodepool_ocb.views import cluster
from nodepool_ocb.views.cluster import ClusterRow, ConfigDocument, Deleted, NodepoolNames, RecordDocument
from nodepool_ocb.views.view import plain


def test_documents_have_their_keys_in_order() -> None:
    row = ClusterRow(cluster="c1", place="/ocb", admin_domain=None, made=True)
    assert list(plain(row).items()) == [("cluster", "c1"), ("place", "/ocb"), ("admin_domain", None), ("made", True)]
    assert list(plain(Deleted(path="/ocb/x")).items()) == [("change", "delete"), ("path", "/ocb/x")]


def test_of_a_long_record_a_table_has_the_beginning() -> None:
    record = RecordDocument(
        path="/ocb/x",
        kind=None,
        cannot_be_read=None,
        version=1,
        bytes=1,
        session=None,
        since=1.0,
        below=(),
        data="a" * 4007,
    )
    assert cluster.excerpt(record) == "a" * 4000 + " ... and 7 characters more"
    assert list(plain(record))[-1] == "data"


def test_a_configuration_has_a_line_for_each_key_and_says_where_there_is_no_nodepool() -> None:
    bare = ConfigDocument(file=None, zookeeper_reached=None, settings={"admin_domain": None, "annealer": {"slots": 3}})
    assert list(plain(bare)) == ["file", "zookeeper_reached", "settings"]
    assert cluster.config_words(bare) == {
        "file": None,
        "zookeeper": "not asked (--offline)",
        "admin_domain": None,
        "annealer.slots": 3,
        "nodepool file": "there is none; only builders and launchers need it",
    }
    found = NodepoolNames(file="/n.yaml", diskimages=("a",), providers=(), labels=())
    whole = ConfigDocument(file="/c.yaml", zookeeper_reached=True, settings={}, nodepool=found)
    assert plain(whole)["nodepool"] == {"file": "/n.yaml", "diskimages": ["a"], "providers": [], "labels": []}
    assert cluster.config_words(whole)["nodepool diskimages"] == ["a"]
