"""One tree, one directory and one cloud: Nodepool 11's builder, then ours, then Nodepool's again, with both command lines."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from kazoo.client import KazooClient
from msgspec.structs import replace

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.images.rules import BuildView
from nodepool_ocb.model.images import BuildState, UploadState
from nodepool_ocb.store import clusters, images, nodepool11
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.testing.glance import Glance
from nodepool_ocb.testing.processes import BUILDER, DaemonProcess
from nodepool_ocb.testing.zookeeper.guarded import SUPERUSER, Guarded
from tests.fixtures.upstream import SCRIPTS

pytestmark = pytest.mark.long

SECONDS: Final = (
    120.0  # for anything that a builder of Nodepool does: it looks every ten seconds, and tidies every minute
)
QUIET_SECONDS: Final = 25.0  # two looks of Nodepool's build worker
CHROOT: Final = "/site"


class SharedTree:
    """The tree, the images-dir and the cloud that both products share."""

    def __init__(self, guarded: Guarded, glance: Glance, nodepool11_bin: Path, folder: Path) -> None:
        self.glance, self.folder, self._bin = glance, folder, nodepool11_bin
        self.images = folder / "images"
        self.images.mkdir()
        glance.write_clouds(folder / "clouds.yaml")
        sudo = folder / "bin/sudo"  # the backend looks for it; these builds do not call it
        sudo.parent.mkdir()
        sudo.write_text('#!/bin/sh\nexec "$@"\n')
        sudo.chmod(0o755)
        path = f"{os.environ['PATH']}{os.pathsep}{sudo.parent}"
        self.environment = {"OS_CLIENT_CONFIG_FILE": str(folder / "clouds.yaml"), "PATH": path}
        self.settings = replace(guarded.settings(SUPERUSER, CHROOT), username=None, password=None)
        host, _, port = guarded.server.hosts.partition(":")
        files = {name: str(guarded.folder / file) for name, file in self._files()}
        self.file = folder / "nodepool.yaml"
        self.file.write_text(
            yaml.safe_dump(
                {
                    "zookeeper-servers": [{"host": host, "port": int(port), "chroot": CHROOT}],
                    "zookeeper-tls": files,
                    "images-dir": str(self.images),
                    "build-log-dir": str(folder / "logs"),
                    "labels": [],
                    "diskimages": [
                        {
                            "name": "jammy",
                            "elements": ["vm"],
                            "formats": ["qcow2"],
                            "dib-cmd": str(SCRIPTS / "fake_dib.sh"),
                        }
                    ],
                    "providers": [
                        {
                            "name": "west",
                            "driver": "openstack",
                            "cloud": "test",
                            "region-name": "RegionOne",
                            "rate": 0.01,
                            "diskimages": [{"name": "jammy"}],
                        }
                    ],
                }
            )
        )
        quick = {"retry_seconds": 0.5, "drain_seconds": 1.0, "sweep_seconds": 2.0, "free_bytes": 0, "leak_seconds": 1.0}
        sections = {"layout": "nodepool", "builder": {**quick, "nodepool": str(self.file)}}
        self.ours = DaemonProcess(self.settings, folder / "ours", sections, BUILDER)
        self.session = Session(self.settings, tree=nodepool11.tree("nodepool"))
        self._theirs: subprocess.Popen[bytes] | None = None

    @staticmethod
    def _files() -> tuple[tuple[str, str], ...]:
        return ("cert", "client.crt"), ("key", "client.key"), ("ca", "ca.pem")

    # -- Nodepool's programs --

    def begin_theirs(self) -> None:
        """Nodepool's builder, in the foreground of a process of its own."""
        with (self.folder / "theirs.log").open("ab") as log:
            self._theirs = subprocess.Popen(
                [self._bin / "nodepool-builder", "-f", "-c", self.file],
                stdout=log,
                stderr=log,
                env=os.environ | self.environment,
            )

    def end_theirs(self) -> None:
        """As its unit ends it."""
        if self._theirs is not None:
            self._theirs.send_signal(signal.SIGINT)
            self._theirs.wait(SECONDS)
            self._theirs = None

    def close(self) -> None:
        if self._theirs is not None:
            self._theirs.kill()
            self._theirs.wait()
        self.ours.close()
        self.session.close()

    def theirs(self, *words: str) -> str:
        """The output of Nodepool's command."""
        command = [self._bin / "nodepool", "-c", self.file, *words]
        environment = os.environ | self.environment
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False, env=environment)
        assert done.returncode == 0, done.stderr[-1000:]
        return done.stdout

    def table(self, *words: str) -> list[list[str]]:
        """The rows of a table of Nodepool's command, without its heading and the age."""
        printed = self.theirs(*words)
        rows = [line.strip()[1:-1].split("|") for line in printed.splitlines() if line.startswith("|")]
        assert len(rows) > 1, printed
        return [[cell.strip() for cell in row[:-1]] for row in rows[1:]]

    # -- what both see --

    def builds(self, *states: BuildState) -> list[BuildView]:
        """The oldest first."""
        self.session.sync()
        found = images.read(self.session, ["jammy"]).get("jammy")
        return [each for each in (found.builds if found else ()) if not states or each.record.state in states]

    def ready(self) -> list[str]:
        """The ids of the ready builds with a ready upload."""
        return [
            build.id
            for build in self.builds(BuildState.READY)
            if any(upload.record.state is UploadState.READY for upload in build.uploads)
        ]

    def external_ids(self) -> set[str]:
        """The objects that ready uploads name."""
        uploads = [upload.record for build in self.builds() for upload in build.uploads]
        return {str(each.external_id) for each in uploads if each.state is UploadState.READY}

    def until(self, holds: Callable[[], object], what: str) -> None:
        deadline = time.monotonic() + SECONDS
        while not holds():
            logs = self.ours.said[-1500:] + (self.folder / "theirs.log").read_text(errors="replace")[-1500:]
            assert time.monotonic() < deadline, f"{what}: {self.builds()}\n{logs}"
            time.sleep(0.2)

    def both_agree(self) -> None:
        """Both command lines name the same builds and uploads, in the same states."""
        ocb = json.loads(_ocb(self.ours.config, "image", "show", "jammy", "-o", "json"))
        known = {f"jammy-{build['build']}" for build in ocb["builds"]}
        assert {row[0] for row in self.table("dib-image-list")} == known
        there = {(row[0], row[5], row[6]) for row in self.table("image-list")}
        said = self.builds()
        assert there == {
            (build.id, str(upload.record.external_id), str(upload.record.state))
            for build in said
            for upload in build.uploads
        }


