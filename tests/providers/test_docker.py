"""Driver docker: images of a real engine."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from msgspec.structs import replace

from nodepool_ocb import providers
from nodepool_ocb.errors import Unavailable
from nodepool_ocb.providers import Item
from nodepool_ocb.testing.engine import Engine
from tests.providers.sites import Ledger, docker_provider, new_item, refused, sent, shell_tar, stamped, tar_file


@pytest.fixture
def item(tmp_path: Path) -> Item:
    return new_item(tar_file(tmp_path / "image.tar"), "tar", str(tmp_path))


def test_a_container_of_the_image_runs(engine: Engine, dock: Ledger, tmp_path: Path) -> None:
    item = new_item(shell_tar(tmp_path / "image.tar"), "tar", str(tmp_path))
    external_id = sent(dock.upload(item))
    command = ["run", "--rm", "--network=none", external_id, "/bin/sh", "-c", "echo it runs"]
    assert engine.run(*command) == "it runs\n"


def test_an_image_bears_tag_stamp_and_meta(engine: Engine, dock: Ledger, item: Item) -> None:
    item = stamped(item, image="openEuler-22", provider="west+1")
    external_id = sent(dock.upload(item))
    (image,) = json.loads(engine.run("image", "inspect", external_id))
    assert image["RepoTags"] == [f"ci/openeuler-22:0000000007-{item.stamp.upload}-west_1-{item.stamp.key}"]
    assert image["Config"]["Labels"] == {**item.meta, **item.stamp.labels}


def test_a_file_that_is_no_tar_makes_no_image(dock: Ledger, tmp_path: Path) -> None:
    (tmp_path / "image.tar").write_bytes(b"no tar" * 1000)
    outcome = refused(dock.upload(new_item(tmp_path / "image.tar", "tar", str(tmp_path))))
    assert "tar" in outcome.reason
    assert outcome.lasting


def test_an_image_that_a_container_uses_stays_with_its_tags(engine: Engine, dock: Ledger, tmp_path: Path) -> None:
    item = new_item(shell_tar(tmp_path / "image.tar"), "tar", str(tmp_path))
    external_id = sent(dock.upload(item))
    container = engine.run("create", "--network=none", "--name", item.external_name, external_id, "/bin/sh").strip()
    outcome = refused(dock.delete(external_id))
    assert item.external_name in outcome.reason
    assert not outcome.lasting
    assert dock.verify(external_id, item) is None
    engine.run("rm", container)
    assert dock.delete(external_id) is None


def test_an_image_with_several_tags_is_deleted_with_all(engine: Engine, dock: Ledger, item: Item) -> None:
    external_id = sent(dock.upload(item))
    engine.run("tag", external_id, "another:tag")
    assert dock.delete(external_id) is None
    assert external_id not in engine.run("images", "--all", "--no-trunc")


def test_an_image_that_lost_its_tag_is_listed_and_deleted(engine: Engine, dock: Ledger, item: Item) -> None:
    external_id = sent(dock.upload(item))
    (kept,) = [kept for kept in dock.list() if kept.stamp == item.stamp]
    engine.run("tag", tagged_elsewhere(engine), kept.external_name)
    assert [kept.external_id for kept in dock.list() if kept.stamp == item.stamp] == [external_id]
    assert dock.delete(external_id) is None


def tagged_elsewhere(engine: Engine) -> str:
    """Another image, which takes the tag."""
    return engine.run("import", "--change", "LABEL other=yes", "/dev/null").strip()


def test_images_of_others_are_not_listed(engine: Engine, dock: Ledger) -> None:
    other = tagged_elsewhere(engine)
    assert other not in {kept.external_id for kept in dock.list()}
    engine.run("rmi", other)


def test_two_images_whose_ids_are_the_same_are_two(engine: Engine, dock: Ledger, tmp_path: Path) -> None:
    """Ids of builds and uploads begin anew with each image: what one undoes is not the other's."""
    debian = new_item(tar_file(tmp_path / "debian.tar"), "tar", str(tmp_path))
    fedora = new_item(tar_file(tmp_path / "fedora.tar"), "tar", str(tmp_path))
    fedora = replace(stamped(fedora, image="fedora", upload=debian.stamp.upload), sha256="0" * 64)  # spoiled
    external_id = sent(dock.upload(debian))
    assert refused(dock.upload(fedora)).lasting
    assert dock.verify(external_id, debian) is None
    assert external_id in engine.run("images", "--all", "--no-trunc")


def test_the_longest_names_fit_into_a_tag(dock: Ledger, item: Item) -> None:
    longest = stamped(item, provider="p" * 200)
    assert dock.verify(sent(dock.upload(longest)), longest) is None


def test_a_label_has_no_line_break(dock: Ledger, item: Item) -> None:
    outcome = refused(dock.upload(replace(item, meta={"motd": "two\nlines"})))
    assert "motd" in outcome.reason
    assert outcome.lasting


def test_where_no_engine_listens_it_may_be_back_later(item: Item) -> None:
    uploader = providers.open(docker_provider("tcp://127.0.0.1:9"))
    assert not refused(uploader.upload(item)).lasting
    assert not refused(uploader.verify("x", item)).lasting
    assert not refused(uploader.delete("x", item.stamp)).lasting
    with pytest.raises(Unavailable, match="provider engine"):
        list(uploader.list())


def test_an_upload_stops_although_the_engine_is_silent(item: Item, until: Callable[..., None]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, ThreadPoolExecutor(1) as pool:
        uploader = providers.open(docker_provider(f"tcp://127.0.0.1:{silent.getsockname()[1]}"))
        upload = pool.submit(uploader.upload, item)
        silent.settimeout(20.0)
        connections = [silent.accept()[0]]
        item.stop.set()
        connections.append(silent.accept()[0])  # it asks whether anything was made
        assert "stop" in refused(upload.result(20.0)).reason
        for connection in connections:
            connection.close()
    until(lambda: not {"sending", "undoing"} & {thread.name for thread in threading.enumerate()})
