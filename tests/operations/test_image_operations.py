"""Operations on images and uploads, without a command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodepool_ocb import config
from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.errors import NotFound
from nodepool_ocb.model import paths
from nodepool_ocb.model.images import BuildState, UploadState
from nodepool_ocb.model.records import Create, ImageSettings
from nodepool_ocb.operations.images.reading import ImageList, ImageShow, UploadList
from nodepool_ocb.operations.reads.images import ReadConfiguredPauses
from nodepool_ocb.store.client.session import Session
from tests.cli.images.played_builder import Builder
from tests.operations.performing import calm


@pytest.fixture
def builder(zk_session: Session) -> Builder:
    return Builder(zk_session)


def test_images_are_listed_and_shown(builder: Builder, zk_settings: ZooKeeperSettings) -> None:
    ready = builder.made()
    builder.made(BuildState.FAILED)
    builder.uploads(ready, "west")
    mine = calm(zk_settings)
    (row,) = mine.perform(ImageList()).answer
    assert (row.name, row.build, row.failures, row.uploads.ready) == ("jammy", ready, 1, 1)
    document = mine.perform(ImageShow(image="jammy")).answer
    assert next((each.build, len(each.uploads)) for each in document.builds) == (ready, 1)
    assert document.next_attempt is not None
    with pytest.raises(NotFound, match="did you mean `jammy`"):
        mine.perform(ImageShow(image="jamy"))


@pytest.mark.usefixtures("zk_session")
def test_without_builders_and_images_a_note_says_so(zk_settings: ZooKeeperSettings) -> None:
    mine = calm(zk_settings)
    assert mine.perform(ImageList()).answer == []
    assert [note.partition(":")[0] for note in mine.heard.notes] == ["no builder is running"]


def test_an_image_that_was_removed_is_not_listed(builder: Builder, zk_settings: ZooKeeperSettings) -> None:
    builder.registers(images={"noble": ImageSettings(formats=("qcow2",))})
    assert calm(zk_settings).perform(ImageList()).answer == []


def test_uploads_are_listed_by_image_provider_and_state(builder: Builder, zk_settings: ZooKeeperSettings) -> None:
    other = Builder(builder.session, "noble")
    for each in (builder, other):
        build = each.made()
        each.uploads(build, "west")
        each.uploads(build, "east", UploadState.FAILED)
    mine = calm(zk_settings)
    for operation, expected in (
        (UploadList(), ["jammy east", "jammy west", "noble east", "noble west"]),
        (UploadList(image="noble"), ["noble east", "noble west"]),
        (UploadList(provider="west"), ["jammy west", "noble west"]),
        (UploadList(states=("failed",)), ["jammy east", "noble east"]),
    ):
        found = mine.perform(operation).answer
        assert sorted(f"{row.image} {row.provider}" for row in found) == expected
    with pytest.raises(NotFound, match="noble"):
        mine.perform(UploadList(image="nobel"))


def test_a_note_names_a_record_that_cannot_be_read(builder: Builder, zk_settings: ZooKeeperSettings) -> None:
    path = paths.build("jammy", "0000000777")
    builder.session.commit([Create(path, ["no", "record"])])
    mine = calm(zk_settings)
    assert mine.perform(UploadList()).answer == []
    assert [note.partition(" is left out")[0] for note in mine.heard.notes] == [f"warning: {path}"]


@pytest.mark.usefixtures("zk_session")
def test_the_pauses_of_a_host_without_configuration_are_not_looked_for(
    tmp_path: Path, zk_settings: ZooKeeperSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "diskimages: [{name: jammy, elements: [vm], pause: true}]\nproviders: []\n"
    (tmp_path / "nodepool.yaml").write_text(text)
    (tmp_path / "nodepool-ocb.yaml").write_text("{}\n")
    monkeypatch.chdir(tmp_path)
    mine = calm(zk_settings)
    assert mine.read(iter(ReadConfiguredPauses())) == {}
    with mine.session() as opened:
        loaded = config.load(tmp_path / "nodepool-ocb.yaml")
        mine.settings = lambda: loaded
        file = str(tmp_path / "nodepool.yaml")
        assert mine.read(iter(ReadConfiguredPauses()), opened) == {"jammy": file}
