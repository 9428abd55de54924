"""Images as commands see them: read, found by their names, and changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from nodepool_ocb.cli.kit import session
from nodepool_ocb.cli.kit.performing import performer
from nodepool_ocb.model import paths
from nodepool_ocb.model.images import Build
from nodepool_ocb.model.records import Change, Daemon
from nodepool_ocb.operations.following import Following
from nodepool_ocb.operations.images import finding
from nodepool_ocb.operations.images.finding import Images as Images
from nodepool_ocb.operations.images.finding import build_of as build_of
from nodepool_ocb.operations.images.finding import called as called
from nodepool_ocb.operations.images.finding import image_of as image_of
from nodepool_ocb.operations.images.finding import uploads_named as uploads_named
from nodepool_ocb.operations.images.finding import uploads_of as uploads_of
from nodepool_ocb.operations.reads.images import ReadImages

if TYPE_CHECKING:
    from nodepool_ocb.store.client.session import Session

# -- reading --


def load(opened: Session, quarantined: dict[str, str] | None = None) -> Images:
    """All images, no older than this call; says what could not be read, unless it is put into ``quarantined``."""
    if quarantined is None:
        return performer().read(finding.load(), opened)
    found = performer().read(iter(ReadImages()), opened)
    quarantined.update(found.unread)
    return found.by_name


def lock_paths(images: Images) -> list[str]:
    """The locks of builds, and of uploads."""
    carried = dict.fromkeys(
        (name, each.build, each.provider) for name, view in images.items() for each in uploads_of(view)
    )
    return [*map(paths.build_lock, images), *(paths.upload_lock(*each) for each in carried)]


def builders(opened: Session, quarantined: dict[str, str] | None = None) -> dict[str, Daemon]:
    """The builders that are running, by their ids, as far as what they say can be read."""
    from nodepool_ocb.store import daemons

    found = daemons.read(opened, "builder", quarantined)
    return {id: said for id, said in found.items() if said is not None}


class _Source:
    """The images, for Following."""

    def __init__(self, opened: Session, wake: Callable[[], None]) -> None:
        from nodepool_ocb.store.images import ImageCache

        self.opened = opened
        self.cache = ImageCache(opened, wake)

    def load(self) -> bool:
        self.cache.load()
        return True

    def refresh(self) -> bool:
        return self.cache.refresh()

    def sweep(self) -> bool:
        self.cache.sweep()
        return True


def followed(deadline: float | None, tick_seconds: float | None = None) -> Iterator[tuple[Session, Images]]:
    """All images at once, after every change, and at every tick; raises TimedOut at the deadline (monotonic)."""
    made: list[_Source] = []

    def make(opened: Session, wake: Callable[[], None]) -> _Source:
        made.append(_Source(opened, wake))
        return made[0]

    for _ in Following(performer(), deadline).changes(make, tick_seconds):
        yield made[0].opened, made[0].cache.images


# -- changing --


def change(
    opened: Session, decide: Callable[[Images], Iterable[Sequence[Change]]], dry_run: bool = False
) -> list[Change]:
    """Write what ``decide`` gives, and decide again where somebody was faster; gives all changes."""
    return session.decided(opened, lambda: decide(load(opened)), dry_run)


def log_of(build: Build) -> tuple[str, str]:
    """Host and file of the log; both empty where the record does not say."""
    host, _, file = (build.log or "").partition(":")
    return host, file
