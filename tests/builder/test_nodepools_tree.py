"""A builder on the tree of Nodepool 11: its own builds, those of Nodepool, and the writes of Nodepool beside it.

``raw`` is a session of the native layout: it shows the znodes as Nodepool sees them. Nodepool's writes are made as its classes
make them: whole records of its own keys, without a version.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient

from nodepool_ocb.model import paths
from nodepool_ocb.model.images import BuildState, UploadState
from nodepool_ocb.pool.launches.ready_images import ready_images
from nodepool_ocb.store import images, quarantine
from nodepool_ocb.store.client import frames
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.testing.glance import Glance
from nodepool_ocb.testing.zookeeper.server import Server
from tests.builder.fleet_of_builders import Builder, BuilderFleet

HEX = "0123456789abcdef0123456789abcdef"
OLDER = "ffff6789abcdef0123456789abcdef01"
ROOT = "/nodepool/images"
OPENED = "/nodepool/images/jammy/builds"
#: Depths of records below ROOT, counted as Nodepool's cache counts them.
RECORDS = {2: re.compile(r"/[^/]+"), 4: re.compile(r"/[^/]+/builds/(lock|[0-9a-f]{32}|[0-9]{10})"), 8: re.compile(
    r"/[^/]+/builds/[^/]+/providers/[^/]+/images/(lock|[0-9]{10})"
)}  # fmt: skip


class NodepoolTree:
    """The tree as Nodepool sees it."""

    def __init__(self, hosts: str) -> None:
        self.kazoo = KazooClient(hosts)
        self.kazoo.start(timeout=30)

    def keys(self, path: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.kazoo.get(ROOT + path)[0])
        return found

    def all(self, path: str = ROOT) -> list[str]:
        """Each path below, without the root."""
        below = [f"{path}/{name}" for name in self.kazoo.get_children(path)]
        return [each.removeprefix(ROOT) for each in below] + [deep for each in below for deep in self.all(each)]

    def store(self, path: str, **keys: Any) -> None:
        """As Nodepool's storeBuild and storeImageUpload write: the whole record, without a version."""
        data = json.dumps(keys).encode()
        if self.kazoo.exists(ROOT + path):
            self.kazoo.set(ROOT + path, data)
        else:
            self.kazoo.create(ROOT + path, data, makepath=True)

    def mark(self, path: str) -> None:
        """As its dib-image-delete and image-delete: Nodepool's keys alone, and another state."""
        known = ("builder", "builder_id", "formats", "external_id", "external_name", "format", "username", "python_path",
                 "shell_type")  # fmt: skip
        keys = self.keys(path)
        kept = {name: keys[name] for name in known if name in keys}
        self.store(path, **kept, state="deleting", state_time=time.time())


@pytest.fixture
def builders(zookeeper: Server, chroot: str, tmp_path: Path) -> Iterator[BuilderFleet]:
    with BuilderFleet(zookeeper, chroot, tmp_path, layout="nodepool") as made:
        yield made


@pytest.fixture
def nodepool(builders: BuilderFleet) -> Iterator[NodepoolTree]:
    made = NodepoolTree(builders.server.hosts + builders.chroot)
    yield made
    made.kazoo.stop()
    made.kazoo.close()


def adopted(builder: Builder, nodepool: NodepoolTree, id: str = HEX, age: float = 60.0, content: str = "old") -> Path:
    """A ready build of Nodepool in the builder's directory, with its files as diskimage-builder leaves them."""
    builder.images.mkdir(exist_ok=True)
    file = builder.images / f"jammy-{id}.raw"
    file.write_text(content)
    for algorithm in ("md5", "sha256"):
        sum_ = hashlib.new(algorithm, content.encode()).hexdigest()
        file.with_name(f"{file.name}.{algorithm}").write_text(f"{sum_}  {file.name}\n")
    (builder.images / "builder_id.txt").write_text("b7c1")
    fields = {"builder": "old.example.com", "builder_id": "b7c1", "formats": "raw", "username": "zuul"}
    nodepool.store(f"/jammy/builds/{id}", **fields, python_path="auto", shell_type=None, state="ready",
                   state_time=time.time() - age)  # fmt: skip
    return file


