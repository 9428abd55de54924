"""Uploads on the command line: what is shown, and how their deletion is asked for."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

import pytest
from msgspec.structs import replace

from nodepool_ocb.cli.kit import performing
from nodepool_ocb.model import paths
from nodepool_ocb.model.images import BuildState, UploadState
from nodepool_ocb.model.records import Change, Delete, ImageSettings, Json, Set
from nodepool_ocb.store.client.session import Session
from tests.cli.images.played_builder import Builder
from tests.fixtures.commands import Ocb

Ask = Callable[..., Json]


@pytest.fixture
def builder(zk_session: Session) -> Builder:
    """A builder with two builds, the first with an upload to the west, the second with two."""
    builder = Builder(zk_session)
    old, new = builder.made(BuildState.READY), builder.made(BuildState.READY)
    builder.uploads(old, "west", external_name="jammy-old")
    builder.uploads(new, "west", external_name="jammy-new")
    builder.uploads(new, "east", UploadState.FAILED, reason="quota", external_name="jammy-east")
    return builder


def _ids(builder: Builder) -> tuple[str, str]:
    old, new = (build.id for build in builder.view().builds)
    return old, new


def _states(builder: Builder) -> dict[str | None, str]:
    uploads = [upload for build in builder.view().builds for upload in build.uploads]
    return {upload.record.external_name: str(upload.record.state) for upload in uploads}


def test_list_takes_filters(builder: Builder, ask: Ask, ocb: Ocb) -> None:
    Builder(builder.session, "noble")
    assert len(ask("upload", "list")) == 3
    assert ask("upload", "list", "--image", "noble") == []
    assert len(ask("upload", "list", "--provider", "west")) == 2
    failed = ask("upload", "list", "--state", "failed")
    assert [(row["provider"], row["reason"]) for row in failed] == [("east", "quota")]
    assert ocb("upload", "list", "--image", "nobel").exit_code == 3


def test_an_upload_that_nobody_sends_any_more_is_shown_as_failed(builder: Builder, ask: Ask) -> None:
    _, new = _ids(builder)
    builder.uploads(new, "north", UploadState.UPLOADING)
    row = ask("upload", "list", "--provider", "north")[0]
    assert row["state"] == "failed"
    assert "does not send it any more" in row["reason"]
    builder.locks_upload(new, "north")
    assert ask("upload", "list", "--provider", "north")[0]["state"] == "uploading"


def test_names_are_what_delete_takes(builder: Builder, ocb: Ocb) -> None:
    names = ocb("upload", "list", "--state", "failed", "-o", "name").stdout.splitlines()
    assert ocb("upload", "delete", *names[0].split(), "--yes").exit_code == 0
    assert _states(builder) == {"jammy-old": "ready", "jammy-new": "ready", "jammy-east": "delete"}


def test_delete_keeps_the_last_ready_upload_of_a_provider(builder: Builder, ask: Ask, ocb: Ocb) -> None:
    old, new = _ids(builder)
    assert ask("upload", "delete", "jammy", new, "west", "--dry-run", exit_code=10)["changes"]
    ask("upload", "delete", "jammy", new, "west", "--yes")
    assert _states(builder)["jammy-new"] == "delete"
    refused = ocb("upload", "delete", "jammy", old, "west", "--yes")
    assert refused.exit_code == 4
    assert "west would be left without jammy" in refused.stderr
    answer = ocb("upload", "delete", "jammy", old, "west", "--yes", "--force", "-o", "json")
    assert json.loads(answer.stdout)["changes"][0]["kind"] == "upload"
    assert ask("upload", "delete", "jammy", old, "west", "--yes")["changes"] == []


def test_two_who_delete_at_once_leave_a_ready_upload(
    builder: Builder, ocb: Ocb, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = _ids(builder)
    commit, session = Session.commit, builder.session

    def late(self: Session, changes: Sequence[Change]) -> object:
        if self is not session and _states(builder)["jammy-new"] == "ready":
            (view,) = (upload for upload in builder.build_view(new).uploads if upload.provider == "west")
            gone = replace(view.record, state=UploadState.DELETE)
            commit(session, [Set(paths.upload("jammy", new, "west", view.id), gone, view.version)])
        return commit(self, changes)

    monkeypatch.setattr(Session, "commit", late)
    assert ocb("upload", "delete", "jammy", old, "west", "--yes").exit_code == 4
    assert _states(builder)["jammy-old"] == "ready"


def test_an_image_in_upload_is_not_deleted(builder: Builder, ocb: Ocb) -> None:
    _, new = _ids(builder)
    builder.uploads(new, "north", UploadState.UPLOADING)
    builder.locks_upload(new, "north")
    answer = ocb("upload", "delete", "jammy", new, "north", "--yes")
    assert answer.exit_code == 4
    assert "wait until that has ended" in answer.stderr


@pytest.mark.parametrize(
    ("line", "exit_code", "said"),
    [
        ("jamy NEW west --yes", 3, "did you mean `jammy`?"),
        ("jammy 99 west --yes", 3, "has no build 99"),
        ("jammy NEW wset --yes", 3, "west"),
        ("jammy NEW west 99 --yes", 3, "99"),
        ("jammy NEW east", 2, "delete jammy-east at east"),
    ],
)
def test_refusals(builder: Builder, ocb: Ocb, line: str, exit_code: int, said: str) -> None:
    _, new = _ids(builder)
    answer = ocb("upload", "delete", *line.replace("NEW", new).split())
    assert answer.exit_code == exit_code, answer.output
    assert said in answer.stderr


def test_forget_deletes_the_record_and_says_what_may_be_left(builder: Builder, ocb: Ocb) -> None:
    """The provider is in no configuration any more; deletion was asked for before that."""
    old, _ = _ids(builder)
    builder.uploads(old, "gone", UploadState.DELETE, external_id="406a9bd0", external_name="jammy-gone")
    asked = ocb("upload", "delete", "jammy", old, "gone", "--forget")
    assert asked.exit_code == 2
    assert "forget jammy-gone at gone" in asked.stderr
    assert ocb("upload", "delete", "jammy", old, "gone", "--forget", "--dry-run").exit_code == 10
    assert "jammy-gone" in _states(builder)
    forgotten = ocb("upload", "delete", "jammy", old, "gone", "--forget", "--yes")
    assert forgotten.exit_code == 0, forgotten.output
    assert "gone may still have 406a9bd0: delete it there by hand" in forgotten.stderr
    assert set(_states(builder)) == {"jammy-old", "jammy-new", "jammy-east"}


def test_forget_is_refused_where_a_builder_can_delete_it_or_works_on_it(builder: Builder, ocb: Ocb) -> None:
    old, new = _ids(builder)
    builder.registers(providers=("west",))
    refused = ocb("upload", "delete", "jammy", old, "west", "--forget", "--yes")
    assert refused.exit_code == 4
    assert "has provider west; leave --forget out" in refused.stderr
    builder.locks_upload(new, "east")
    assert ocb("upload", "delete", "jammy", new, "east", "--forget", "--yes").exit_code == 4
    assert len(_states(builder)) == 3
    assert ocb("upload", "delete", "jammy", old, "west", "--forget", "--force", "--yes").exit_code == 0
    assert "jammy-old" not in _states(builder)


def test_erase_deletes_every_record_at_a_provider_that_is_gone_and_names_what_stays(builder: Builder, ocb: Ocb) -> None:
    old, _ = _ids(builder)
    builder.uploads(old, "gone", external_id="406a9bd0", external_name="jammy-gone")
    noble = Builder(builder.session, "noble")
    noble.uploads(noble.made(BuildState.READY), "gone", external_id="9ed6ead0", external_name="noble-gone")
    asked = ocb("image", "erase", "gone")
    assert asked.exit_code == 2
    assert "erase the records of 2 uploads to gone" in asked.stderr
    for what in ("406a9bd0", "9ed6ead0"):
        assert f"gone may still have {what}: delete it there by hand" in asked.stderr
    assert ocb("image", "erase", "gone", "--dry-run").exit_code == 10
    assert "jammy-gone" in _states(builder)
    assert ocb("image", "erase", "gone", "--yes").exit_code == 0
    assert set(_states(builder)) == {"jammy-old", "jammy-new", "jammy-east"}
    assert noble.view().builds[0].uploads == ()
    again = ocb("image", "erase", "gone", "--yes")
    assert (again.exit_code, "no upload is at provider gone" in again.stderr) == (3, True)


def test_erase_is_refused_where_a_builder_has_the_provider_or_works_on_an_upload(builder: Builder, ocb: Ocb) -> None:
    _, new = _ids(builder)
    builder.uploads(new, "west", external_id="406a9bd0")
    builder.registers(providers=("west",))
    refused = ocb("image", "erase", "west", "--yes")
    assert refused.exit_code == 4
    assert "delete it there by hand" not in refused.stderr
    assert "has provider west; take it out of its nodepool.yaml first" in refused.stderr
    builder.leaves()
    builder.locks_upload(new, "west")
    assert ocb("image", "erase", "west", "--yes").exit_code == 4
    assert {"jammy-old", "jammy-new"} <= set(_states(builder))


def test_erase_is_refused_where_a_builder_comes_with_the_provider_while_the_question_is_asked(
    builder: Builder, ocb: Ocb, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(performing, "confirm", lambda *_: builder.registers(providers=("west",)))
    assert ocb("image", "erase", "west", "--yes").exit_code == 4
    assert len(_states(builder)) == 3


def test_an_upload_that_changes_after_the_question_is_not_forgotten(
    builder: Builder, ocb: Ocb, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, _ = _ids(builder)
    commit, session = Session.commit, builder.session

    def late(self: Session, changes: Sequence[Change]) -> object:
        if self is not session and any(isinstance(change, Delete) for change in changes):
            (view,) = builder.build_view(old).uploads
            sent = replace(view.record, external_id="just-sent")
            commit(session, [Set(paths.upload("jammy", old, "west", view.id), sent, view.version)])
        return commit(self, changes)

    monkeypatch.setattr(Session, "commit", late)
    refused = ocb("upload", "delete", "jammy", old, "west", "--forget", "--yes")
    assert refused.exit_code == 4
    assert "changed meanwhile" in refused.stderr
    assert "jammy-old" in _states(builder)


def test_status_says_what_no_running_builder_looks_after(builder: Builder, ask: Ask, ocb: Ocb) -> None:
    nothing = {"stranded": [], "bereft": [], "differing": []}
    images = ask("status")["images"]
    assert {key: images[key] for key in nothing} == nothing, "while no builder runs nothing is known"
    builder.registers(providers=("east",), images={"jammy": ImageSettings(formats=("raw",), digest="1")})
    images = ask("status")["images"]
    assert [(row["provider"], row["image"]) for row in images["stranded"]] == [("west", "jammy")] * 2
    assert images["bereft"] == []
    builder.leaves()
    other = Builder(builder.session, host="nb02")
    other.registers(providers=("east", "west"), images={"jammy": ImageSettings(formats=("qcow2",), digest="2")})
    third = Builder(builder.session, host="nb03")
    third.registers(images={"jammy": ImageSettings(formats=("raw",), digest="1")})
    images = ask("status")["images"]
    assert images["stranded"] == []
    assert [(row["image"], row["builder"]) for row in images["bereft"]] == [("jammy", builder.host)]
    assert images["differing"] == [{"image": "jammy", "builders": "nb02: qcow2; nb03: raw"}]
    said = ocb("status")
    assert "IMAGES WITHOUT THEIR BUILDER" in said.stdout
    assert "builder.gone_seconds" in said.stderr
    assert "give all of them one nodepool.yaml" in said.stderr


def test_status_gives_the_command_that_forgets(builder: Builder, ocb: Ocb) -> None:
    builder.registers(providers=("east",))
    said = ocb("status").stderr
    assert "no running builder has provider west" in said
    (command,) = [line.partition("forget its uploads: ")[2] for line in said.splitlines() if "--forget" in line]
    assert ocb(*command.split()[1:], "--yes").exit_code == 0
    assert "jammy-old" not in _states(builder)
