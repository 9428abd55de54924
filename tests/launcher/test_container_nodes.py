"""A container as a node, from the build of its image to its deletion: a real builder, launcher, annealer and container engine.

Builder and launcher read one file, and the engine is the provider of both. The annealer and the launcher have one key.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import Any, Final

import pytest
import yaml

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.images.rules import BuildView
from nodepool_ocb.model import paths
from nodepool_ocb.model.images import UploadState
from nodepool_ocb.model.pool import PoolNode, PoolNodeState
from nodepool_ocb.model.records import Cluster, Create, Json, NodeRole, Role, State
from nodepool_ocb.store import images
from nodepool_ocb.store.client import codec
from nodepool_ocb.testing import hostimage
from nodepool_ocb.testing.engine import Engine
from nodepool_ocb.testing.mirrors import mirror
from nodepool_ocb.testing.processes import ANNEALER, BUILDER, LAUNCHER, DaemonProcess
from tests.cli.background_command import COMMAND
from tests.launcher.launcher_fleet import LauncherFleet

IMAGE: Final = "box"
SCRIPT: Final = 'read -r build </etc/build; echo $build >/root/greeting; write_attribute greeting/build "$build"'
QUICK: Final = {"retry_seconds": 0.2, "cleanup_seconds": 1.0, "sweep_seconds": 5.0, "drain_seconds": 2.0}

#: An image of this host's programs: it needs no mirror, and its build takes a second.
PACKED: Final[Mapping[str, Json]] = {
    "backend": "command",
    "options": {"argv": [sys.executable, hostimage.__file__]},
}


class Wharf:
    """The three daemons, and the engine as they left it."""

    def __init__(self, fleet: LauncherFleet, engine: Engine, network: str, diskimage: Mapping[str, Json]) -> None:
        self.fleet, self.engine, self._network = fleet, engine, network
        self._diskimage = {"name": IMAGE, "formats": ["tar"], "username": "root", **diskimage}
        self.file, self._key = fleet.folder / "nodepool.yaml", fleet.folder / "id_ed25519"
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(self._key)], check=True)
        fleet.session.commit([Create(paths.role("greeting"), Role(barclamp="b", jig="script", script=SCRIPT))])
        znode = fleet.session.get(paths.CLUSTER)
        assert znode is not None
        self._stamp = f"label=nodepool_ocb_cluster={codec.decode(Cluster, znode).id}"
        self._daemons: list[DaemonProcess] = []
        self.configure()

    def configure(self, **label: Json) -> None:
        """Write the file of builder and launcher; ``label`` are more keys of its label."""
        pool = {"name": "main", "network": self._network, "labels": [{"name": "box", "diskimage": IMAGE}]}
        dock = {"name": "dock", "driver": "docker", "format": "tar", "url": self.engine.url}
        document = {
            "images-dir": str(self.fleet.folder / "images"),
            "labels": [{"name": "box", "roles": ["greeting"], "roles-timeout": 600, **label}],
            "diskimages": [self._diskimage],
            "providers": [{**dock, "diskimages": [{"name": IMAGE}], "pools": [pool]}],
        }
        new = self.file.with_suffix(".new")
        new.write_text(yaml.safe_dump(document))
        new.replace(self.file)

    def reconfigure(self, launcher: DaemonProcess, **label: Json) -> None:
        """Write the file anew, and wait until the launcher has it."""
        before = launcher.said.count("reloaded")
        self.configure(**label)
        launcher.reload()
        self.fleet.until(lambda: launcher.said.count("reloaded") > before, "the launcher has the file")

    def daemon(self, kind: str, arguments: tuple[str, ...], **section: Json) -> DaemonProcess:
        """A daemon of this kind, not started."""
        zookeeper = ZooKeeperSettings(hosts=self.fleet.server.hosts + self.fleet.chroot)
        sections = {kind: section, "ssh": {"key_files": [str(self._key)]}, "admin_domain": "example.com"}
        made = DaemonProcess(zookeeper, self.fleet.folder / kind, sections, arguments)
        self._daemons.append(made)
        return made

    def command(self, *words: str) -> subprocess.CompletedProcess[str]:
        """The command line with the annealer's configuration, in a process of its own."""
        config = str(self.fleet.folder / "annealer" / "nodepool-ocb.yaml")
        environment = {**os.environ, "TMPDIR": str(self.fleet.folder)}
        return subprocess.run(
            [*COMMAND, "--config", config, *words],
            capture_output=True,
            text=True,
            check=False,
            env=environment,
            timeout=120,
        )

    # -- observations --

    def node(self, state: PoolNodeState) -> tuple[str, PoolNode]:
        """Wait for one node in this state, beside no others."""
        self.fleet.until(
            lambda: [each.state for each in self.fleet.nodes().values()] == [state], f"one node is {state}", 60.0
        )
        ((id, record),) = self.fleet.nodes(state).items()
        return id, record

    def uploaded(self, build: str, seconds: float) -> str:
        """Wait for the upload of a build; the engine's id of it."""
        self.fleet.until(lambda: build in self._uploads(), f"build {build} is at the engine", seconds)
        return self._uploads()[build]

    def _uploads(self) -> dict[str, str]:
        """The ids of the ready uploads, by build."""
        view = images.read(self.fleet.session, [IMAGE]).get(IMAGE)
        builds: tuple[BuildView, ...] = () if view is None else view.builds
        return {
            build.id: str(upload.record.external_id)
            for build in builds
            for upload in build.uploads
            if upload.record.state is UploadState.READY
        }

    def noderole(self, node: str) -> NodeRole:
        znode = self.fleet.session.get(paths.noderole("greeting", node))
        assert znode is not None
        return codec.decode(NodeRole, znode)

    def ocb_nodes(self) -> list[str]:
        return self.fleet.session.children("/ocb/nodes") or []

    def containers(self) -> list[str]:
        """The ids of the containers of this cluster, running or not."""
        return self.engine.run("ps", "-aq", "--no-trunc", "--filter", self._stamp).split()

    def inspected(self, container: str) -> dict[str, Any]:
        (found,) = json.loads(self.engine.run("inspect", container))
        assert isinstance(found, dict)
        return found

    def clear(self) -> None:
        """Remove the images, and the containers that a failed test left."""
        for daemon in self._daemons:
            print(f"-- {daemon.config.parent.name} --\n{daemon.said}")  # pytest shows it where the test fails
        for container in self.containers():
            self.engine.run("rm", "-f", container)
        for image in self.engine.run("images", "-q", "--no-trunc", "--filter", self._stamp).split():
            self.engine.run("rmi", "-f", image)


