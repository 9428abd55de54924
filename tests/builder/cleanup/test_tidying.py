"""What a builder deletes, step by step on records that a test writes: never more than it knows to be its own."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from nodepool_ocb import providers
from nodepool_ocb.config import BuilderSettings
from nodepool_ocb.errors import Stale, Unavailable
from nodepool_ocb.images.diskimages import Diskimage
from nodepool_ocb.images.nodepool import Nodepool, Provider, ProviderImage
from nodepool_ocb.images.rules import due_uploads, tried_again
from nodepool_ocb.images.tidy import RemoveBuild, RemoveFiles, RemoveUpload, Tidier, tidy
from nodepool_ocb.model import paths
from nodepool_ocb.model.images import Build, BuildState, Upload, UploadState
from nodepool_ocb.model.records import Change, Cluster, Create, Json, Set
from nodepool_ocb.providers.provider import Item, Refused, Sent, Uploader
from nodepool_ocb.providers.stamp import Stamp
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.subtree import removal
from nodepool_ocb_builder import checksums
from nodepool_ocb_builder.build import Building
from nodepool_ocb_builder.cleanup import steps
from nodepool_ocb_builder.cleanup.leaks import Leaks
from nodepool_ocb_builder.cleanup.orphans import Orphans
from nodepool_ocb_builder.context import Context
from nodepool_ocb_builder.image_directory import ImageDirectory
from nodepool_ocb_builder.upload import Uploading, elsewhere

ID = "0000000001"
NAME = f"jammy-{ID}"


class Host:
    """A builder's place of work, whose one provider is a directory."""

    def __init__(self, session: Session, folder: Path) -> None:
        self.cloud = folder / "cloud"
        provider = Provider(
            name="cloud",
            driver="local",
            format="raw",
            diskimages=(ProviderImage(name="jammy", format="raw"),),
            image_upload_timeout_seconds=3600.0,
            options={"directory": str(self.cloud)},
        )
        self.uploader: Uploader = providers.open(provider)
        directory = ImageDirectory(folder / "images", folder / "logs")
        wants = Nodepool(providers=(provider,))
        self.context = Context(session, directory, BuilderSettings(), wants, {}, {"cloud": self.uploader})
        found = session.get(paths.CLUSTER)
        assert found is not None
        session.commit([Set(paths.CLUSTER, Cluster(id="ours"), found.version)])
        self.context.cluster = "ours"
        self.stamp = Stamp(cluster="ours", provider="cloud", image="jammy", build=ID, upload=ID, key="k")

    def build(self, **fields: Json) -> Build:
        """Its record, ready, with a file of format raw, in ZooKeeper and on the disk."""
        file = self.context.directory.file(NAME, "raw")
        file.write_text("image")
        sums = {"raw": checksums.write(file)}
        known = {"builder": "here", "builder_id": self.context.builder_id, "filename": NAME, "formats": ("raw",)}
        record = Build(**known | {"state": BuildState.READY, "state_time": 1.0, "checksums": sums} | fields)
        self.context.session.ensure(paths.builds("jammy"))
        self._put(Create(paths.build("jammy", ID), record))
        self.context.session.ensure(paths.uploads("jammy", ID, "cloud"))
        return record

    def upload(self, **fields: Json) -> Upload:
        record = Upload(
            **{"state": UploadState.READY, "state_time": 1.0, "format": "raw", "cluster": "ours", "key": "k"} | fields
        )
        self._put(Create(paths.upload("jammy", ID, "cloud", ID), record))
        return record

    def sent(self) -> str:
        """What the provider calls the build's file, once it was sent."""
        file = self.context.directory.file(NAME, "raw")
        sums = checksums.compute(file)
        sent = self.uploader.upload(
            Item(
                file=file, format="raw", external_name=self.stamp.external_name, stamp=self.stamp,
                stop=threading.Event(), timeout_seconds=10.0, **sums,
            )
        )  # fmt: skip
        assert isinstance(sent, Sent)
        return sent.external_id

    def garble(self, path: str) -> None:
        """As a later version may write it."""
        znode = self.context.session.get(path)
        assert znode is not None
        self._put(Set(path, {"schema": 2}, znode.version))

    def uploads_may_take(self, seconds: float) -> None:
        known = self.context.providers["cloud"]
        self.context.providers = {"cloud": replace(known, image_upload_timeout_seconds=seconds)}

    def look_twice(self) -> list[str]:
        """What is left at the provider after two looks for leaks."""
        leaks = Leaks(self.context)
        for _ in range(2):
            leaks.look("cloud")
        return [kept.external_id for kept in self.uploader.list()]

    def _put(self, *changes: Change) -> None:
        self.context.session.commit(changes)