def test_a_build_and_its_upload_stand_in_nodepools_tree_as_nodepool_writes_them(
    builders: BuilderFleet, nodepool: NodepoolTree
) -> None:
    builder = builders.builder(
        builders.image("jammy", formats=("raw", "qcow2")), providers=[builders.provider("cloud", "jammy")]
    )
    builder.begin()
    builders.until(lambda: builders.uploads("jammy", UploadState.READY), "the upload is ready")
    (build,) = builders.builds("jammy")
    keys = nodepool.keys(f"/jammy/builds/{build.id}")
    expected = {"state": "ready", "formats": "qcow2,raw", "builder_id": builder.id, "username": "zuul"}
    assert {name: keys[name] for name in expected} == expected
    assert {"python_path": "auto", "shell_type": None}.items() <= keys.items()
    upload = nodepool.keys(f"/jammy/builds/{build.id}/providers/cloud/images/{build.uploads[0].id}")
    assert upload["state"] == "ready"
    assert upload["external_id"] == build.uploads[0].record.external_id
    assert not nodepool.kazoo.exists("/nodepool/image")
    odd = [path for path in nodepool.all() if path.count("/") in (1, 3, 7)
           and not RECORDS[path.count("/") + 1].fullmatch(path) and not path.endswith(("/pause", "/request-build"))]  # fmt: skip
    assert odd == []
    assert (builder.images / "builder_id.txt").read_text() == builder.id
    ready = ready_images(images.read(builders.session, ["jammy"]))
    assert ready["cloud", "jammy"].external_id == upload["external_id"]


def test_a_build_of_nodepool_is_adopted_sent_and_not_built_again(
    builders: BuilderFleet, nodepool: NodepoolTree
) -> None:
    builder = builders.builder(builders.image("jammy"), providers=[builders.provider("cloud", "jammy")])
    file = adopted(builder, nodepool)
    stray = builder.images / f"jammy-{OLDER}.raw"
    stray.write_text("a person put this here")
    builder.begin()
    builders.until(lambda: builders.uploads("jammy", UploadState.READY), "Nodepool's build is uploaded")
    assert builder.id == "b7c1"
    assert quarantine.unread(builders.session) == {}
    assert builders.uploads("jammy") == [(HEX, "cloud")]
    (upload,) = builders.provided("cloud")
    assert (builders.folder / "providers/cloud" / upload).read_text() == "old"
    time.sleep(2.5)  # beyond orphan_grace_seconds and two looks
    assert builders.history() == []
    assert stray.exists()
    assert file.exists()


def test_files_go_if_our_build_lost_its_record_while_the_builder_was_down(
    builders: BuilderFleet, nodepool: NodepoolTree
) -> None:
    builder = builders.builder(builders.image("jammy"))
    builder.begin()
    (build,) = builders.until_ready("jammy")
    builder.kill()
    builder.wait()
    nodepool.kazoo.delete(f"{OPENED}/{build.id}", recursive=True)
    stray = builder.images / "jammy-0000000099.raw"
    stray.write_text("an older Nodepool made this, and its log is that of the program alone")
    builder.begin()
    builders.until(lambda: not list(builder.images.glob(f"jammy-{build.id}.*")), "the files go")
    assert stray.exists()


def test_the_newest_build_is_the_one_with_the_newest_state(builders: BuilderFleet, nodepool: NodepoolTree) -> None:
    builder = builders.builder(builders.image("jammy"), providers=[builders.provider("cloud", "jammy")], keep=1)
    adopted(builder, nodepool, OLDER, age=900.0, content="older")
    adopted(builder, nodepool, HEX, age=60.0, content="newer")
    builder.begin()
    builders.until(lambda: [build.id for build in builders.builds("jammy")] == [HEX], "the older build goes")
    builders.until(lambda: builders.uploads("jammy", UploadState.READY) == [(HEX, "cloud")], "the newer one is sent")
    assert sorted(path.name for path in builder.images.glob("jammy-*.raw")) == [f"jammy-{HEX}.raw"]


