"""The fifth scene: a request gets a node of a pool, whose roles are ACTIVE; a command runs with it; the node is deleted.

The node is a container of the image of the scene before. Without a container engine it is a machine of the stage.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import yaml
from play import PATIENCE_SECONDS, Failed, Play

LABEL: Final = "lent"
SCRIPT: Final = 'ssh -n -F "$LEASE_SSH_CONFIG" "$LEASE_NAME" "hostname; cat {files}"'
MOTD: Final = r"\$OCB_ROOT/etc/motd"  # the output of a role

Nodes = list[dict[str, Any]]


class LeasesScene:
    """``acts`` are to be played in order."""

    def __init__(self, play: Play) -> None:
        self._play = play
        self._container = play.built["no_engine"] is None
        self._request = ""
        self.acts = (self.open, self.request, self.withdraw, self.run)

    def open(self) -> None:
        play, pools = self._play, Path(self._play.built["pools"])
        play.title("Leases")
        if self._container:
            play.say(
                "A launcher serves requests for nodes. Its file nodepool.yaml now gets a label: containers of the newest build"
                " of the image above. Each is also a node of this cluster, with the roles of every new node:"
            )
        else:
            play.say(
                "A launcher serves requests for nodes. Its file nodepool.yaml now gets a label. Containers of the image above"
                f" need a container engine, and there is none: {play.built['no_engine']}. So the label has a machine of this"
                " stage. It is also a node of this cluster, with the roles of every new node:"
            )
        text = yaml.safe_dump(play.built["lent"], sort_keys=False)
        new = pools.with_suffix(".new")
        new.write_text(text)
        new.replace(pools)
        play.type(f"cat {pools}")
        play.answer(text.strip())
        self._until(lambda: bool(play.ask("pool", "list")), "the launcher has the label; nodepool-ocb pool list")
        play.run("pool list")

    def request(self) -> None:
        play = self._play
        play.say("A request asks for a node. It is fulfilled when the roles of the node are ACTIVE:")
        play.run(f"request create --label {LABEL} --wait --timeout {PATIENCE_SECONDS:.0f}")
        (request,) = play.ask("request", "list")
        self._request = request["name"]
        (node,) = self._nodes()
        play.run("lease list")
        play.run(f"noderole list -l {node['hostname']}")

    def withdraw(self) -> None:
        self._play.say("The request is withdrawn. Its node was never used, so it is ready for the next client:")
        self._play.run(f"request delete --yes {self._request}", quiet=True)

    def run(self) -> None:
        play = self._play
        (before,) = self._nodes()
        play.say("A command asks for a node, locks it, gets a new key on it, runs with it, and returns it:")
        script = SCRIPT.format(files=f"/etc/build {MOTD}" if self._container else MOTD)
        play.run(f"lease run --label {LABEL} --wait-timeout {PATIENCE_SECONDS:.0f}s -- sh -c '{script}'")
        if self._container:
            play.say("The used node is deleted, with its container and its noderoles:")
            self._until(lambda: not self._nodes(), "no node; nodepool-ocb lease list")
        else:
            play.say("The used node is deleted. The machine is checked, and is a new node for the next client:")
            self._until(
                lambda: [each["state"] for each in self._nodes() if each["name"] != before["name"]] == ["ready"],
                "a new node; nodepool-ocb lease list",
            )
        play.run("lease list")
        if self._container:
            self._containers()

    def _containers(self) -> None:
        """Print the containers of the engine that the image and the nodes are at: none."""
        host = [f"--host={self._play.built['engine']}"] if self._play.built["engine"] else []
        words = ["docker", *host, "ps", "--all", "--filter", "label=nodepool_ocb_cluster"]
        self._play.type(" ".join(words))
        self._play.answer(subprocess.run(words, capture_output=True, text=True, check=False).stdout.strip())

    def _nodes(self) -> Nodes:
        found: Nodes = self._play.ask("lease", "list")
        return found

    def _until(self, holds: Callable[[], bool], wanted: str) -> None:
        """Wait; Failed where that takes too long. ``wanted``: the state, and the command that tells more."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not holds():
            if time.monotonic() > deadline:
                raise Failed(f"this did not come true: {wanted} tells more")
            time.sleep(0.2)
