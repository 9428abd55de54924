"""What an event changes in the record of a build or an upload, beside its state."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from nodepool_ocb.errors import Conflict
from nodepool_ocb.images.states import (
    BUILDS,
    UPLOADS,
    BuildEvent,
    UploadEvent,
    build_after,
    new_build,
    new_upload,
    upload_after,
)
from nodepool_ocb.model.images import Build, BuildState, Upload, UploadState

BUILD = Build(
    builder="h1", builder_id="b1", filename="f", state=BuildState.BUILDING, state_time=1.0, unknown={"later": 1}
)
UPLOAD = Upload(state=UploadState.UPLOADING, state_time=1.0, format="raw", key="k", unknown={"later": 1})


@pytest.mark.parametrize(("state", "event"), [pair for pair in BUILDS.after if pair[0] is not None])
def test_a_build_changes_its_state_the_time_and_the_given_fields(state: BuildState, event: BuildEvent) -> None:
    before = replace(BUILD, state=state)
    time = 1.0 if event is BuildEvent.RESUME else 9.0
    expected = replace(before, state=BUILDS.after[state, event], state_time=time, reason="why")
    assert build_after(before, event, 9.0, reason="why") == expected


@pytest.mark.parametrize(("state", "event"), [pair for pair in UPLOADS.after if pair[0] is not None])
def test_an_upload_changes_its_state_the_time_and_the_given_fields(state: UploadState, event: UploadEvent) -> None:
    before = replace(UPLOAD, state=state)
    ends = event in (UploadEvent.SUCCEED, UploadEvent.FAIL)
    time = 1.0 if state is UploadState.DELETE and ends else 9.0
    expected = replace(before, state=UPLOADS.after[state, event], state_time=time, external_id="e")
    assert upload_after(before, event, 9.0, external_id="e") == expected


def test_a_record_begins_in_the_state_of_its_event() -> None:
    fields = {"builder": "h1", "builder_id": "b1", "filename": "f"}
    assert new_build(BuildEvent.BEGIN, 2.0, **fields).state is BuildState.BUILDING
    assert new_build(BuildEvent.IMPORT_FAILED, 2.0, **fields) == Build(
        state=BuildState.FAILED, state_time=2.0, **fields
    )
    with pytest.raises(Conflict, match="a build cannot begin by SUCCEED"):
        new_build(BuildEvent.SUCCEED, 2.0, **fields)
    with pytest.raises(Conflict, match="an upload cannot begin by FAIL"):
        new_upload(UploadEvent.FAIL, 2.0, format="raw")


def test_the_next_attempt_is_a_record_of_its_own_and_follows_a_failure() -> None:
    failed = replace(UPLOAD, state=UploadState.FAILED, reason="refused")
    again = new_upload(UploadEvent.SEND, 2.0, failed, format="raw")
    assert again == Upload(state=UploadState.UPLOADING, state_time=2.0, format="raw")
    for state in set(UploadState) - {UploadState.FAILED}:
        with pytest.raises(Conflict, match=f"an upload in {state} cannot SEND"):
            new_upload(UploadEvent.SEND, 2.0, replace(UPLOAD, state=state), format="raw")
