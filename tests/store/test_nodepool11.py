"""The dialect of Nodepool 11's tree: what is written, what is read, and that a native record survives both."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodepool_ocb.model import paths
from nodepool_ocb.model.images import Build, BuildState, Pause, Upload, UploadState
from nodepool_ocb.model.records import Record
from nodepool_ocb.store import nodepool11
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.client.frames import Znode
from nodepool_ocb.store.client.tree import NATIVE
from nodepool_ocb.store.nodepool11 import Nodepool11Tree

TREE = Nodepool11Tree()
HEX = "0123456789abcdef0123456789abcdef"
BUILD, UPLOAD = paths.build("jammy", HEX), paths.upload("jammy", HEX, "west", "0000000001")
SIGNATURE = "AbCdEfGhIjKl"

texts = st.text(max_size=8)
names = st.text(alphabet="abcdef0123-", min_size=1, max_size=8)
times = st.floats(min_value=0, max_value=4e9)
formats = st.lists(st.sampled_from(["qcow2", "raw", "vhd", "tar.gz"]), unique=True).map(tuple)
maybe = st.none() | names
unknown = st.none() | st.dictionaries(st.sampled_from(["colour", "remark"]), texts, min_size=1)

builds = st.builds(
    Build,
    builder=names | st.just(""),
    builder_id=names | st.just(""),
    filename=names | st.just(""),
    state=st.sampled_from(BuildState),
    state_time=times,
    formats=formats,
    removed=formats,
    started=times,
    request=st.integers(min_value=0, max_value=2**40),
    reason=st.none() | texts,
    log=maybe,
    username=maybe,
    python_path=maybe,
    shell_type=maybe,
    metadata=st.dictionaries(names, names, max_size=2),
    unknown=unknown,
)
uploads = st.builds(
    Upload,
    state=st.sampled_from(UploadState),
    state_time=times,
    format=st.sampled_from(["", "qcow2", "raw"]),
    external_id=maybe,
    external_name=maybe,
    cluster=names | st.just(""),
    key=names | st.just(""),
    builder=maybe,
    attempt=st.integers(min_value=1, max_value=8),
    reason=st.none() | texts,
    username=maybe,
    unknown=unknown,
)


def stored(path: str, record: Record) -> dict[str, Any]:
    """The keys in ZooKeeper."""
    keys: dict[str, Any] = json.loads(TREE.written(path, codec.signed(codec.encode(record), SIGNATURE)))
    return keys


def read(path: str, keys: dict[str, Any]) -> bytes:
    """The native data of keys in ZooKeeper."""
    return TREE.read(Znode(path, json.dumps(keys).encode(), 3, 7)).data


def native(path: str, kind: type[Any], **keys: Any) -> Any:
    """The native record of keys in ZooKeeper."""
    return codec.decode(kind, Znode(path, read(path, keys), 3, 7))


@given(builds)
def test_a_build_is_read_as_it_was_written(record: Build) -> None:
    data = codec.signed(codec.encode(record), SIGNATURE)
    assert TREE.read(Znode(BUILD, TREE.written(BUILD, data), 3, 7)).data == data


@given(uploads)
def test_an_upload_is_read_as_it_was_written(record: Upload) -> None:
    data = codec.signed(codec.encode(record), SIGNATURE)
    assert TREE.read(Znode(UPLOAD, TREE.written(UPLOAD, data), 3, 7)).data == data


@given(builds)
def test_nodepools_keys_of_a_build_have_the_types_and_states_of_nodepool(record: Build) -> None:
    keys = stored(BUILD, record)
    assert keys["state"] in ("building", "ready", "deleting", "failed")
    assert {"username", "python_path", "shell_type"} <= keys.keys()
    assert isinstance(keys.get("formats", "text"), str)
    assert ("formats" in keys) == (bool(record.formats) and keys["state"] != "failed")


@given(uploads)
def test_nodepools_keys_of_an_upload_have_the_states_of_nodepool(record: Upload) -> None:
    keys = stored(UPLOAD, record)
    assert keys["state"] in ("uploading", "ready", "deleting", "failed")
    assert {"external_id", "external_name", "format", "username", "python_path", "shell_type"} <= keys.keys()


@given(builds)
def test_a_build_without_our_keys_is_whole(record: Build) -> None:
    own = {"state", "state_time", "builder", "builder_id", "formats", "username", "python_path", "shell_type"}
    keys = {name: value for name, value in stored(BUILD, record).items() if name in own}
    found = native(BUILD, Build, **keys)
    state = BuildState.FAILED if record.state is BuildState.ABORTED else record.state
    lost = record.formats if state is not BuildState.FAILED else ()
    assert (found.state, found.formats, found.builder_id) == (state, lost, record.builder_id)
    assert found.filename == f"jammy-{HEX}"


@given(uploads)
def test_an_upload_without_our_keys_is_whole(record: Upload) -> None:
    own = {"state", "state_time", "external_id", "external_name", "format", "username", "python_path", "shell_type"}
    keys = {name: value for name, value in stored(UPLOAD, record).items() if name in own}
    found = native(UPLOAD, Upload, **keys)
    same = ("state", "state_time", "external_id", "external_name", "format", "username", "python_path", "shell_type")
    assert [getattr(found, each) for each in same] == [getattr(record, each) for each in same]


def test_an_aborted_build_is_a_failed_one_for_nodepool() -> None:
    keys = stored(
        BUILD, Build(builder="h", builder_id="b", filename="", state=BuildState.ABORTED, state_time=1, reason="died")
    )
    assert (keys["state"], keys["reason"]) == ("failed", "died")
    assert native(BUILD, Build, **keys).state is BuildState.ABORTED
    assert native(BUILD, Build, **(keys | {"state": "deleting"})).state is BuildState.DELETE


def test_an_id_of_nodepool_that_ends_with_a_line_feed_is_the_id_of_the_directory() -> None:
    assert native(BUILD, Build, state="ready", state_time=1.0, builder_id="b7\n").builder_id == "b7"


@pytest.mark.parametrize("data", [b"{", b"[]", b'"text"', b"\xff"])
def test_data_that_are_no_object_stay_as_they_are(data: bytes) -> None:
    assert TREE.read(Znode(BUILD, data, 1, 1)).data == data


@pytest.mark.parametrize("path", [paths.pause("jammy"), paths.request_build("jammy")])
def test_a_flag_is_empty(path: str) -> None:
    assert TREE.written(path, codec.encode(Pause(by="root"))) == b""


@pytest.mark.parametrize(
    ("path", "there"),
    [
        (paths.IMAGES, "/nodepool/images"),
        (paths.pause("provider"), "/nodepool/images/provider/pause"),
        (paths.build_lock("jammy"), "/nodepool/images/jammy/builds/lock"),
        (paths.build("jammy", HEX), f"/nodepool/images/jammy/builds/{HEX}"),
        (f"{BUILD}/lock/mark__lock__0000000000", f"/nodepool/images/jammy/builds/{HEX}/lock/mark__lock__0000000000"),
        (paths.build_providers("jammy", HEX), f"/nodepool/images/jammy/builds/{HEX}/providers"),
        (paths.upload("jammy", HEX, "provider", ""), f"/nodepool/images/jammy/builds/{HEX}/providers/provider/images/"),
        (paths.request("100-0000000001"), "/nodepool/requests/100-0000000001"),
        ("/nodepool/imagery", "/nodepool/imagery"),
        (paths.CLUSTER, "/ocb/cluster"),
    ],
)
def test_each_path_has_one_place_in_nodepools_tree(path: str, there: str) -> None:
    assert TREE.stored(path) == there
    assert TREE.native(there) == path


def test_nodepools_part_of_the_tree_is_open_and_the_rest_is_not() -> None:
    opened = ["/nodepool", paths.IMAGES, "/nodepool/images", paths.POOL_NODES, UPLOAD]
    closed = ["/", paths.CLUSTER, "/nodepool/daemons/builder", paths.POOL_CLOCK, "/nodepools"]
    assert all(map(TREE.open, opened))
    assert not any(map(TREE.open, closed))
    assert not any(map(NATIVE.open, opened))


def test_the_setting_selects_the_tree() -> None:
    assert nodepool11.tree("native") is NATIVE
    assert nodepool11.tree("nodepool").foreign
