"""The registrations of running builders, compared with one another and with the records of images. Pure.

Work continues while builders differ. Their differences, and the images and uploads that none of them handles, are shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec
from msgspec.structs import replace

from nodepool_ocb.images.rules import BuildView, ImageView, UploadView
from nodepool_ocb.model.records import Daemon, ImageSettings

Builders = Mapping[str, Daemon]  # those that are there now, by their ids

STUB: Final = ImageSettings()  # an image that a builder only names, for others to make


class ImageDisagreement(msgspec.Struct, frozen=True):
    """An image that builders see differently, and how each of them does."""

    image: str
    sentence: str


class Stranded(msgspec.Struct, frozen=True):
    """An upload at a provider that no running builder reaches, so no builder can delete it there."""

    image: str
    upload: UploadView


class Unbuildable(msgspec.Struct, frozen=True):
    """An image that no running builder can build, with the reason of each builder."""

    image: str
    reason: str


class Bereft(msgspec.Struct, frozen=True):
    """An image with its newest ready build on a builder that is not running, so no builder can send it."""

    image: str
    build: BuildView


def differences(builders: Builders) -> list[ImageDisagreement]:
    """The images that builders are configured to make differently, or that only some of them have."""
    names = sorted({name for daemon in builders.values() for name in daemon.images})
    found = [(name, _sides(name, builders)) for name in names]
    return [ImageDisagreement(name, "; ".join(_sentences(sides))) for name, sides in found if len(sides) > 1]


def _sides(name: str, builders: Builders) -> dict[ImageSettings | None, list[str]]:
    """The hosts of the builders with the same settings; those without the image under None."""
    sides: dict[ImageSettings | None, list[str]] = {}
    for _, daemon in sorted(builders.items(), key=lambda each: (each[1].host, each[0])):
        settings = daemon.images.get(name)
        if daemon.images and settings != STUB:
            alike = None if settings is None else replace(settings, cannot=None)
            sides.setdefault(alike, []).append(daemon.host)
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


def unbuildable(images: Mapping[str, ImageView], builders: Builders) -> list[Unbuildable]:
    """The images that no running builder can build: those in a configuration, and those with a build request."""
    names = {name for daemon in builders.values() for name, settings in daemon.images.items() if settings != STUB}
    names |= {name for name, view in images.items() if view.request is not None}
    found = [(name, why_not_built(name, builders)) for name in sorted(names)]
    return [Unbuildable(name, reason) for name, reason in found if reason is not None]


def why_not_built(image: str, builders: Builders) -> str | None:
    """Why no running builder can build the image; None if one can, if that is not known, or if none runs."""
    if not all(daemon.images for daemon in builders.values()):
        return None  # a builder with more images than a record holds does not list them
    known = [(daemon, daemon.images.get(image, STUB)) for _, daemon in sorted(builders.items())]
    having = [(daemon, settings) for daemon, settings in known if settings != STUB]
    if not having:
        hosts = ", ".join(dict.fromkeys(daemon.host for daemon in builders.values()))
        return f"no running builder has it in its configuration ({hosts})" if builders else None
    reasons = [settings.cannot or daemon.trouble for daemon, settings in having]
    if None in reasons:
        return None
    hosts_and_reasons = zip((daemon.host for daemon, _ in having), reasons, strict=True)
    return "; ".join(dict.fromkeys(f"{host}: {reason}" for host, reason in hosts_and_reasons))


def forgotten(view: ImageView, builders: Builders) -> bool:
    """Whether an image is in no builder's configuration, and has no build, request or pause: it was removed."""
    if not builders or not all(daemon.images for daemon in builders.values()):
        return False
    configured = any(view.name in daemon.images for daemon in builders.values())
    return not (configured or view.builds or view.request or view.pause)


def stranded(images: Mapping[str, ImageView], builders: Builders) -> list[Stranded]:
    """The uploads that no running builder can delete; none if no builder runs, for then nothing is known."""
    reached = {provider for daemon in builders.values() for provider in daemon.providers}
    return [
        Stranded(name, upload)
        for name, view in sorted(images.items())
        for build in view.builds
        for upload in build.uploads
        if builders and upload.provider not in reached
    ]


def bereft(images: Mapping[str, ImageView], builders: Builders) -> list[Bereft]:
    """The images with a newest ready build that no running builder can send; none while no builder runs."""
    newest = [(name, view.newest()) for name, view in sorted(images.items())]
    return [
        Bereft(name, build)
        for name, build in newest
        if builders and build is not None and build.record.builder_id not in builders
    ]