@pytest.fixture
def host(zk_session: Session, tmp_path: Path) -> Iterator[Host]:
    host = Host(zk_session, tmp_path)
    yield host
    host.context.directory.close()


def test_a_leak_is_deleted_when_it_is_seen_twice(host: Host) -> None:
    host.build()
    host.sent()
    assert host.look_twice() == []


@pytest.mark.parametrize("path", [paths.build("jammy", ID), paths.upload("jammy", ID, "cloud", ID)])
def test_what_a_record_that_cannot_be_decoded_may_name_is_no_leak(host: Host, path: str) -> None:
    host.build()
    external_id = host.sent()
    host.upload(external_id=external_id)
    host.garble(path)
    assert host.look_twice() == [external_id]


@pytest.mark.parametrize("state", [UploadState.UPLOADING, UploadState.FAILED, UploadState.READY])
def test_an_object_of_an_attempt_that_died_with_an_earlier_process_is_deleted_at_the_first_look(
    host: Host, state: UploadState
) -> None:
    host.build()
    host.sent()
    host.upload(state=state, external_id="another" if state is UploadState.READY else None)
    Leaks(host.context).look("cloud")
    assert not list(host.uploader.list())


def test_an_object_of_an_attempt_that_this_process_makes_stays(host: Host) -> None:
    host.build()
    external_id = host.sent()
    host.upload(state=UploadState.FAILED, reason="its lock was lost")
    host.context.sending.add(host.stamp)
    assert host.look_twice() == [external_id]


def test_an_object_that_a_record_of_this_builder_names_stays(host: Host) -> None:
    host.build()
    external_id = host.sent()
    host.upload(external_id=external_id)
    assert host.look_twice() == [external_id]


def test_an_upload_that_was_thought_dead_is_no_leak_while_it_may_still_be_going_on(host: Host) -> None:
    host.build(builder_id="another")
    external_id = host.sent()
    host.upload(state=UploadState.FAILED, reason="here died while it sent it")
    leaks = Leaks(host.context)
    for _ in range(3):
        leaks.look("cloud")
    assert [kept.external_id for kept in host.uploader.list()] == [external_id]
    host.uploads_may_take(0.0)
    leaks.look("cloud")
    assert not list(host.uploader.list())


def test_what_an_older_attempt_made_is_a_leak_once_it_cannot_be_going_on(host: Host) -> None:
    host.build(builder_id="another")
    host.sent()
    host.upload(key="of-a-newer-attempt", external_id="another")
    leaks = Leaks(host.context)
    for _ in range(3):
        leaks.look("cloud")
    assert list(host.uploader.list())
    host.uploads_may_take(0.0)
    leaks.look("cloud")
    assert not list(host.uploader.list())


def test_an_upload_whose_leak_was_deleted_does_not_come_back_as_ready(host: Host) -> None:
    """Its builder was cut off for longer than an upload may take, and then wrote what it had done."""
    host.build(builder_id="another")
    external_id = host.sent()
    host.upload(state=UploadState.FAILED, reason="here died while it sent it")
    leaks = Leaks(host.context)
    leaks.look("cloud")
    host.uploads_may_take(0.0)
    leaks.look("cloud")
    assert not list(host.uploader.list())
    Uploading(host.context, "jammy", ID, "cloud")._end(host.stamp, Sent(external_id))
    view = host.context.look("jammy")
    assert view is not None
    assert not view.builds[0].at("cloud"), "nobody is told of an image that is not there"


@pytest.mark.parametrize("part", ["cluster", "provider"])
def test_objects_of_another_cluster_or_provider_are_no_leaks(host: Host, part: str) -> None:
    host.build()
    host.stamp = replace(host.stamp, **{part: "another"})
    external_id = host.sent()
    assert host.look_twice() == [external_id]


