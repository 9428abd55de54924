"""What stands behind the demo: a private ZooKeeper, machines, and two annealers, in one folder.

``python tools/stage.py FOLDER`` prints one line of JSON when all of it is up, and takes all of it down, the folder
included, at SIGTERM or when its stdin closes; a line ``keep`` on stdin makes it outlive whoever started it.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import yaml

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.testing.machines import Farm
from nodepool_ocb.testing.processes import DaemonProcess
from nodepool_ocb.testing.zookeeper import Server

MACHINES: Final = 6
ANNEALERS: Final = ("annealer-1", "annealer-2")
TUNING: Final = {"probe_seconds": 5.0, "dead_probe_seconds": 0.5}  # a demo is short


def main(folder: Path) -> None:
    """Put everything up, say so, wait, take everything down."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    with ExitStack() as up:
        up.callback(shutil.rmtree, folder, ignore_errors=True)
        try:
            built = build(folder, up)
        except Exception as error:
            say({"failed": f"{type(error).__name__}: {error}"})
            return
        say(built)
        wait()
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # what is being taken down needs no second word


def build(folder: Path, up: ExitStack) -> dict[str, Any]:
    """Start everything; gives what the demo needs to know of it."""
    (folder / "pid").write_text(f"{os.getpid()}\n")
    server = up.enter_context(Server(fsync=False))
    farm = up.enter_context(Farm(MACHINES, folder / "machines"))
    zookeeper = ZooKeeperSettings(hosts=server.hosts, session_timeout_seconds=4.0)
    sections = {"ssh": farm.settings(), "annealer": TUNING}
    for name in ANNEALERS:
        up.enter_context(DaemonProcess(zookeeper, folder / name, sections))
    config = folder / "nodepool-ocb.yaml"
    config.write_text(yaml.safe_dump({"zookeeper": {"hosts": server.hosts}}))
    machines = [
        {"address": node.addresses[0], "user": node.user, "root": str(farm.state_dir(fqdn).parent / "root")}
        for fqdn, node in farm.records()
    ]
    return {"config": str(config), "zookeeper": server.hosts, "machines": machines}


def say(words: dict[str, Any]) -> None:
    print(json.dumps(words), flush=True)


def wait() -> None:
    """Until stdin closes, or for ever once somebody said ``keep``."""
    if "keep\n" in list(sys.stdin):
        while True:
            signal.pause()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
