"""Images, builds and uploads as they are shown."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from nodepool_ocb.images.rules import BuildView, ImageView, Paused, Requested, UploadView
from nodepool_ocb.model.images import Build, BuildRequest, BuildState, Pause, Upload, UploadState
from nodepool_ocb.model.records import LockOwner
from nodepool_ocb.views import images
from nodepool_ocb.views.builds import of_build
from nodepool_ocb.views.view import plain

HOLDER = LockOwner(daemon="b1", host="h2", pid=9, purpose="build of jammy", since=4.0)


def build(id: str, state: BuildState, *uploads: UploadView, **fields: object) -> BuildView:
    record = Build(builder="h2", builder_id="i", filename=f"jammy-{id}", state=state, state_time=5.0, formats=("raw",))
    return BuildView(id, replace(record, **fields), 1, uploads)


def upload(state: UploadState, *, locked: bool = False, **fields: object) -> UploadView:
    record = Upload(state=state, state_time=6.0, format="raw", builder="h2")
    return UploadView("2", "west", "1", replace(record, **fields), 1, locked)


def jammy() -> ImageView:
    """A build that failed, one that is ready with two uploads, and one that is being made."""
    ready = build("2", BuildState.READY, upload(UploadState.READY), upload(UploadState.UPLOADING))
    return ImageView("jammy", (build("1", BuildState.FAILED), ready, build("3", BuildState.BUILDING)), HOLDER)


def test_an_image_at_a_glance_tells_of_its_newest_ready_build() -> None:
    view = replace(jammy(), request=Requested(BuildRequest(by="root", at=40.0, reason="new kernel"), 1, 8))
    assert list(plain(images.row(view, now=100.0)).items()) == [
        ("name", "jammy"),
        ("build", "2"),
        ("since", 5.0),
        ("formats", ["raw"]),
        ("builds", {"failed": 1, "ready": 1, "building": 1}),
        ("uploads", {"ready": 1, "all": 2}),
        ("failures", 0),
        ("request", {"by": "root", "reason": "new kernel", "at": 40.0}),
        ("pause", None),
        ("paused_in", None),
        ("builder", "h2"),
    ]


def test_what_nobody_works_on_any_more_was_aborted_and_has_failed() -> None:
    view = replace(jammy(), holder=None)
    rows = [images.build_row(view, each) for each in view.builds]
    assert (rows[2].state, rows[2].reason) == (BuildState.ABORTED, "h2 does not work on it any more")
    lost = rows[1].uploads[1]
    assert (lost.state, lost.reason) == (UploadState.FAILED, "h2 does not send it any more")
    held = images.upload_row("jammy", upload(UploadState.UPLOADING, locked=True))
    assert (held.state, held.reason) == (UploadState.UPLOADING, None)


def test_builds_and_uploads_have_all_of_their_records_and_stand_as_they_are_shown() -> None:
    made = plain(images.build_row(jammy(), jammy().builds[1]))
    assert list(made)[:2] == ["build", "builder"]
    assert list(made)[-2:] == ["since", "uploads"]
    assert (made["state"], made["since"], made["tail"]) == ("ready", 5.0, None)
    sent = made["uploads"][0]
    assert list(sent)[:6] == ["name", "image", "build", "provider", "upload", "state"]
    assert (sent["name"], list(sent)[-1]) == ("jammy 2 west 1", "since")


def test_one_image_has_its_row_who_works_on_it_and_its_builds() -> None:
    row = images.row(jammy(), now=100.0)
    document = images.document(row, jammy(), next_attempt=70.0)
    shown = plain(document)
    assert list(shown) == [*plain(row), "next_attempt", "cannot_build"]
    assert [each["build"] for each in shown["builds"]] == ["1", "2", "3"]
    assert shown["builder"] == {"daemon": "b1", "host": "h2", "pid": 9, "purpose": "build of jammy", "since": 4.0}
    about = images.about(document, now=100.0)
    assert (about.builder, about.builds) == ("h2, pid 9: build of jammy", "1 building, 1 failed, 1 ready")
    assert about.next_attempt
    assert "next_attempt" not in plain(images.words(row, now=100.0))


def test_words_of_an_image_tell_who_asked_who_paused_and_where() -> None:
    view = replace(
        jammy(),
        request=Requested(BuildRequest(at=40.0, reason="new kernel"), 1, 8),
        pause=Paused(Pause(by="ann", reason="frozen", until=160.0), 1),
    )
    row = images.row(view, 100.0, {"jammy": "/etc/nodepool-ocb/nodepool.yaml"})
    words = images.words(row, now=100.0)
    assert (words.request, words.pause) == ("an unknown user, 1m ago", "ann, 1m left; in nodepool.yaml")
    assert words.uploads == "1/2"
    about = images.about(images.document(row, view, None), now=100.0)
    assert about.request == "an unknown user, 1m ago: new kernel"
    assert about.pause == "ann, 1m left: frozen; in /etc/nodepool-ocb/nodepool.yaml"
    assert images.row(view, 160.0).pause is None, "it is over"


def test_the_end_of_a_wait_tells_of_the_build_only_where_there_is_one() -> None:
    row = images.build_row(jammy(), jammy().builds[1])
    wait = images.BuildWait(outcome="ready", image="jammy", request=8, build=row, changes=())
    assert list(plain(wait)) == ["outcome", "image", "request", "build", "changes"]
    assert list(plain(images.wait_words(wait)))[3:] == ["build", "state", "since", "formats", "builder", "reason"]
    nothing = images.BuildWait(outcome="deleted", image="jammy", request=8, build=None, changes=())
    assert list(plain(images.wait_words(nothing))) == ["outcome", "image", "request", "build"]


REQUESTED = Requested(BuildRequest(), 1, 8)
FOREVER, SHORT = Paused(Pause(by="ann"), 1), Paused(Pause(by="ann", until=200.0), 1)
BUILDS: list[tuple[str, ImageView | None, str | None, str]] = [
    ("gone", None, "deleted", "was deleted"),
    ("ready", ImageView("j", (build("4", BuildState.READY, request=8),)), "ready", "build 4 is ready"),
    ("failed", ImageView("j", (build("4", BuildState.FAILED, request=9, reason="x"),)), "failed", "build 4 failed: x"),
    ("at work", ImageView("j", (build("4", BuildState.BUILDING, request=8),), HOLDER), None, "h2 makes build 4"),
    ("older", ImageView("j", (build("4", BuildState.READY, request=7),), request=REQUESTED), None, "waiting for a builder"),
    ("aborted", ImageView("j", (build("4", BuildState.BUILDING, request=8),), request=REQUESTED), None, "was aborted; waiting"),
    ("withdrawn", ImageView("j"), "withdrawn", "the request is gone"),
    ("paused", ImageView("j", request=REQUESTED, pause=FOREVER), "paused", "ann has paused j; the request stays"),
    ("paused for a while", ImageView("j", request=REQUESTED, pause=SHORT), None, "it goes on at"),
    ("busy", ImageView("j", holder=HOLDER, request=REQUESTED), None, "h2 works on j, for an earlier request"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("view", "outcome", "sentence"), [case[1:] for case in BUILDS], ids=[case[0] for case in BUILDS]
)
def test_a_wait_for_a_build_is_over_when_its_end_is_known(
    view: ImageView | None, outcome: str | None, sentence: str
) -> None:
    now = of_build(view, 8, now=100.0)
    assert now.outcome == outcome
    assert sentence in now.sentence