def test_what_bears_another_stamp_than_the_record_is_not_deleted_there(host: Host) -> None:
    """An image had this name before, or somebody wrote the record by hand."""
    host.build()
    external_id = host.sent()
    host.upload(state=UploadState.DELETE, external_id=external_id, key="of-a-former-life")
    view = host.context.look("jammy")
    assert view is not None
    steps.do(host.context, "jammy", RemoveUpload(view.builds[0].uploads[0]))
    assert [kept.external_id for kept in host.uploader.list()] == [external_id]
    view = host.context.look("jammy")
    assert view is not None
    assert view.builds[0].uploads, "the record tells of it"


def test_files_are_removed_by_the_name_of_their_record_and_not_by_what_it_says(host: Host) -> None:
    """Whoever may write records may not delete files."""
    victim = host.context.directory.folder.parent / "victim.raw"
    victim.write_text("precious")
    (host.context.directory.folder / "builder_id.txt.bak").write_text("precious")
    for filename in ("../victim", "builder_id.txt"):
        record = host.build(filename=filename)
        host.upload(external_id="x")
        view = host.context.look("jammy")
        assert view is not None
        steps.remove_uploaded(host.context, "jammy", view.builds[0], ("raw",))
        host.context.directory.file(NAME, "raw").touch()
        gone = replace(record, state=BuildState.DELETE)
        _set(host.context.session, paths.build("jammy", ID), gone)
        _delete(host.context.session, paths.upload("jammy", ID, "cloud", ID))
        view = host.context.look("jammy")
        assert view is not None
        steps.do(host.context, "jammy", RemoveBuild(view.builds[0]))
        assert not host.context.directory.file(NAME, "raw").exists()
    assert victim.exists()
    assert (host.context.directory.folder / "builder_id.txt.bak").exists()
    assert (host.context.directory.folder / "builder_id.txt").exists()


def test_an_upload_goes_on_as_it_began_when_the_configuration_changes(host: Host) -> None:
    host.build()
    uploading = Uploading(host.context, "jammy", ID, "cloud")
    due = uploading._due()
    assert due is not None
    host.context.configure(BuilderSettings(), Nodepool(), {})
    uploading._upload(due)
    view = host.context.look("jammy")
    assert view is not None
    (upload,) = view.builds[0].uploads
    assert upload.record.state is UploadState.READY


def test_the_metadata_of_a_diskimage_reaches_the_provider_below_that_of_the_provider(host: Host) -> None:
    host.build(metadata={"team": "infra", "purpose": "any"})
    provider = host.context.providers["cloud"]
    carried = (replace(provider.diskimages[0], meta={"purpose": "tests"}),)
    host.context.providers = {"cloud": replace(provider, diskimages=carried)}
    Uploading(host.context, "jammy", ID, "cloud").run()
    (side,) = host.cloud.glob("*.json")
    assert json.loads(side.read_text())["meta"] == {"team": "infra", "purpose": "tests"}


HOOK = """#!/bin/sh
echo "$@" >>{said}
echo "looked at it"
{end}
"""


@pytest.mark.parametrize(
    ("end", "state", "reason"),
    [
        ("exit 0", UploadState.READY, None),
        ("exit 3", UploadState.FAILED, "ended with status 3: looked at it"),
        ("sleep 60 & wait", UploadState.FAILED, "took longer than 1 s: looked at it"),
    ],
)
def test_a_hook_says_whether_an_upload_may_be_used(
    host: Host, tmp_path: Path, end: str, state: UploadState, reason: str | None
) -> None:
    hook, said = tmp_path / "hook", tmp_path / "said"
    hook.write_text(HOOK.format(said=said, end=end))
    hook.chmod(0o755)
    provider = replace(host.context.providers["cloud"], post_upload_hook=str(hook), image_upload_timeout_seconds=1.0)
    host.context.providers = {"cloud": provider}
    host.build()
    Uploading(host.context, "jammy", ID, "cloud").run()
    (upload,) = host.context.look("jammy").builds[0].uploads  # type: ignore[union-attr]
    assert upload.record.state is state
    assert (reason or "") in (upload.record.reason or "")
    external_id = f"{upload.record.external_name}.raw"
    assert said.read_text().split() == ["cloud", external_id, str(host.context.directory.file(NAME, "raw"))]
    assert [kept.external_id for kept in host.uploader.list()] == ([external_id] if state is UploadState.READY else [])


