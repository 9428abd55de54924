"""Running builders compared with one another: where they differ, in words."""

from __future__ import annotations

import pytest

from nodepool_ocb.images.builders import STUB, differences
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
def test_what_differs_is_told_in_words(builders: list[Daemon], expected: list[str]) -> None:
    found = differences({str(number): each for number, each in enumerate(builders)})
    assert [each.sentence for each in found] == expected
    assert {each.image for each in found} <= {"jammy"}
