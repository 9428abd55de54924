"""The fifth scene: a launcher lends a machine; a command runs with it, and the node is deleted after its use."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

from play import PATIENCE_SECONDS, Failed, Play

LABEL: Final = "lent"
SCRIPT: Final = 'ssh -n -F "$LEASE_SSH_CONFIG" "$LEASE_NAME" echo a command on a lent machine'


class LeasesScene:
    """``acts`` are to be played in order."""

    def __init__(self, play: Play) -> None:
        self._play = play
        self.acts = (self.open, self.run)

    def open(self) -> None:
        self._play.title("Leases")
        self._play.say(
            f"A launcher knows a machine with the label {LABEL}. A provider of containers or of a cloud would launch one for"
            " each request. This machine exists; its slot is a node of the pool, and is ready:"
        )
        self._until(lambda nodes: [each["state"] for each in nodes] == ["ready"])
        self._play.run("pool list")
        self._play.run("lease list")

    def run(self) -> None:
        (before,) = self._nodes()
        self._play.say("A command asks for a node, locks it, gets a new key on it, runs, and returns it:")
        self._play.run(f"lease run --label {LABEL} --wait-timeout {PATIENCE_SECONDS:.0f}s -- sh -c '{SCRIPT}'")
        self._play.say(
            "The used node is deleted. After a check of the machine, its slot is a new node for the next client:"
        )
        self._until(lambda nodes: [each["state"] for each in nodes] == ["ready"] and nodes[0]["name"] != before["name"])
        self._play.run("lease list")

    def _nodes(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._play.ask("lease", "list")
        return found

    def _until(self, holds: Callable[[list[dict[str, Any]]], bool]) -> None:
        """Wait for the nodes of the pool; Failed where that takes too long."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not holds(self._nodes()):
            if time.monotonic() > deadline:
                raise Failed("the pool did not come to that; nodepool-ocb lease list tells more")
            time.sleep(0.2)