def test_a_hook_that_is_not_there_fails_the_upload(host: Host) -> None:
    provider = replace(host.context.providers["cloud"], post_upload_hook="/no/such/hook")
    host.context.providers = {"cloud": provider}
    host.build()
    Uploading(host.context, "jammy", ID, "cloud").run()
    (upload,) = host.context.look("jammy").builds[0].uploads  # type: ignore[union-attr]
    assert upload.record.state is UploadState.FAILED
    assert (
        upload.record.reason
        == "post-upload-hook /no/such/hook cannot be started: No such file or directory; the builder tries again"
    )
    assert tried_again(upload.record)


class Refusing:
    """A provider that refuses every upload for good."""

    def upload(self, item: Item) -> Refused:  # noqa: ARG002
        return Refused("401: unauthorized", lasting=True)


def test_the_reason_of_a_lasting_refusal_names_the_command_that_sends_the_upload_again(host: Host) -> None:
    host.context.uploaders = {"cloud": Refusing()}  # type: ignore[dict-item]  # only its upload is called
    host.build()
    Uploading(host.context, "jammy", ID, "cloud").run()
    (upload,) = host.context.look("jammy").builds[0].uploads  # type: ignore[union-attr]
    again = f"once that is mended, to send it again: nodepool-ocb upload delete jammy {ID} cloud"
    assert upload.record.reason == f"401: unauthorized; {again}"
    assert not tried_again(upload.record)


def test_a_record_stays_while_its_files_do(host: Host) -> None:
    host.build(state=BuildState.DELETE)
    stuck = host.context.directory.folder / f"{NAME}.d"
    stuck.mkdir()
    view = host.context.look("jammy")
    assert view is not None
    chattr(stuck, "+i")
    try:
        steps.do(host.context, "jammy", RemoveBuild(view.builds[0]))
        assert host.context.look("jammy").builds  # type: ignore[union-attr]
    finally:
        chattr(stuck, "-i")


def test_the_old_log_of_a_build_goes_before_its_record(host: Host) -> None:
    host.build(state=BuildState.DELETE)
    host.context.nodepool = replace(host.context.nodepool, build_log_retention=1)
    for name in (NAME, "jammy-9999999999", "noble-0000000000", "noble-0000000001"):
        host.context.directory.log(name).touch()
    view = host.context.look("jammy")
    assert view is not None
    steps.do(host.context, "jammy", RemoveBuild(view.builds[0]))
    left = sorted(path.stem for path in host.context.directory.logs.iterdir())
    assert left == ["jammy-9999999999", "noble-0000000000", "noble-0000000001"]


def test_files_go_and_the_record_stays_while_an_upload_cannot_be_deleted(host: Host) -> None:
    host.build(state=BuildState.DELETE)
    host.upload(state=UploadState.DELETE, external_id=host.sent(), key="another")  # the provider has it, and refuses
    tidier = Tidier(host.context.builder_id, providers=frozenset({"cloud"}))
    for _ in range(2):
        for step in tidy(host.context.look("jammy"), tidier, 9000.0):  # type: ignore[arg-type]
            steps.do(host.context, "jammy", step)
    view = host.context.look("jammy")
    assert view is not None
    assert [path.name for path in host.context.directory.folder.glob("jammy*")] == []
    assert view.builds[0].record.removed == ("raw",)
    assert [upload.record.state for upload in view.builds[0].uploads] == [UploadState.DELETE]


def test_files_stay_where_an_upload_began_after_the_look(host: Host) -> None:
    host.build(state=BuildState.DELETE)
    host.upload(state=UploadState.DELETE)
    view = host.context.look("jammy")
    assert view is not None
    lock = host.context.locks.take(paths.upload_lock("jammy", ID, "cloud"), host.context.holder("upload"))
    assert lock is not None
    steps.do(host.context, "jammy", RemoveFiles(view.builds[0]))
    assert host.context.directory.file(NAME, "raw").exists()
    host.context.locks.release(lock)
    steps.do(host.context, "jammy", RemoveFiles(view.builds[0]))
    assert not host.context.directory.file(NAME, "raw").exists()


def test_the_older_build_stays_where_the_newer_is_deleted_at_the_same_time(host: Host) -> None:
    """Both were ready when it was decided that the older may go."""
    session, record = host.context.session, host.build()
    newer = paths.build("jammy", "0000000002")
    session.commit([Create(newer, record)])
    view = host.context.look("jammy")
    assert view is not None
    (step,) = tidy(view, Tidier(host.context.builder_id, keep=1), 2.0)
    _set(session, newer, replace(record, state=BuildState.DELETE))
    steps.do(host.context, "jammy", step)
    view = host.context.look("jammy")
    assert view is not None
    assert [build.id for build in view.ready()] == [ID]


