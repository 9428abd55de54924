"""What may happen to a builder besides its own death: locks taken away, providers that refuse or say nothing."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from urllib.request import urlopen

import pytest
from msgspec.structs import replace

from nodepool_ocb.config import BuilderSettings
from nodepool_ocb.images.nodepool import Diskimage, Nodepool
from nodepool_ocb.model import paths
from nodepool_ocb.model.images import Build, BuildState, Upload, UploadState
from nodepool_ocb.model.records import Daemon, Delete, Json, Set
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.subtree import removal
from nodepool_ocb.testing.zookeeper.server import free_port
from nodepool_ocb_builder.backends import BuildTask, Command
from nodepool_ocb_builder.build import Building
from nodepool_ocb_builder.context import Context
from nodepool_ocb_builder.image_directory import ImageDirectory
from tests.builder.fleet_of_builders import BuilderFleet


def test_a_build_whose_lock_somebody_took_away_takes_it_again(builders: BuilderFleet) -> None:
    builders.builder(builders.image("jammy", 3.0)).start()
    builders.until(lambda: builders.history(), "it is being built")
    lock = paths.build_lock("jammy")
    (contender,) = builders.session.children(lock) or ()
    builders.session.commit([Delete(f"{lock}/{contender}", 0)])
    builders.until_ready("jammy", seconds=10.0)
    builders.until(lambda: builders.view("jammy").holder is None, "the lock is given back")
    assert len(builders.history()) == 1


@pytest.mark.parametrize("builders_end", [False, True], ids=["it is mended", "its builder ends"])
def test_a_build_whose_record_cannot_be_read_goes_on_and_the_record_stays(
    builders: BuilderFleet, builders_end: bool
) -> None:
    builder = builders.builder(builders.image("jammy", 4.0)).start()
    builders.until(lambda: builders.history(), "it is being built")
    (build,) = builders.builds("jammy")
    path = paths.build("jammy", build.id)
    znode = builders.session.get(path)
    assert znode is not None
    builders.session._client.set(path, b"{oops")
    builders.until(lambda: builders.history("end"), "it was built to the end")
    builders.until(lambda: "cannot be written yet" in builder.said, "it waits")
    spoiled = builders.session.get(path)
    assert spoiled is not None
    assert spoiled.data == b"{oops"
    if builders_end:
        builder.terminate()
        assert builder.wait() == 0
        assert builders.session.get(path) == spoiled
        return
    builders.session._client.set(path, znode.data)
    (ready,) = builders.until_ready("jammy")
    assert ready.id == build.id
    assert len(builders.history()) == 1


@pytest.mark.long
def test_a_deletion_that_is_refused_is_asked_for_less_and_less_often(builders: BuilderFleet) -> None:
    builder = builders.builder(builders.image("jammy"), providers=[builders.provider("cloud", "jammy")]).start()
    builders.until(lambda: builders.uploads("jammy", UploadState.READY), "it is uploaded")
    (upload,) = builders.builds("jammy")[0].uploads
    file = builders.folder / "providers" / "cloud" / str(upload.record.external_id)
    file.unlink()
    file.mkdir()  # which the provider will not delete
    path = paths.upload("jammy", upload.build, "cloud", upload.id)
    builders.session.commit([Set(path, replace(upload.record, state=UploadState.DELETE), upload.version)])
    refusals = []
    for count in range(1, 5):
        builders.until(lambda: builder.said.count("stays at cloud") >= count, "it is refused")  # noqa: B023
        refusals.append(time.monotonic())
    gaps = [later - earlier for earlier, later in pairwise(refusals)]
    assert all(gap > least for gap, least in zip(gaps, (0.8, 1.8, 3.8), strict=True)), gaps


@pytest.fixture
def mute() -> Iterator[str]:
    """The address of a provider that takes connections, and answers nothing."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as server:
        yield f"tcp://127.0.0.1:{server.getsockname()[1]}"


def _doomed(builders: BuilderFleet, provider: str, external_ids: Sequence[str]) -> None:
    """Uploads that are to be deleted at a provider, of builds of a builder that is not here."""
    for external_id in external_ids:
        builders.session.ensure(paths.builds("old"))
        record = Build(builder="gone", builder_id="gone", filename="", state=BuildState.FAILED, state_time=time.time())
        build = builders.session.create_next(paths.builds("old") + "/", record)
        uploads = paths.uploads("old", build.rpartition("/")[2], provider)
        builders.session.ensure(uploads)
        upload = Upload(state=UploadState.DELETE, state_time=1.0, format="tar", external_id=external_id)
        builders.session.create_next(uploads + "/", upload)


