"""Operations on images and uploads, without a command line."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from nodepool_ocb import config
from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.errors import Conflict, EndPassed, NotFound
from nodepool_ocb.model import paths
from nodepool_ocb.model.images import BuildState, UploadState
from nodepool_ocb.model.records import Create, ImageSettings, Set
from nodepool_ocb.operations.images.building import ImageBuild
from nodepool_ocb.operations.images.deleting import ImageDelete
from nodepool_ocb.operations.images.deleting_uploads import UploadDelete
from nodepool_ocb.operations.images.exporting import ImageExport
from nodepool_ocb.operations.images.forgetting import ImageErase, UploadDeleteRecords
from nodepool_ocb.operations.images.importing import ImageImport
from nodepool_ocb.operations.images.pausing import ImagePause, ImageUnpause
from nodepool_ocb.operations.images.reading import ImageList, ImageShow, UploadList
from nodepool_ocb.operations.reads.images import ReadConfiguredPauses
from nodepool_ocb.store.client.session import Session
from tests.cli.images.played_builder import Builder
from tests.operations.performing import calm, faster_writer


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


def test_an_export_leaves_out_builds_that_are_under_way(builder: Builder, zk_settings: ZooKeeperSettings) -> None:
    ready = builder.made()
    sent = builder.uploads(ready, "west")
    builder.uploads(ready, "east", UploadState.UPLOADING)
    builder.begins()
    Builder(builder.session, "noble").made()
    mine = calm(zk_settings)
    document = mine.perform(ImageExport(images=("jammy", "jammy"))).answer
    assert list(document.images) == ["jammy"]
    (build,) = document.images["jammy"].builds.values()
    assert (build["builder"], build["schema"]) == (builder.host, 1)
    assert {provider: list(found) for provider, found in build["uploads"].items()} == {"west": [sent]}
    assert mine.heard.notes == ["left out: 1 build that is under way, or aborted"]
    assert sorted(mine.perform(ImageExport()).answer.images) == ["jammy", "noble"]


def test_a_pause_after_a_faster_writer_replaces_its_pause(builder: Builder, zk_settings: ZooKeeperSettings) -> None:
    first = ImagePause(image="jammy", reason="first", seconds=60.0)
    with faster_writer(lambda: calm(zk_settings).perform(first)) as acted:
        performed = calm(zk_settings).perform(ImagePause(image="jammy", reason="second"))
    assert acted == [1]
    assert [(row.change, row.kind, row.name) for row in performed.rows] == [("change", "pause", "jammy")]
    pause = builder.view().pause
    assert pause is not None
    assert (pause.record.by, pause.record.reason, pause.record.until) == ("ann", "second", None)


def test_a_pause_that_another_ended_meanwhile_is_no_failure(builder: Builder, zk_settings: ZooKeeperSettings) -> None:
    unpause = ImageUnpause(image="jammy")
    calm(zk_settings).perform(ImagePause(image="jammy"))
    with faster_writer(lambda: calm(zk_settings).perform(unpause)):
        assert calm(zk_settings).perform(unpause).rows == ()
    assert builder.view().pause is None


@pytest.mark.parametrize("end", [{"until": 1.0}, {"seconds": 0.0}], ids=str)
def test_a_pause_that_is_over_already_is_refused(
    builder: Builder, zk_settings: ZooKeeperSettings, end: dict[str, float]
) -> None:
    with pytest.raises(EndPassed, match="is in the past"):
        calm(zk_settings).perform(ImagePause(image="jammy", **end))
    assert builder.view().pause is None


def test_a_dry_run_pauses_nothing(builder: Builder, zk_settings: ZooKeeperSettings) -> None:
    performed = calm(zk_settings, dry_run=True).perform(ImagePause(image="jammy"))
    assert [row.name for row in performed.rows] == ["jammy"]
    assert builder.view().pause is None


def test_a_request_after_a_faster_writer_has_its_own_number(builder: Builder, zk_settings: ZooKeeperSettings) -> None:
    with faster_writer(lambda: calm(zk_settings).perform(ImageBuild(image="jammy", reason="first"))) as acted:
        answer = calm(zk_settings).perform(ImageBuild(image="jammy", reason="second")).answer
    assert acted == [1]
    request = builder.view().request
    assert request is not None
    assert (request.record.reason, request.mzxid) == ("second", answer.request)


def test_a_request_says_why_no_build_begins(builder: Builder, zk_settings: ZooKeeperSettings) -> None:
    mine = calm(zk_settings)
    assert not mine.perform(ImageBuild(image="jammy")).answer.builders
    assert [note.partition(":")[0] for note in mine.heard.notes] == ["no builder is running"]
    builder.registers(images={"noble": ImageSettings(formats=("qcow2",))})
    mine.perform(ImagePause(image="jammy"))
    answer = mine.perform(ImageBuild(image="jammy")).answer
    assert answer.builders
    assert [text.partition(":")[0] for text in answer.after] == [
        "no running builder can build jammy",
        "jammy is paused",
    ]


def test_a_dry_run_asks_for_no_build(builder: Builder, zk_settings: ZooKeeperSettings) -> None:
    mine = calm(zk_settings, dry_run=True)
    performed = mine.perform(ImageBuild(image="jammy"))
    assert ([row.kind for row in performed.rows], performed.answer.request) == (["build request"], None)
    assert (builder.view().request, mine.heard.notes) == (None, [])


def test_a_build_that_comes_after_the_question_stays(builder: Builder, zk_settings: ZooKeeperSettings) -> None:
    old, spare = builder.made(BuildState.FAILED), builder.made(BuildState.FAILED)
    later: list[str] = []

    def meanwhile() -> None:
        later.append(builder.made())
        builder.sets(spare, reason="disk full")

    mine = calm(zk_settings)
    with faster_writer(meanwhile):
        performed = mine.perform(ImageDelete(image="jammy", force=True))
    assert sorted(row.name for row in performed.rows) == [f"jammy-{old}", f"jammy-{spare}"]
    assert builder.build_view(later[0]).record.state is BuildState.READY
    assert mine.heard.agreed == [f"delete jammy-{old}, jammy-{spare}"]


def test_a_build_whose_state_changes_after_the_question_stays(builder: Builder, zk_settings: ZooKeeperSettings) -> None:
    other = builder.made(BuildState.FAILED)
    with (
        faster_writer(lambda: builder.sets(other, state=BuildState.READY)),
        pytest.raises(Conflict, match="was failed, and is ready now"),
    ):
        calm(zk_settings).perform(ImageDelete(image="jammy", build=other, force=True))
    assert builder.build_view(other).record.state is BuildState.READY


def test_an_upload_that_comes_after_the_question_stays(builder: Builder, zk_settings: ZooKeeperSettings) -> None:
    build = builder.made()
    old, later = builder.uploads(build, "west", UploadState.FAILED), []
    mine = calm(zk_settings)
    with faster_writer(lambda: later.append(builder.uploads(build, "west"))):
        performed = mine.perform(UploadDelete(image="jammy", build=build, provider="west", force=True))
    assert [row.name.rpartition(" ")[2] for row in performed.rows] == [old]
    states = {each.id: each.record.state for each in builder.build_view(build).uploads}
    assert states == {old: UploadState.DELETE, later[0]: UploadState.READY}


def test_records_of_uploads_that_changed_after_the_question_stay(
    builder: Builder, zk_settings: ZooKeeperSettings
) -> None:
    build = builder.made()
    builder.uploads(build, "west", external_name="jammy-1")

    def meanwhile() -> None:
        (upload,) = builder.build_view(build).uploads
        path = paths.upload("jammy", build, "west", upload.id)
        builder.session.commit([Set(path, replace(upload.record, external_id="just-sent"), upload.version)])

    for operation in (
        UploadDeleteRecords(image="jammy", build=build, provider="west"),
        ImageErase(provider="west"),
    ):
        mine = calm(zk_settings)
        with faster_writer(meanwhile), pytest.raises(Conflict, match="changed meanwhile"):
            mine.perform(operation)
        assert len(mine.heard.agreed) == 1
    assert len(builder.build_view(build).uploads) == 1


def test_an_import_after_a_faster_writer_judges_the_images_again(
    builder: Builder, zk_settings: ZooKeeperSettings
) -> None:
    build = builder.made()
    builder.uploads(build, "west")
    mine = calm(zk_settings)
    document = mine.perform(ImageExport()).answer
    (exported,) = document.images.values()
    record = replace(builder.build_view(build).record, builder="another")

    def meanwhile() -> None:
        builder.session.ensure(paths.builds("noble"))
        builder.session.commit([Create(paths.build("noble", build), record)])

    with faster_writer(meanwhile), pytest.raises(Conflict, match="image noble exists"):
        mine.perform(ImageImport(images={"noble": exported}))
    assert mine.perform(ImageImport(images={"bionic": exported})).rows
    assert mine.perform(ImageImport(images={"bionic": exported})).rows == ()
    assert calm(zk_settings, dry_run=True).perform(ImageImport(images={"focal": exported})).rows
    assert "focal" not in mine.perform(ImageExport()).answer.images