def test_the_older_upload_stays_where_the_newer_is_deleted_at_the_same_time(host: Host) -> None:
    session, record = host.context.session, host.build()
    upload = host.upload(external_id="old")
    newer = paths.build("jammy", "0000000002"), paths.upload("jammy", "0000000002", "cloud", ID)
    session.commit([Create(newer[0], record)])
    session.ensure(newer[1].rpartition("/")[0])
    session.commit([Create(newer[1], replace(upload, external_id="new"))])
    view = host.context.look("jammy")
    assert view is not None
    carried = frozenset({"cloud"})
    (step,) = tidy(view, Tidier(host.context.builder_id, carriers=carried, providers=carried, keep=1), 2.0)
    _set(session, newer[1], replace(upload, state=UploadState.DELETE))
    steps.do(host.context, "jammy", step)
    view = host.context.look("jammy")
    assert view is not None
    assert view.builds[0].uploads[0].record.state is UploadState.READY


def test_a_build_that_came_back_meanwhile_is_not_removed(host: Host) -> None:
    """Aborted when it was decided, set right by its builder meanwhile, and aborted a second time."""
    record = host.build(state=BuildState.ABORTED)
    view = host.context.look("jammy")
    assert view is not None
    _set(host.context.session, paths.build("jammy", ID), replace(record, state=BuildState.BUILDING))
    _set(host.context.session, paths.build("jammy", ID), record)
    steps.do(host.context, "jammy", RemoveBuild(view.builds[0]))
    assert host.context.session.get(paths.build("jammy", ID)) is not None
    assert host.context.directory.file(NAME, "raw").exists()