@pytest.mark.long
def test_a_provider_that_says_nothing_holds_up_no_other_and_no_end(builders: BuilderFleet, mute: str) -> None:
    silent = {"name": "silent", "driver": "docker", "url": mute, "diskimages": []}
    for name in ("a", "b", "c", "d", "e", "f"):
        _doomed(builders, "silent", [f"sha256:{name}"])
    _doomed(builders, "cloud", ["old.raw"])
    carried = {"name": "jammy", "pause": True}
    providers = [{**silent, "diskimages": [carried]}, builders.provider("cloud", "jammy")]
    builder = builders.builder(builders.image("jammy"), providers=providers).start()
    builders.until(
        lambda: "cloud" not in {each for _, each in builders.uploads("old")}, "the other provider's goes", 10.0
    )
    assert {each for _, each in builders.uploads("old")} == {"silent"}
    began = time.monotonic()
    builder.terminate()
    assert builder.wait() == 0
    assert time.monotonic() - began < 14.0


def test_the_leaks_of_every_provider_are_looked_for(builders: BuilderFleet) -> None:
    names = [f"cloud-{number}" for number in range(9)]
    providers = [builders.provider(name, "jammy") for name in names]
    builder = builders.builder(builders.image("jammy"), providers=providers, leak_seconds=0.5).start()
    builders.until(lambda: len(builders.uploads("jammy", UploadState.READY)) == len(names), "it is uploaded everywhere")
    for name in names:
        folder = builders.folder / "providers" / name
        (kept,) = folder.glob("*.json")
        side = json.loads(kept.read_text())
        side["stamp"]["nodepool_ocb_upload"] = "0000000099"
        (folder / "leaked.raw.json").write_text(json.dumps(side))
        (folder / "leaked.raw").touch()
    builders.until(lambda: not any("leaked.raw" in builders.provided(name) for name in names), "no leak is left", 15.0)
    assert builder.metric("nodepool_ocb_leaks_total") == len(names)


def test_an_image_that_is_gone_is_counted_no_more(builders: BuilderFleet) -> None:
    builders.session.ensure(paths.builds("old"))
    builder = builders.builder(builders.image("jammy")).start()
    line = 'nodepool_ocb_image_builds_ready{image="old"}'
    page = f"http://{builder.pages}/metrics"
    builders.until(lambda: line in urlopen(page).read().decode(), "it is counted")
    builders.session.commit(removal(builders.session, paths.image("old")))
    builders.until(lambda: line not in urlopen(page).read().decode(), "it is not counted")


class Broken:
    """A backend with a fault of its own."""

    formats = None
    needs: tuple[str, ...] = ()

    def faults(self, options: Mapping[str, Json]) -> list[str]:  # noqa: ARG002
        return []

    def command(self, task: BuildTask) -> Command:  # noqa: ARG002
        raise KeyError("suite")


def test_a_backend_that_breaks_is_a_build_that_failed(zk_session: Session, tmp_path: Path) -> None:
    directory = ImageDirectory(tmp_path / "images", tmp_path / "logs")
    image = Diskimage(name="jammy", backend="broken", formats=("raw",))
    context = Context(zk_session, directory, BuilderSettings(), Nodepool(diskimages=(image,)), {"broken": Broken()}, {})
    zk_session.ensure(paths.builds("jammy"))
    Building(context, image).run()
    view = context.look("jammy")
    assert view is not None
    (build,) = view.builds
    assert build.record.state is BuildState.FAILED
    assert "KeyError: 'suite'" in (build.record.reason or "")
    assert not list(directory.folder.glob("jammy-*"))
    directory.close()


def test_a_reload_names_the_settings_that_it_does_not_change(builders: BuilderFleet) -> None:
    builder = builders.builder(builders.image("jammy")).start()
    file = builder.config.parent / "nodepool.yaml"
    file.write_text(file.read_text().replace(str(builder.images), str(builders.folder / "elsewhere")))
    builder.configure(zookeeper={"hosts": "127.0.0.1:1/elsewhere"})
    builder.reload()
    builders.until(lambda: "needs a restart: zookeeper.hosts, images-dir" in builder.said, "it is reported")
    assert "reloaded" not in builder.said
    builders.until_ready("jammy")


def test_a_shorter_interval_counts_for_what_was_looked_at_before_the_reload(builders: BuilderFleet) -> None:
    builder = builders.builder(builders.image("jammy"), cleanup_seconds=3600.0).start()
    builders.until_ready("jammy")
    (builder.images / "jammy-0000000099.raw").touch()
    builder.configure(builder={"cleanup_seconds": 0.5})
    builder.reload()
    builders.until(lambda: not (builder.images / "jammy-0000000099.raw").exists(), "what has no record is removed")


def test_a_reload_moves_the_pages_and_changes_workers_and_log(builders: BuilderFleet) -> None:
    builder = builders.builder(builders.image("jammy")).start()
    pages = f"127.0.0.1:{free_port()}"
    builder.configure(builder={"listen": pages, "build_workers": 2}, log={"format": "json"})
    builder.reload()
    builders.until(lambda: '"message": "reloaded"' in builder.said, "the log has the new format")
    builder.pages = pages
    builders.until(builder.ready, "the pages are there")

    def registered() -> Daemon:
        znode = builders.session.get(paths.daemon("builder", builder.id))
        assert znode is not None
        return codec.decode(Daemon, znode)

    builders.until(lambda: (registered().pages, registered().slots) == (pages, 2), "others know of it")
