"""The upload from which a provider launches an image."""

from __future__ import annotations

from typing import Any

import pytest

from nodepool_ocb.images.rules import BuildView, ImageView, UploadView
from nodepool_ocb.model.images import Build, BuildState, Upload, UploadState
from nodepool_ocb.pool.launches.ready_images import ready_images

READY, DELETE = BuildState.READY, BuildState.DELETE


def upload(number: int, provider: str = "p", state: UploadState = UploadState.READY, **fields: Any) -> UploadView:
    record = Upload(**{"state_time": 1.0, "format": "raw", "external_id": f"ami-{number}", **fields}, state=state)
    return UploadView("", provider, f"{number:010}", record, 0, locked=False)


def build(number: int, *uploads: UploadView, state: BuildState = READY, **fields: Any) -> BuildView:
    record = Build(builder="b", builder_id="b", filename="f", state_time=1.0, **fields, state=state)
    return BuildView(f"{number:010}", record, 0, uploads)


def chosen(*builds: BuildView, provider: str = "p") -> str | None:
    found = ready_images({"jammy": ImageView("jammy", builds)}).get((provider, "jammy"))
    return None if found is None else found.external_id


@pytest.mark.parametrize(
    ("builds", "expected"),
    [
        ((), None),
        ((build(1, upload(1)),), "ami-1"),
        ((build(1, upload(1), upload(2)),), "ami-2"),
        ((build(1, upload(2), upload(1)),), "ami-2"),
        ((build(1, upload(1)), build(2, upload(1, external_id="newer"))), "newer"),
        ((build(1, upload(1)), build(2)), "ami-1"),  # the newer build has none there
        ((build(1, upload(1)), build(2, upload(2, state=UploadState.UPLOADING))), "ami-1"),
        ((build(1, upload(1)), build(2, upload(2, state=UploadState.DELETE))), "ami-1"),
        ((build(1, upload(1)), build(2, upload(2, state=UploadState.FAILED))), "ami-1"),
        ((build(1, upload(1)), build(2, upload(2, "other"))), "ami-1"),
        ((build(1, upload(1)), build(2, upload(2), state=DELETE)), "ami-1"),  # its uploads go next
        ((build(1, upload(1)), build(2, upload(2, external_id=None))), "ami-1"),
        ((build(1, upload(1), state=BuildState.FAILED),), "ami-1"),  # a spoiled file does not spoil its uploads
    ],
)
def test_the_highest_ready_upload_of_the_newest_build_that_has_one(
    builds: tuple[BuildView, ...], expected: str | None
) -> None:
    assert chosen(*builds) == expected


def test_each_provider_has_its_own() -> None:
    builds = build(1, upload(1, "east"), upload(2, "west")), build(2, upload(1, "east", external_id="newest"))
    assert chosen(*builds, provider="east") == "newest"
    assert chosen(*builds, provider="west") == "ami-2"


def test_the_login_is_that_of_the_upload_or_else_of_the_build() -> None:
    made = build(1, upload(1, username="ubuntu"), username="zuul", python_path="/usr/bin/python3", shell_type="sh")
    found = ready_images({"jammy": ImageView("jammy", (made,))})["p", "jammy"]
    assert (found.username, found.python_path, found.shell_type) == ("ubuntu", "/usr/bin/python3", "sh")
    assert found.path == "/nodepool/image/jammy/builds/0000000001/provider/p/images/0000000001"