def test_records_that_nodepool_marks_for_deletion_go_with_their_objects(
    builders: BuilderFleet, nodepool: NodepoolTree
) -> None:
    builder = builders.builder(builders.image("jammy"), providers=[builders.provider("cloud", "jammy")])
    builder.begin()
    builders.until(lambda: builders.uploads("jammy", UploadState.READY), "the upload is ready")
    (build,) = builders.builds("jammy")
    first, path = builders.provided("cloud"), f"/jammy/builds/{build.id}/providers/cloud/images/{build.uploads[0].id}"
    nodepool.mark(path)
    builders.until(lambda: not nodepool.kazoo.exists(ROOT + path), "the upload's record goes")
    builders.until(lambda: builders.uploads("jammy", UploadState.READY), "the build is sent again")
    assert first[0] not in builders.provided("cloud")
    nodepool.mark(f"/jammy/builds/{build.id}")
    builders.until(lambda: not nodepool.kazoo.exists(f"{OPENED}/{build.id}"), "the build's record goes")
    builders.until_ready("jammy")
    assert build.id not in {each.id for each in builders.builds("jammy")}
    assert not list(builder.images.glob(f"jammy-{build.id}.*"))


def test_an_upload_that_nodepool_left_unfinished_goes_if_the_image_is_there(
    builders: BuilderFleet, nodepool: NodepoolTree
) -> None:
    builder = builders.builder(
        builders.image("jammy"), providers=[builders.provider("cloud", "jammy")], failed_keep_seconds=0.5
    )
    builder.begin()
    builders.until(lambda: builders.uploads("jammy", UploadState.READY), "the upload is ready")
    (build,) = builders.builds("jammy")
    room = f"/jammy/builds/{build.id}/providers/cloud/images"
    keys = nodepool.keys(f"{room}/{build.uploads[0].id}")
    left = {name: keys[name] for name in ("external_id", "external_name", "format", "username")}
    nodepool.store(f"{room}/0000000009", **left, state="uploading", state_time=time.time())
    builders.until(lambda: not nodepool.kazoo.exists(f"{ROOT}{room}/0000000009"), "the record goes")
    assert len(builders.provided("cloud")) == 1, "it is not sent again, and the object of the other upload stays"
    assert "None died" not in builder.said


def test_no_record_is_marked_or_deleted_while_nodepool_holds_its_lock(
    builders: BuilderFleet, nodepool: NodepoolTree
) -> None:
    builder = builders.builder(builders.image("jammy"), keep=1)
    adopted(builder, nodepool, OLDER, age=900.0)
    adopted(builder, nodepool, HEX, age=60.0)
    lock = nodepool.kazoo.Lock(f"{OPENED}/{OLDER}/lock", "nodepool")
    assert lock.acquire(blocking=False)
    builder.begin()
    builders.until(lambda: nodepool.kazoo.get_children("/nodepool/daemons/builder"), "the builder is there")
    time.sleep(2.0)
    assert nodepool.keys(f"/jammy/builds/{OLDER}")["state"] == "ready"
    lock.release()
    builders.until(lambda: not nodepool.kazoo.exists(f"{OPENED}/{OLDER}"), "the superfluous build goes")


def test_an_object_bears_nodepools_labels_and_an_object_of_nodepool_is_deleted_before_its_record(
    builders: BuilderFleet, nodepool: NodepoolTree
) -> None:
    with Glance() as glance:
        clouds = builders.folder / "clouds.yaml"
        glance.write_clouds(clouds)
        west = {"name": "west", "driver": "openstack", "cloud": "test", "region-name": "RegionOne"}
        builder = builders.builder(builders.image("jammy"), providers=[{**west, "diskimages": [{"name": "jammy"}]}])
        builder.begin(OS_CLIENT_CONFIG_FILE=str(clouds))
        builders.until(lambda: builders.uploads("jammy", UploadState.READY), "the upload is ready")
        (build,) = builders.builds("jammy")
        upload, own = build.uploads[0], glance.images[str(build.uploads[0].record.external_id)]
        stamps = {"nodepool_provider_name": "west", "nodepool_build_id": build.id, "nodepool_upload_id": upload.id}
        assert stamps.items() <= own.items()
        theirs = {"nodepool_provider_name": "west", "nodepool_build_id": build.id, "nodepool_upload_id": "0000000077"}
        bare = {name: value for name, value in own.items() if not name.startswith("nodepool_")}
        glance.images["theirs"] = {**bare, **theirs, "id": "theirs"}
        glance.images["strange"] = {**bare, **theirs, "nodepool_build_id": "another", "id": "strange"}
        folder = f"/jammy/builds/{build.id}/providers/west/images"
        for number, external_id in ((77, "theirs"), (78, "strange")):
            nodepool.store(f"{folder}/{number:010}", state="deleting", state_time=time.time(), external_id=external_id)
        builders.until(lambda: not nodepool.kazoo.exists(f"{ROOT}{folder}/0000000077"), "the record goes")
        assert "theirs" not in glance.images
        assert "strange" in glance.images
        assert nodepool.kazoo.exists(f"{ROOT}{folder}/0000000078")
        builder.terminate()
        builder.wait()


