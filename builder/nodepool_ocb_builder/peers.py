"""The other builders: present ones, long-missing ones, and differently configured ones."""

from __future__ import annotations

import hashlib
import logging
import platform
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Final

import msgspec

from nodepool_ocb.errors import Invalid
from nodepool_ocb.images.builders import differences
from nodepool_ocb.images.diskimages import Diskimage
from nodepool_ocb.model.records import Daemon, ImageSettings
from nodepool_ocb.model.rights import ClientKind
from nodepool_ocb.store import daemons
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.client.frames import Znode
from nodepool_ocb.store.client.session import Session
from nodepool_ocb_builder.backends import missing
from nodepool_ocb_builder.context import Context
from nodepool_ocb_builder.image_directory import ImageDirectory

log = logging.getLogger(__name__)

MOST_BYTES: Final = 128 * 1024  # of a builder's statement about its images
DIGEST_CHARACTERS: Final = 8


class Peers:
    """As it was at the last look."""

    def __init__(self) -> None:
        self._found: dict[str, Daemon | None] = {}
        self._missed: dict[str, float] = {}  # builder → when it was first missed, on our monotonic clock
        self._differences: set[str] = set()

    @property
    def living(self) -> frozenset[str]:
        """The ids of all builders that were there."""
        return frozenset(self._found)

    def said(self, id: str) -> Daemon | None:
        """The registration of the builder of this id; None if it is absent or unreadable."""
        return self._found.get(id)

    def look(self, session: Session, known: Iterable[str], gone_seconds: float) -> frozenset[str]:
        """Read the present builders; returns those of the ``known`` ids that have been missing for long. Raises Unavailable."""
        found = daemons.read(session, ClientKind.BUILDER)
        self._found, now = found, time.monotonic()
        self._missed = {id: self._missed.get(id, now) for id in set(known) - self.living}
        readable = {id: daemon for id, daemon in found.items() if daemon is not None}
        sentences = {f"{each.image}: {each.sentence}" for each in differences(readable)}
        for sentence in sorted(sentences - self._differences):
            log.warning("builders are configured differently; give all of them one nodepool.yaml: %s", sentence)
        self._differences = sentences
        return frozenset(id for id, since in self._missed.items() if now - since >= gone_seconds)


def settings(context: Context) -> Mapping[str, ImageSettings]:
    """The settings of the images in this builder's configuration; empty if a znode should not hold that much."""
    said = {name: _settings(context, image) for name, image in context.diskimages.items()}
    return said if len(msgspec.json.encode(said)) <= MOST_BYTES else {}


def _settings(context: Context, image: Diskimage) -> ImageSettings:
    if image.stub:  # only named here: any settings of others will do
        return ImageSettings()
    settings = msgspec.to_builtins(msgspec.structs.replace(image, env_vars={}))  # which may hold secrets
    settings |= {"env_vars": sorted(image.env_vars), "carriers": sorted(context.carriers(image.name))}
    digest = hashlib.sha256(msgspec.json.encode(settings, order="deterministic")).hexdigest()[:DIGEST_CHARACTERS]
    return ImageSettings(
        formats=image.formats,
        rebuild_age_seconds=image.rebuild_age_seconds,
        digest=digest,
        cannot=cannot_build(context, image),
    )


def cannot_build(context: Context, image: Diskimage) -> str | None:
    """Why this builder cannot build an image of its configuration: a label, an architecture or a program."""
    own, arch = context.settings.labels, context.settings.arch or platform.machine()
    if image.builders and not set(image.builders) & set(own):
        labels = f"labels {', '.join(own)}" if own else "no label"
        return f"the image is for builders with label {' or '.join(image.builders)}; this builder has {labels}"
    if image.arch not in (None, arch):
        return f"the image is for {image.arch}; this builder is {arch}"
    return missing(context.backends[image.backend]) or None


def namesake(directory: ImageDirectory, znode: Znode) -> str:
    """The message that another session has registered our id with this znode, with the remedy."""
    who = "another builder"
    with suppress(Invalid):
        other = codec.decode(Daemon, znode)
        who = f"the builder on {other.host}, process {other.pid},"
    return (
        f"{who} is registered with id {directory.builder_id}, which {directory.id_file} says too: if that builder has just"
        f" died, its session ends soon, and this one goes on; if it lives, one directory is a copy of the other:"
        f" remove {directory.id_file} where the copy is, and start again"
    )
