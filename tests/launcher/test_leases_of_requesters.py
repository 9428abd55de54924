"""``lease run`` with the user of requesters: it needs no right of people, and it leaves no entry in the journal."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import msgspec
import pytest

from nodepool_ocb.model import paths
from nodepool_ocb.model.rights import ClientKind
from nodepool_ocb.testing.zookeeper.guarded import Guarded
from tests.cli.background_command import COMMAND
from tests.launcher.test_users_of_launchers import GuardedFleet


@pytest.mark.long
def test_a_requester_runs_a_command_with_a_node(tmp_path: Path) -> None:
    with Guarded() as world, GuardedFleet(world, tmp_path) as fleet:
        config, identity = tmp_path / "requester.yaml", tmp_path / "id"
        zookeeper = msgspec.to_builtins(world.settings_of(ClientKind.REQUESTER, "/c"))
        config.write_text(
            json.dumps({"zookeeper": {key: value for key, value in zookeeper.items() if value is not None}})
        )
        identity.touch()
        entries = fleet.people.children(paths.JOURNAL_ENTRIES) or []
        words = ["lease", "run", "--label", "small", "--identity", str(identity), "--wait-timeout", "60s"]
        done = subprocess.run(
            [*COMMAND, "--config", str(config), *words, "--", "sh", "-c", 'echo "$LEASE_ADDRESS"; exit 7'],
            capture_output=True,
            text=True,
            timeout=120,
            stdin=subprocess.DEVNULL,
            env={**os.environ, "TMPDIR": str(tmp_path)},
        )
        assert (done.returncode, done.stdout) == (7, "127.0.0.1\n"), done.stderr
        fleet.until(lambda: not fleet.nodes(), "the used node is deleted")
        assert (fleet.people.children(paths.JOURNAL_ENTRIES) or []) == entries