def _ocb(config: Path, *words: str) -> str:
    command = ["nodepool-ocb", "--config", str(config), *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stderr[-1000:]
    return done.stdout


@pytest.fixture
def shared(nodepool11: Path, tmp_path: Path) -> Iterator[SharedTree]:
    with Guarded(demands_user=False) as guarded, Glance() as glance:
        made = SharedTree(guarded, glance, nodepool11, tmp_path)
        try:
            made.session.start()
            yield made
        finally:
            made.close()


def _snapshot(client: KazooClient, path: str = "/nodepool/images") -> dict[str, bytes]:
    """Each znode below, with its data."""
    found = {path: client.get(path)[0]}
    for name in client.get_children(path):
        found |= _snapshot(client, f"{path}/{name}")
    return found


def _client(settings: ZooKeeperSettings) -> KazooClient:
    tls = settings.tls
    assert tls is not None
    client = KazooClient(settings.hosts, use_ssl=True, certfile=tls.cert, keyfile=tls.key, ca=tls.ca)
    client.start(timeout=60)
    return client


def test_builders_of_both_products_take_over_from_each_other(shared: SharedTree) -> None:
    shared.begin_theirs()
    shared.until(shared.ready, "Nodepool's builder builds and uploads")
    shared.end_theirs()
    (first,) = shared.ready()
    assert len(first) == 32
    identity = (shared.images / "builder_id.txt").read_text()
    files = {path.name: path.read_bytes() for path in shared.images.glob(f"jammy-{first}.*") if path.is_file()}

    clusters.bootstrap(shared.session)  # nodepool-ocb init
    client = _client(shared.settings)
    before = _snapshot(client)
    shared.ours.environment |= shared.environment
    shared.ours.start()
    time.sleep(5.0)
    assert {path: data for path, data in _snapshot(client).items() if path in before} == before
    client.stop()
    client.close()
    assert (shared.ready(), shared.builds()[0].record.builder_id) == ([first], identity)
    assert {path.name: path.read_bytes() for path in shared.images.glob(f"jammy-{first}.*") if path.is_file()} == files
    assert set(shared.glance.images) == shared.external_ids()
    shared.both_agree()

    shared.theirs("image-build", "jammy")
    shared.until(lambda: len(shared.ready()) == 2, "our builder serves the request of Nodepool's command")
    _, second = shared.ready()
    assert len(second) == 10
    shared.until(lambda: shared.table("image-status")[0][2] not in ("pending", "building"), "the request is gone")
    shared.both_agree()
    shared.theirs("image-pause", "jammy")
    assert shared.table("image-status")[0][:2] == ["jammy", "True"]
    assert shared.table("dib-image-list")
    shared.theirs("image-unpause", "jammy")
    assert shared.table("image-status")[0][:2] == ["jammy", "False"]
    exported = shared.folder / "exported.json"
    shared.theirs("export-image-data", str(exported))
    document: dict[str, Any] = json.loads(exported.read_text())
    assert {f"/nodepool/images/jammy/builds/{id}" for id in (first, second)} <= document.keys()

    upload = shared.builds()[0].uploads[0]
    words = ["--provider", "west", "--image", "jammy", "--upload-id", upload.id, "--build-id", first]
    shared.theirs("image-delete", *words)
    shared.until(lambda: upload.record.external_id not in shared.glance.images, "our builder deletes Nodepool's object")
    shared.until(lambda: not shared.builds()[0].uploads, "the record of the upload goes")
    shared.theirs("dib-image-delete", f"jammy-{first}")
    shared.until(lambda: [each.id for each in shared.builds()] == [second], "our builder deletes Nodepool's build")
    assert not list(shared.images.glob(f"jammy-{first}*"))
    shared.both_agree()

    shared.ours.terminate()
    shared.ours.wait()
    ours = shared.external_ids()
    shared.begin_theirs()
    time.sleep(QUIET_SECONDS)
    assert (shared.ready(), [each.id for each in shared.builds()]) == ([second], [second])
    assert set(shared.glance.images) == shared.external_ids() == ours
    shared.both_agree()
    shared.theirs("image-build", "jammy")
    shared.until(lambda: len(shared.ready()) == 2, "Nodepool's builder goes on")
    shared.theirs("dib-image-delete", f"jammy-{second}")
    shared.until(lambda: second not in {each.id for each in shared.builds()}, "Nodepool's builder deletes our build")
    assert set(shared.glance.images) == shared.external_ids()
    assert not list(shared.images.glob(f"jammy-{second}*"))
    shared.both_agree()
    shared.end_theirs()
