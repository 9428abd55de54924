"""The servers of the demo: a private ZooKeeper, machines, two annealers, two builders and a launcher, in one folder.

``python tools/stage.py FOLDER`` prints one line of JSON when all of it is up, and takes all of it down, the folder
included, at SIGTERM or when its stdin closes. A line ``keep`` on stdin makes it outlive its parent.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import yaml

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Cluster
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.testing.machines import Farm
from nodepool_ocb.testing.processes import BUILDER, LAUNCHER, DaemonProcess
from nodepool_ocb.testing.zookeeper.server import Server, init

MACHINES: Final = 27  # of which the scenes take six, twelve and eight, and the launcher lends the last
ANNEALERS: Final = ("annealer-1", "annealer-2")
BUILDERS: Final = ("builder-1", "builder-2")
SCRIPT: Final = """
echo "A root file system with nothing but a shell"
mkdir -p root/bin root/etc
cp -L /bin/sh root/bin/sh
for library in $(ldd /bin/sh | grep -o '/[^ ]*'); do
    mkdir -p "root$(dirname "$library")"
    cp -L "$library" "root$library"
done
echo "build $NODEPOOL_OCB_BUILD of $NODEPOOL_OCB_IMAGE" | tee root/etc/motd
tar --create --owner=0 --group=0 --directory root --file "$NODEPOOL_OCB_OUTPUT_TAR" .
echo "$(stat --format %s "$NODEPOOL_OCB_OUTPUT_TAR") bytes"
"""
IMAGE: Final = {
    "name": "cell",
    "backend": "command",
    "options": {"argv": ["/bin/sh", "-euc", SCRIPT]},
    "formats": ["tar"],
}
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
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the stage is going down already


def build(folder: Path, up: ExitStack) -> dict[str, Any]:
    """Start everything; returns the data that the demo needs."""
    (folder / "pid").write_text(f"{os.getpid()}\n")
    server = up.enter_context(Server(fsync=False))
    farm = up.enter_context(Farm(MACHINES, folder / "machines"))
    zookeeper = init(ZooKeeperSettings(hosts=server.hosts, session_timeout_seconds=4.0))
    sections = {"ssh": farm.settings(), "annealer": TUNING}
    for name in ANNEALERS:
        up.enter_context(DaemonProcess(zookeeper, folder / name, sections))
    providers = places(folder)
    if "docker" in providers:
        up.callback(remove_docker_images, zookeeper)
    for name in BUILDERS:
        nodepool = {
            "images-dir": str(folder / name / "images"),
            "diskimages": [IMAGE],
            "providers": [*providers.values()],
        }
        (folder / name).mkdir()
        (folder / name / "nodepool.yaml").write_text(yaml.safe_dump(nodepool))
        up.enter_context(DaemonProcess(zookeeper, folder / name, launcher=BUILDER))
    machines = [
        {"address": node.addresses[0], "user": node.user, "root": str(farm.state_dir(fqdn).parent / "root")}
        for fqdn, node in farm.records()
    ]
    (folder / "launcher").mkdir()
    (folder / "launcher/nodepool.yaml").write_text(yaml.safe_dump(rack(machines[-1])))
    up.enter_context(DaemonProcess(zookeeper, folder / "launcher", {"ssh": farm.settings()}, launcher=LAUNCHER))
    config = folder / "nodepool-ocb.yaml"
    config.write_text(yaml.safe_dump({"zookeeper": {"hosts": server.hosts}, "ssh": farm.settings()}))
    return {
        "config": str(config),
        "zookeeper": server.hosts,
        "machines": machines,
        "providers": sorted(providers),
        "provider_directory": providers["local"]["directory"],
    }


def places(folder: Path) -> dict[str, dict[str, Any]]:
    """Where images go: a directory, and the local container engine where one answers."""
    carried = [{"name": IMAGE["name"]}]
    found = {"local": {"driver": "local", "directory": str(folder / "provider")}}
    if shutil.which("docker") and not subprocess.run(["docker", "info"], capture_output=True, check=False).returncode:
        found["docker"] = {"driver": "docker", "repository": "nodepool-ocb-demo"}
    return {name: {"name": name, "format": "tar", "diskimages": carried, **keys} for name, keys in found.items()}


def rack(machine: dict[str, Any]) -> dict[str, Any]:
    """The nodepool.yaml of a launcher that lends one machine."""
    host, _, port = machine["address"].rpartition(":")
    node = {"name": host, "labels": ["lent"], "username": machine["user"], "connection-port": int(port)}
    provider = {"name": "rack", "driver": "static", "pools": [{"name": "main", "nodes": [node]}]}
    return {"labels": [{"name": "lent"}], "providers": [provider]}


def remove_docker_images(zookeeper: ZooKeeperSettings) -> None:
    """Remove the images that the builders sent to the engine, by this cluster's stamp."""
    with Session(zookeeper) as session:
        znode = session.get(paths.CLUSTER)
    if znode is not None:
        stamp = f"label=nodepool_ocb_cluster={codec.decode(Cluster, znode).id}"
        listed = subprocess.run(
            ["docker", "images", "-q", "--filter", stamp], capture_output=True, text=True, check=False
        )
        if ids := listed.stdout.split():
            subprocess.run(["docker", "rmi", "--force", *ids], capture_output=True, check=False)


def say(words: dict[str, Any]) -> None:
    print(json.dumps(words), flush=True)


def wait() -> None:
    """Wait until stdin closes, or for ever after a line ``keep``."""
    if "keep\n" in list(sys.stdin):
        while True:
            signal.pause()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