def test_nodepools_flags_are_obeyed_and_ours_are_empty(builders: BuilderFleet, nodepool: NodepoolTree) -> None:
    nodepool.kazoo.create(f"{ROOT}/jammy/pause", makepath=True)
    builder = builders.builder(builders.image("jammy"))
    adopted(builder, nodepool)
    builder.begin()
    nodepool.kazoo.create(f"{ROOT}/jammy/request-build")
    time.sleep(1.0)
    assert builders.history() == []
    nodepool.kazoo.delete(f"{ROOT}/jammy/pause")
    builders.until_ready("jammy", 2)
    builders.until(lambda: not nodepool.kazoo.exists(f"{ROOT}/jammy/request-build"), "the request goes")
    builders.request("jammy")
    assert nodepool.kazoo.get(f"{ROOT}/jammy/request-build")[0] == b""


def test_nothing_is_rebuilt_while_a_builder_of_nodepool_runs(builders: BuilderFleet, nodepool: NodepoolTree) -> None:
    nodepool.kazoo.create("/nodepool/components/builder/other0000000000", b"{}", makepath=True)
    fields = {"builder": "other", "builder_id": "other", "formats": "raw", "username": None, "state": "ready"}
    nodepool.store(f"/jammy/builds/{HEX}", **fields, state_time=time.time())
    builder = builders.builder(
        builders.image("jammy"), providers=[builders.provider("cloud", "jammy")], gone_seconds=0.5, sweep_seconds=0.3
    )
    builder.begin()
    builders.until(lambda: nodepool.kazoo.get_children("/nodepool/daemons/builder"), "the builder is there")
    time.sleep(2.0)
    assert builders.history() == []
    nodepool.kazoo.delete("/nodepool/components/builder/other0000000000")
    builders.until(lambda: builders.history(), "the other builder is gone, and its files with it")


def test_a_failed_and_an_aborted_build_are_failed_for_nodepool(builders: BuilderFleet, nodepool: NodepoolTree) -> None:
    builders.fail.touch()
    builder = builders.builder(builders.image("jammy", formats=("raw",)), retry_seconds=60)
    builder.begin()
    builders.until(lambda: builders.builds("jammy", BuildState.FAILED), "the build failed")
    (build,) = builders.builds("jammy")
    keys = nodepool.keys(f"/jammy/builds/{build.id}")
    assert keys["state"] == "failed"
    assert "formats" not in keys
    assert build.record.formats == ("raw",)


def test_all_that_nodepool_writes_to_is_open_to_it(builders: BuilderFleet, nodepool: NodepoolTree) -> None:
    builder = builders.builder(builders.image("jammy"))
    builder.begin()
    builders.until_ready("jammy")
    world = frames.AclGrant(31, "world", "anyone")
    for path in ("/nodepool", *(ROOT + each for each in nodepool.all() if "__lock__" not in each)):
        acls, _ = nodepool.kazoo.get_acls(path)
        assert [(each.perms, each.id.scheme, each.id.id) for each in acls] == [tuple(world)]


def test_a_native_session_sees_the_tree_unchanged(builders: BuilderFleet, nodepool: NodepoolTree) -> None:
    nodepool.store(f"/jammy/builds/{HEX}", state="ready", state_time=1.0)
    with Session(builders.settings(10.0)) as raw:
        assert raw.children(paths.IMAGES) in (None, [])
        assert raw.get(f"{OPENED}/{HEX}") is not None
