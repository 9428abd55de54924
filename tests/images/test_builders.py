"""Running builders compared with one another: where they differ, in words."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from nodepool_ocb.images.builders import STUB, differences, forgotten, unbuildable, why_not_built
from nodepool_ocb.images.rules import ImageView
from nodepool_ocb.model.records import Daemon, ImageSettings

RAW = ImageSettings(formats=("raw",), rebuild_age_seconds=60.0, digest="1")


def builder(host: str, **images: ImageSettings) -> Daemon:
    return Daemon(host=host, pid=1, version="1", started=0.0, images=images)


@pytest.mark.parametrize(
    ("builders", "expected"),
    [
        ([], []),
        ([builder("a", jammy=RAW)], []),
        ([builder("a", jammy=RAW), builder("b", jammy=RAW)], []),
        (
            [builder("a", jammy=RAW), builder("b", jammy=ImageSettings(formats=("qcow2", "raw"), digest="2"))],
            ["a: raw; b: qcow2, raw"],
        ),
        (
            [builder("a", jammy=RAW), builder("b", jammy=ImageSettings(formats=("raw",), rebuild_age_seconds=7.0))],
            ["a: rebuild-age 60; b: rebuild-age 7"],
        ),
        (
            [
                builder("a", jammy=RAW),
                builder("b", jammy=ImageSettings(formats=("raw",), rebuild_age_seconds=60.0, digest="2")),
            ],
            ["a: settings 1; b: settings 2"],
        ),
        ([builder("a", jammy=RAW, x=RAW), builder("b", x=RAW), builder("c", x=RAW)], ["a: raw; b, c: no such image"]),
        ([builder("a", jammy=RAW), builder("b", jammy=STUB)], []),  # one only names what the other makes
        ([builder("a", jammy=RAW), builder("b")], []),  # nothing is known of it
    ],
)
def test_differences_are_reported_in_sentences(builders: list[Daemon], expected: list[str]) -> None:
    found = differences({str(number): each for number, each in enumerate(builders)})
    assert [each.sentence for each in found] == expected
    assert {each.image for each in found} <= {"jammy"}


NO_SUDO = replace(RAW, cannot="sudo is not installed")
PINNED = replace(RAW, cannot="the image is for builders with label big; this builder has no label")


def test_the_reason_of_a_builder_is_no_difference_of_its_configuration() -> None:
    assert differences({"1": builder("a", jammy=RAW), "2": builder("b", jammy=NO_SUDO)}) == []


@pytest.mark.parametrize(
    ("builders", "expected"),
    [
        ([], None),
        ([builder("a", jammy=RAW)], None),
        ([builder("a", jammy=NO_SUDO), builder("b", jammy=RAW)], None),
        ([builder("a", jammy=NO_SUDO)], "a: sudo is not installed"),
        (
            [builder("a", jammy=NO_SUDO), builder("b", jammy=PINNED)],
            f"a: sudo is not installed; b: {PINNED.cannot}",
        ),
        (
            [builder("a", jammy=NO_SUDO), replace(builder("b", jammy=RAW), trouble="the disk is full")],
            "a: sudo is not installed; b: the disk is full",
        ),
        ([builder("a", jammy=NO_SUDO), builder("b", jammy=STUB)], "a: sudo is not installed"),
        ([builder("a", noble=RAW), builder("b", jammy=STUB)], "no running builder has it in its configuration (a, b)"),
        ([builder("a", jammy=NO_SUDO), builder("b")], None),  # b has more images than its record holds
    ],
)
def test_an_image_that_no_builder_can_build_has_a_reason(builders: list[Daemon], expected: str | None) -> None:
    assert why_not_built("jammy", {str(number): each for number, each in enumerate(builders)}) == expected


def test_unbuildable_images_are_those_of_configurations_and_of_requests() -> None:
    running = {"1": builder("a", jammy=NO_SUDO, noble=RAW)}
    known = {name: ImageView(name) for name in ("jammy", "noble", "old")}
    assert [each.image for each in unbuildable(known, running)] == ["jammy"]


@pytest.mark.parametrize(
    ("builders", "expected"),
    [([], False), ([builder("a", noble=RAW)], True), ([builder("a", jammy=STUB)], False), ([builder("a")], False)],
)
def test_an_image_without_records_and_in_no_configuration_is_forgotten(builders: list[Daemon], expected: bool) -> None:
    view = ImageView("jammy")
    assert forgotten(view, {str(number): each for number, each in enumerate(builders)}) is expected
