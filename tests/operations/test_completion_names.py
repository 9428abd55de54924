"""The names that completion offers, without a command line."""

from __future__ import annotations

from typing import Any

import pytest

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.operations.completion.names import ReadNames
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