@pytest.fixture
def wharf(launchers: LauncherFleet, engine: Engine, network: str, request: pytest.FixtureRequest) -> Iterator[Wharf]:
    """With the image of the test's parameter; no daemon runs yet."""
    made = Wharf(launchers, engine, network, request.param())
    volumes = engine.run("volume", "ls", "-q").split()
    yield made
    made.clear()
    assert engine.run("volume", "ls", "-q").split() == volumes


def packed() -> Mapping[str, Json]:
    return PACKED


def debian() -> Mapping[str, Json]:
    """A Debian 12 with sshd, by mmdebstrap."""
    address = mirror("debian") or pytest.skip("apt knows no mirror here; NODEPOOL_OCB_TEST_MIRROR names one")
    mark = 'cat /proc/sys/kernel/random/uuid >"$1/etc/build"'
    return {
        "backend": "mmdebstrap",
        "release": "bookworm",
        "options": {"mirror": address, "include": ["openssh-server"], "customize-hooks": [mark]},
    }


@pytest.mark.parametrize(
    ("wharf", "build_seconds"),
    [
        pytest.param(packed, 60.0, id="programs of this host"),
        pytest.param(debian, 900.0, id="Debian by mmdebstrap", marks=pytest.mark.long),
    ],
    indirect=["wharf"],
)
def test_a_container_passes_request_launch_roles_use_and_deletion_and_a_newer_image_replaces_an_idle_one(
    wharf: Wharf, build_seconds: float
) -> None:
    fleet = wharf.fleet
    annealer = wharf.daemon("annealer", ANNEALER)
    with ExitStack() as running:
        builder = wharf.daemon("builder", BUILDER, nodepool=str(wharf.file), free_bytes=0, **QUICK)
        launcher = wharf.daemon("launcher", LAUNCHER, nodepool=str(wharf.file))
        for daemon in (builder, launcher):
            running.enter_context(daemon)

        request = fleet.request("box")  # waits for the image as well
        first = wharf.uploaded("0000000001", build_seconds)
        id, testing = wharf.node(PoolNodeState.TESTING)
        name = testing.hostname or ""
        fleet.until(lambda: fleet.session.get(paths.noderole("greeting", name)), "its role is bound")
        (container,) = wharf.containers()
        assert (testing.external_id, wharf.ocb_nodes()) == (container, [name])
        assert wharf.inspected(container)["Image"] == first
        assert wharf.noderole(name).state is not State.ACTIVE  # there is no annealer

        running.enter_context(annealer)
        (ready,) = fleet.fulfilled(request, 60.0)
        assert ready.state is PoolNodeState.READY
        assert wharf.noderole(name).state is State.ACTIVE
        mark = wharf.engine.run("exec", container, "cat", "/etc/build")  # each build has its own
        assert wharf.engine.run("exec", container, "cat", "/root/greeting") == mark

        locks = fleet.take(request)
        assert wharf.node(PoolNodeState.IN_USE)[0] == id
        fleet.give_back(request, locks)
        fleet.until(lambda: not fleet.nodes(), "the node is deleted")
        assert (wharf.ocb_nodes(), wharf.containers()) == ([], [])

        wharf.reconfigure(launcher, **{"min-ready": 1})
        idle, _ = wharf.node(PoolNodeState.READY)
        (former,) = wharf.containers()
        wharf.command("image", "build", IMAGE).check_returncode()
        second = wharf.uploaded("0000000002", build_seconds)
        fleet.until(lambda: idle not in fleet.nodes(), "the idle node is deleted")
        wharf.node(PoolNodeState.READY)
        (successor,) = wharf.containers()
        assert successor != former
        assert wharf.inspected(successor)["Image"] == second != first

        wharf.reconfigure(launcher)
        greet = 'ssh -n -F "$LEASE_SSH_CONFIG" "$LEASE_NAME" cat /root/greeting'
        done = wharf.command("lease", "run", "--label", "box", "--", "sh", "-c", greet)
        assert (done.returncode, done.stdout != mark) == (0, True), done.stderr
        fleet.until(lambda: not fleet.nodes(), "the node is deleted")
        assert (wharf.ocb_nodes(), wharf.containers()) == ([], [])