def test_what_changes_between_the_look_and_the_deletion_stays(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """The build is aborted and bare at the look, and ready when it would be deleted."""
    record = host.build(state=BuildState.ABORTED, builder_id="elsewhere")
    look, view = host.context.look, host.context.look("jammy")
    assert view is not None

    def late(image: str) -> object:
        seen = look(image)
        _set(host.context.session, paths.build("jammy", ID), replace(record, state=BuildState.READY))
        return seen

    monkeypatch.setattr(host.context, "look", late)
    steps.do(host.context, "jammy", RemoveBuild(view.builds[0]))
    assert host.context.session.get(paths.build("jammy", ID)) is not None


def test_an_upload_that_begins_between_the_look_and_the_deletion_stays(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.build(state=BuildState.DELETE, builder_id="elsewhere")
    look, view = host.context.look, host.context.look("jammy")
    assert view is not None

    def late(image: str) -> object:
        seen = look(image)
        host.upload(state=UploadState.UPLOADING)
        return seen

    monkeypatch.setattr(host.context, "look", late)
    steps.do(host.context, "jammy", RemoveBuild(view.builds[0]))
    assert host.context.session.get(paths.upload("jammy", ID, "cloud", ID)) is not None


def test_an_upload_whose_deletion_was_taken_back_stays(host: Host) -> None:
    host.build()
    external_id = host.sent()
    upload = host.upload(state=UploadState.DELETE, external_id=external_id)
    view = host.context.look("jammy")
    assert view is not None
    _set(host.context.session, paths.upload("jammy", ID, "cloud", ID), replace(upload, state=UploadState.READY))
    steps.do(host.context, "jammy", RemoveUpload(view.builds[0].uploads[0]))
    assert [kept.external_id for kept in host.uploader.list()] == [external_id]
    assert host.context.session.get(paths.upload("jammy", ID, "cloud", ID)) is not None


def test_files_stay_where_an_upload_was_deleted_meanwhile(host: Host) -> None:
    host.build()
    upload = host.upload(external_id="e")
    view = host.context.look("jammy")
    assert view is not None
    _set(host.context.session, paths.upload("jammy", ID, "cloud", ID), replace(upload, state=UploadState.DELETE))
    with pytest.raises(Stale):
        steps.remove_uploaded(host.context, "jammy", view.builds[0], ("raw",))
    assert host.context.directory.file(NAME, "raw").exists()


def chattr(path: Path, how: str) -> None:
    if subprocess.run(["chattr", how, path], capture_output=True, check=False).returncode:
        pytest.skip("no file can be made immutable here")


def _set(session: Session, path: str, record: Build | Upload) -> None:
    znode = session.get(path)
    assert znode is not None
    session.commit([Set(path, record, znode.version)])


def _delete(session: Session, path: str) -> None:
    session.commit(removal(session, path))


# -- what is absent --


def age(host: Host) -> None:
    """Orphans are looked for twice, and their grace is over at once."""
    host.context.settings = replace(host.context.settings, orphan_grace_seconds=1e-9)
    orphans = Orphans(host.context)
    for _ in range(2):
        orphans.look({}, (), ())


def test_a_file_whose_record_the_caller_did_not_know_yet_stays(host: Host) -> None:
    host.build()
    age(host)
    assert host.context.directory.file(NAME, "raw").exists()


def test_a_file_without_a_record_goes_and_a_young_one_stays(host: Host) -> None:
    host.build()
    host.context.session.commit(removal(host.context.session, paths.build("jammy", ID)))
    os.utime(host.context.directory.file(NAME, "raw"), (0, 0))
    orphans = Orphans(host.context)
    for _ in range(2):
        orphans.look({}, (), ())
    assert host.context.directory.file(NAME, "raw").exists()
    age(host)
    assert not host.context.directory.file(NAME, "raw").exists()


def test_a_changed_cluster_id_makes_no_record_count_as_missing(host: Host) -> None:
    host.build()
    session = host.context.session
    session.commit(removal(session, paths.build("jammy", ID)))
    found = session.get(paths.CLUSTER)
    assert found is not None
    session.commit([Set(paths.CLUSTER, Cluster(id="theirs"), found.version)])
    with pytest.raises(Unavailable, match="another one"):
        age(host)
    with pytest.raises(Unavailable, match="another one"):
        host.context.look("jammy")
    assert host.context.directory.file(NAME, "raw").exists()


def test_a_build_that_is_given_up_is_not_forgotten_in_another_cluster(host: Host) -> None:
    host.build()
    building = Building(host.context, Diskimage(name="jammy"))
    building.id = ID
    session = host.context.session
    found = session.get(paths.CLUSTER)
    assert found is not None
    session.commit([Set(paths.CLUSTER, Cluster(id="theirs"), found.version)])
    host.context.stopping.set()
    building._forget()
    assert session.get(paths.build("jammy", ID)) is not None


def test_a_build_that_never_got_as_far_as_a_file_takes_none_of_an_older_build_with_it(host: Host) -> None:
    host.build(state=BuildState.ABORTED, filename="")
    view = host.context.look("jammy")
    assert view is not None
    steps.do(host.context, "jammy", RemoveBuild(view.builds[0]))
    assert host.context.session.get(paths.build("jammy", ID)) is None
    assert host.context.directory.file(NAME, "raw").exists()


# -- faults of this host --


def test_a_build_is_not_lost_while_its_directory_is_not_mounted(host: Host) -> None:
    """Its log, in another directory, tells that it was made here."""
    host.build(builder=host.context.host)
    host.context.directory.log(NAME).write_text("building")
    folder = host.context.directory.folder
    folder.rename(folder.with_name("elsewhere"))
    folder.mkdir()
    Uploading(host.context, "jammy", ID, "cloud").run()
    view = host.context.look("jammy")
    assert view is not None
    assert view.ready(), "the file is there again once it is mounted"
    (due,) = due_uploads(view, host.context.carriers("jammy"), host.context.builder_id, 2.0, 1.0)[0]
    assert "is its file system mounted?" in (elsewhere(host.context, "jammy", due) or "")
    folder.rmdir()
    folder.with_name("elsewhere").rename(folder)
    Uploading(host.context, "jammy", ID, "cloud").run()
    assert host.context.look("jammy").builds[0].at("cloud")  # type: ignore[union-attr]


def test_a_build_is_not_damaged_where_this_host_has_no_more_descriptors(host: Host) -> None:
    host.build()
    uploading = Uploading(host.context, "jammy", ID, "cloud")
    due = uploading._due()
    assert due is not None
    most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, most[1]))  # those of stdin, stdout and stderr
    try:
        uploading._upload(due)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, most)
    view = host.context.look("jammy")
    assert view is not None
    assert view.ready()
    assert tried_again(view.builds[0].uploads[0].record), "it is only the upload that failed"
