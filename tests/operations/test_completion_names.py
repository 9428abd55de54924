"""The names that completion offers, without a command line."""

from __future__ import annotations

from typing import Any

import pytest

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.operations.completion.names import ReadNames
from nodepool_ocb.operations.requests.creating import RequestCreate
from nodepool_ocb.store.client.session import Session
from tests.cli.pools.played_launcher import PlayedLauncher
from tests.operations.performing import calm


@pytest.mark.usefixtures("world")
@pytest.mark.parametrize(
    ("kind", "given", "incomplete", "names"),
    [
        ("nodes", {}, "", {"n1.example.com"}),
        ("noderoles", {}, "top@n", {"top@n1.example.com"}),
        ("tags", {}, "", {"web"}),
        ("labels", {}, "", {"room=1"}),
        ("selectors", {}, "tag:w", {"tag:web"}),
        ("runs", {"name": "top@n1.example.com"}, "", set()),
    ],
)
def test_the_names_of_a_kind(
    zk_settings: ZooKeeperSettings, kind: str, given: dict[str, Any], incomplete: str, names: set[str]
) -> None:
    assert calm(zk_settings).read(iter(ReadNames(kind, given, incomplete))) == names


def test_the_names_of_requests_nodes_labels_and_pools(zk_settings: ZooKeeperSettings, zk_session: Session) -> None:
    launcher = PlayedLauncher(zk_session)
    launcher.registers("small", "large")
    node = launcher.makes()
    calm(zk_settings).perform(RequestCreate(labels=("small",)))
    (request,) = launcher.requests()
    expected = {
        "requests": {request},
        "leases": {node},
        "pools": {"west/main"},
        "pool_labels": {"small", "large"},
        "pool_providers": {"west"},
    }
    assert {kind: calm(zk_settings).read(iter(ReadNames(kind, {}, ""))) for kind in expected} == expected
