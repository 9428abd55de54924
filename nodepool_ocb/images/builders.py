"""What running builders say of themselves, compared with one another and with the records of images. Pure.

Builders need not agree for anything to go on; but what none of them looks after, and where they differ, is shown to people.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from nodepool_ocb.images.rules import BuildView, ImageView, UploadView
from nodepool_ocb.model.records import Daemon, ImageSettings

Builders = Mapping[str, Daemon]  # those that are there now, by their ids

STUB: Final = ImageSettings()  # an image that a builder only names, for others to make


class Difference(msgspec.Struct, frozen=True):
    """An image that builders see differently, and how each of them does."""

    image: str
    sentence: str


class Stranded(msgspec.Struct, frozen=True):
    """An upload at a provider that no running builder reaches: nobody can delete it there."""

    image: str
    upload: UploadView


class Bereft(msgspec.Struct, frozen=True):
    """An image whose newest ready build lies with a builder that is not there: nobody can send it."""

    image: str
    build: BuildView


def differences(builders: Builders) -> list[Difference]:
    """The images that builders are configured to make differently, or that only some of them have."""
    names = sorted({name for daemon in builders.values() for name in daemon.images})
    found = [(name, _sides(name, builders)) for name in names]
    return [Difference(name, "; ".join(_sentences(sides))) for name, sides in found if len(sides) > 1]


def _sides(name: str, builders: Builders) -> dict[ImageSettings | None, list[str]]:
    """The hosts of the builders with the same settings; those without the image under None."""
    sides: dict[ImageSettings | None, list[str]] = {}
    for _, daemon in sorted(builders.items(), key=lambda each: (each[1].host, each[0])):
        settings = daemon.images.get(name)
        if daemon.images and settings != STUB:
            sides.setdefault(settings, []).append(daemon.host)
    return sides


def _sentences(sides: Mapping[ImageSettings | None, list[str]]) -> Iterator[str]:
    known = [settings for settings in sides if settings is not None]
    same_formats = len({settings.formats for settings in known}) == 1
    same_age = len({settings.rebuild_age_seconds for settings in known}) == 1
    for settings, hosts in sides.items():
        if settings is None:
            what = "no such image"
        elif len(known) == 1 or not same_formats:
            what = ", ".join(settings.formats)
        elif not same_age:
            what = f"rebuild-age {settings.rebuild_age_seconds:.0f}"
        else:
            what = f"settings {settings.digest}"
        yield f"{', '.join(hosts)}: {what}"


def stranded(images: Mapping[str, ImageView], builders: Builders) -> list[Stranded]:
    """The uploads that no running builder can delete; none where no builder runs, for then nothing is known."""
    reached = {provider for daemon in builders.values() for provider in daemon.providers}
    return [
        Stranded(name, upload)
        for name, view in sorted(images.items())
        for build in view.builds
        for upload in build.uploads
        if builders and upload.provider not in reached
    ]


def bereft(images: Mapping[str, ImageView], builders: Builders) -> list[Bereft]:
    """The images whose newest ready build nobody can send; none where no builder runs."""
    newest = [(name, view.newest()) for name, view in sorted(images.items())]
    return [
        Bereft(name, build)
        for name, build in newest
        if builders and build is not None and build.record.builder_id not in builders
    ]
