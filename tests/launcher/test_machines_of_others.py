"""A machine with the id that a record has, and with the stamp of another launch: it is neither used nor deleted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from nodepool_ocb.model.pool import PoolNodeState
from tests.launcher.launcher_fleet import LauncherFleet


def stamp_anew(launchers: LauncherFleet, cloud: str) -> Path:
    """The only machine becomes one of another cluster's node, as if the provider gave its id away."""
    (file,) = (launchers.folder / "clouds" / cloud / "machines").glob("*.json")
    document: dict[str, Any] = json.loads(file.read_text())
    document["machine"]["stamp"] |= {"cluster": "another", "node": "0000000099", "key": "another"}
    file.write_text(json.dumps(document))
    return file


def test_a_launch_takes_no_machine_with_another_stamp(launchers: LauncherFleet) -> None:
    launchers.launcher(launchers.cloud("north", options={"boot-seconds": 2.0})).start()
    request = launchers.request("small")
    launchers.until(lambda: [each for each in launchers.nodes().values() if each.external_id], "the machine has an id")
    theirs = stamp_anew(launchers, "north")
    (node,) = launchers.fulfilled(request, 60.0)
    assert node.external_id != theirs.stem
    assert theirs.exists()


def test_a_node_whose_id_has_another_machine_now_is_deleted_without_it(launchers: LauncherFleet) -> None:
    launchers.launcher(launchers.cloud("north")).start()
    request = launchers.request("small")
    launchers.fulfilled(request)
    locks = launchers.take(request)
    theirs = stamp_anew(launchers, "north")
    launchers.give_back(request, locks)
    launchers.until(lambda: not launchers.nodes(), "the record is deleted")
    assert theirs.exists()
    assert not launchers.nodes(PoolNodeState.DELETING)
