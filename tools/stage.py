"""The servers of the demo: a private ZooKeeper, machines, two annealers, two builders, a launcher and a server of the API.

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
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Cluster
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.testing import engine, hostimage
from nodepool_ocb.testing.machines import Farm
from nodepool_ocb.testing.processes import API, BUILDER, LAUNCHER, DaemonProcess
from nodepool_ocb.testing.zookeeper.server import Server, free_port, init

MACHINES: Final = 27  # of which the scenes take six, twelve and eight, and the launcher lends the last
ANNEALERS: Final = ("annealer-1", "annealer-2")
BUILDERS: Final = ("builder-1", "builder-2")
IMAGE: Final = {
    "name": "cell",
    "backend": "command",
    "options": {"argv": [sys.executable, hostimage.__file__]},
    "formats": ["tar"],
    "username": "root",
}
LABEL: Final = "lent"
ROOT_OF_ROLES: Final = "/srv/root"  # in a container; roles write below it, as on the other machines
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
    dock = container_engine(up)
    if "url" not in dock.keys and not dock.fault:
        up.callback(remove_from_engine, zookeeper)
    providers = places(folder, dock)
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
    pools = folder / "launcher/nodepool.yaml"
    pools.write_text("providers: []\n")  # its scene writes it
    domain = {"ssh": farm.settings(), "admin_domain": "example.com"}
    up.enter_context(DaemonProcess(zookeeper, folder / "launcher", domain, launcher=LAUNCHER))
    api = f"127.0.0.1:{free_port()}"
    up.enter_context(DaemonProcess(zookeeper, folder / "api", {"api": {"listen": api}}, launcher=API))
    config = folder / "nodepool-ocb.yaml"
    client: dict[str, Any] = {
        "zookeeper": {"hosts": server.hosts},
        "ssh": farm.settings(),
        "launcher": {"nodepool": str(pools)},
    }
    config.write_text(yaml.safe_dump(client))
    return {
        "config": str(config),
        "page": f"http://{api}/",
        "zookeeper": server.hosts,
        "machines": machines,
        "providers": sorted(providers),
        "provider_directory": providers["local"]["directory"],
        "pools": str(pools),
        "lent": rack(machines[-1]) if dock.fault else berth(dock, providers["docker"]),
        "no_engine": dock.fault,
        "engine": dock.keys.get("url"),
    }


class Dock(msgspec.Struct, frozen=True):
    """A container engine: the keys of a provider and of its pool; or the reason why there is none."""

    keys: Mapping[str, str] = {}
    pool: Mapping[str, str] = {}
    fault: str | None = None


def container_engine(up: ExitStack) -> Dock:
    """The engine of this host where it answers, else a private one, else none."""
    if shutil.which("docker") and not subprocess.run(["docker", "info"], capture_output=True, check=False).returncode:
        return Dock(pool={"publish": "127.0.0.1"})
    fault = engine.why_not() or (None if shutil.which("ip") else "ip is not installed (Debian: iproute2)")
    if fault is not None:
        return Dock(fault=fault)
    try:
        private = up.enter_context(engine.Engine())
        return Dock(keys={"url": private.url}, pool={"network": private.add_network()})
    except (RuntimeError, OSError, subprocess.SubprocessError) as error:
        return Dock(fault=f"a private one did not start: {str(error).splitlines()[0]}")


def places(folder: Path, dock: Dock) -> dict[str, dict[str, Any]]:
    """The destinations of images: a directory, and the container engine if there is one."""
    carried = [{"name": IMAGE["name"]}]
    found: dict[str, dict[str, Any]] = {"local": {"driver": "local", "directory": str(folder / "provider")}}
    if not dock.fault:
        found["docker"] = {"driver": "docker", "repository": "nodepool-ocb-demo", **dock.keys}
    return {name: {"name": name, "format": "tar", "diskimages": carried, **keys} for name, keys in found.items()}


def berth(dock: Dock, provider: Mapping[str, Any]) -> dict[str, Any]:
    """The nodepool.yaml of a launcher that launches containers of the image."""
    variables = [{"name": "OCB_ROOT", "value": ROOT_OF_ROLES}]
    label = {"name": LABEL, "diskimage": IMAGE["name"], "env": variables}
    known = {key: value for key, value in provider.items() if key != "format"}
    image = {"name": IMAGE["name"], "username": IMAGE["username"]}
    return {
        "labels": [{"name": LABEL, "anneal": True}],
        "diskimages": [image],
        "providers": [{**known, "pools": [{"name": "main", **dock.pool, "labels": [label]}]}],
    }


def rack(machine: dict[str, Any]) -> dict[str, Any]:
    """The nodepool.yaml of a launcher that lends one machine."""
    host, _, port = machine["address"].rpartition(":")
    node = {"name": host, "labels": [LABEL], "username": machine["user"], "connection-port": int(port)}
    provider = {"name": "rack", "driver": "static", "pools": [{"name": "main", "nodes": [node]}]}
    return {"labels": [{"name": LABEL, "anneal": True}], "providers": [provider]}


def remove_from_engine(zookeeper: ZooKeeperSettings) -> None:
    """Remove the containers and images of this cluster from the engine of this host, by the cluster's stamp."""
    with Session(zookeeper) as session:
        znode = session.get(paths.CLUSTER)
    if znode is None:
        return
    stamp = f"label=nodepool_ocb_cluster={codec.decode(Cluster, znode).id}"
    for listing, removal in ((["ps", "-aq"], ["rm", "--force", "--volumes"]), (["images", "-q"], ["rmi", "--force"])):
        words = ["docker", *listing, "--filter", stamp]
        listed = subprocess.run(words, capture_output=True, text=True, check=False)
        if ids := listed.stdout.split():
            subprocess.run(["docker", *removal, *ids], capture_output=True, check=False)


def say(words: dict[str, Any]) -> None:
    print(json.dumps(words), flush=True)


def wait() -> None:
    """Wait until stdin closes, or for ever after a line ``keep``."""
    if "keep\n" in list(sys.stdin):
        while True:
            signal.pause()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
