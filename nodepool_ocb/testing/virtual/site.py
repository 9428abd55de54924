"""A whole site for machines that begin with power alone: ZooKeeper, a builder, the API over TLS, annealers, and admin nodes.

The daemons run on the host of the test, at ``HOST``; admin nodes and machines are on a virtual network. The site's own user is
the command line: ``ocb("node", "list")``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import yaml

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import NodeRole, Record, State
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.testing.looks import rest
from nodepool_ocb.testing.processes import ANNEALER, API, BUILDER, LAUNCHER, DaemonProcess
from nodepool_ocb.testing.virtual.adminhost import AdminHost
from nodepool_ocb.testing.virtual.network import VirtualNetwork, machines_turn
from nodepool_ocb.testing.zookeeper.server import Server, init

HOST: Final = "10.1.0.1"
API_PORT: Final = 8443
DOMAIN: Final = "example.com"
NETWORK: Final = "admin"
DEPLOYMENT: Final = "metal"
COMMAND: Final = Path(sys.executable).with_name("nodepool-ocb")
COMMAND_SECONDS: Final = 120.0
ROOT: Final = Path(__file__).parents[3]

Kind = TypeVar("Kind", bound=Record)


class Refused(AssertionError):
    """A command of the site failed."""


class MetalSite:
    """A context manager. ``admins``: the number of admin nodes; ``images``: the sections diskimages of nodepool.yaml."""

    def __init__(self, folder: Path, images: Sequence[Mapping[str, Any]], admins: int = 1, annealers: int = 1) -> None:
        self.folder = folder
        self._images, self._admins, self._annealers = images, admins, annealers
        self._up = ExitStack()
        self.annealers: list[DaemonProcess] = []
        self.launcher: DaemonProcess | None = None
        self.admins: list[AdminHost] = []
        self.key = folder / "id_ed25519"

    def __enter__(self) -> Self:
        try:
            self._begin()
        except BaseException:
            self._up.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._up.close()

    @property
    def said(self) -> str:
        """The ends of the logs of all daemons."""
        daemons = [*self.annealers, self.builder, self.api, *([self.launcher] if self.launcher else [])]
        return "\n".join(f"-- {each.log} --\n{each.said[-6000:]}" for each in daemons)

    @property
    def url(self) -> str:
        """The address of the API and of the page."""
        return f"https://{HOST}:{API_PORT}"

    # -- its user --

    def ocb(self, *words: str, given: str | None = None, seconds: float = COMMAND_SECONDS) -> str:
        """The output of a command; raises Refused with its words."""
        environment = os.environ | {"NODEPOOL_OCB_CONFIG": str(self.config)}
        done = subprocess.run(
            [COMMAND, *words],
            env=environment,
            input=given,
            capture_output=True,
            text=True,
            check=False,
            timeout=seconds,
        )
        if done.returncode:
            raise Refused(f"nodepool-ocb {' '.join(words)}: exit {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    def ask(self, *words: str) -> Any:
        """The answer of a command as JSON."""
        return json.loads(self.ocb(*words, "-o", "json"))

    def record(self, kind: type[Kind], path: str) -> Kind | None:
        """A record, read from ZooKeeper; None if there is none."""
        znode = self.session.get(path)
        return codec.decode(kind, znode) if znode is not None else None

    def states(self, fqdn: str) -> dict[str, State]:
        """Role → state of a node."""
        roles = self.session.children(paths.noderoles(fqdn)) or ()
        found = {role: self.record(NodeRole, paths.noderole(role, fqdn)) for role in sorted(roles)}
        return {role: record.state for role, record in found.items() if record is not None}

    def until(self, holds: Callable[[], object], what: str, seconds: float) -> None:
        """Wait for it. Raises AssertionError at the end of the time."""
        looked = time.monotonic()
        deadline = looked + seconds
        while not holds():
            assert looked < deadline, f"not within {seconds:g} s: {what}"
            looked = rest(looked)

    def launch(self, nodepool: Mapping[str, Any]) -> DaemonProcess:
        """Start a launcher with this nodepool.yaml; it ends with the site."""
        folder = self.folder / "launcher"
        folder.mkdir()
        (folder / "nodepool.yaml").write_text(yaml.safe_dump(nodepool))
        ssh = yaml.safe_load(self.config.read_text())["ssh"]
        made = DaemonProcess(self.zookeeper, folder, {"ssh": ssh}, launcher=LAUNCHER)
        self.launcher = self._up.enter_context(made)
        return self.launcher

    # -- its parts --

    def _begin(self) -> None:
        up = self._up
        up.enter_context(machines_turn())
        self.network = up.enter_context(VirtualNetwork(self.folder))
        self.network.attach_test(f"{HOST}/24")
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(self.key)], check=True)
        self.ca = certificates(self.folder, HOST)
        for number in range(self._admins):
            fqdn = f"a{number + 1}.{DOMAIN}"
            host = AdminHost(self.network, fqdn, f"10.1.0.{2 + number}", self.key.with_suffix(".pub"))
            self.admins.append(up.enter_context(host))
        server = up.enter_context(Server(fsync=False))
        self.zookeeper = zookeeper = init(ZooKeeperSettings(hosts=server.hosts, session_timeout_seconds=4.0))
        self.session = up.enter_context(Session(zookeeper))
        ssh = {"key_files": [str(self.key)], "connect_timeout_seconds": 30.0}
        self.config = self.folder / "nodepool-ocb.yaml"
        self.config.write_text(yaml.safe_dump({"zookeeper": {"hosts": server.hosts}, "ssh": ssh}))
        tls = {
            "listen": f"{HOST}:{API_PORT}",
            "cert": str(self.folder / "api.pem"),
            "key": str(self.folder / "api.key"),
        }
        self.api = up.enter_context(DaemonProcess(zookeeper, self.folder / "api", {"api": tls}, launcher=API))
        sections = {
            "ssh": ssh,
            "annealer": {"probe_seconds": 20.0, "dead_probe_seconds": 1.0},
        }
        for number in range(self._annealers):
            folder = self.folder / f"annealer{number + 1}"
            self.annealers.append(up.enter_context(DaemonProcess(zookeeper, folder, sections, launcher=ANNEALER)))
        self.builder = self._builder(zookeeper)

    def _builder(self, zookeeper: ZooKeeperSettings) -> DaemonProcess:
        folder = self.folder / "builder"
        folder.mkdir()
        names = [{"name": each["name"]} for each in self._images if each.get("formats")]
        providers = [
            {
                "name": host.fqdn.partition(".")[0],
                "driver": "admin-node",
                "address": host.address,
                "host-keys": [host.host_key],
                "key-file": str(self.key),
                "diskimages": names,
            }
            for host in self.admins
        ]
        nodepool = {"images-dir": str(folder / "images"), "diskimages": [*self._images], "providers": providers}
        (folder / "nodepool.yaml").write_text(yaml.safe_dump(nodepool))
        settings = {"builder": {"build_workers": 2, "retry_seconds": 5.0}}
        return self._up.enter_context(DaemonProcess(zookeeper, folder, settings, launcher=BUILDER))


def certificates(folder: Path, address: str) -> Path:
    """The certificate of an authority; beside it api.pem and api.key for a server at this address."""
    new_key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "30"]

    def openssl(*words: str) -> None:
        subprocess.run(["openssl", *words], check=True, capture_output=True, cwd=folder, timeout=COMMAND_SECONDS)

    openssl("req", "-x509", *new_key, "-subj", "/CN=site", "-keyout", "ca.key", "-out", "ca.pem")
    extension = ["-addext", f"subjectAltName=IP:{address}", "-CA", "ca.pem", "-CAkey", "ca.key"]
    openssl("req", "-x509", *new_key, "-subj", f"/CN={address}", *extension, "-keyout", "api.key", "-out", "api.pem")
    return folder / "ca.pem"
