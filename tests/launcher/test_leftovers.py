"""Leftovers of clients among requests and nodes are deleted; a lock that a client holds stays."""

from __future__ import annotations

import pytest

from nodepool_ocb.model import paths
from nodepool_ocb.model.records import LockOwner
from tests.launcher.launcher_fleet import LauncherFleet


def held_lock(launchers: LauncherFleet, path: str) -> None:
    owner = LockOwner(daemon="test", host="test", pid=0, purpose="in use", since=launchers.session.now())
    assert launchers.locks.take(path, owner) is not None


def test_locks_of_requests_that_are_gone_are_deleted_unless_they_are_held(launchers: LauncherFleet) -> None:
    launchers.session.ensure(paths.request_lock("100-0000000007"))
    held_lock(launchers, paths.request_lock("100-0000000008"))
    launchers.launcher(launchers.cloud("north"), sweep_seconds=0.5).start()
    launchers.until(
        lambda: launchers.session.children(paths.REQUEST_LOCKS) == ["100-0000000008"], "the lock without a request goes"
    )


@pytest.mark.long
def test_a_node_without_data_is_deleted_with_the_folder_of_its_lock_unless_that_is_held(
    launchers: LauncherFleet,
) -> None:
    launchers.session.ensure(paths.pool_node("0000000007"), *map(paths.pool_node_lock, ("0000000008", "0000000009")))
    held_lock(launchers, paths.pool_node_lock("0000000009"))
    launchers.launcher(launchers.cloud("north"), sweep_seconds=0.5).start()
    launchers.until(lambda: launchers.session.children(paths.POOL_NODES) == ["0000000009"], "the nodes without data go")
