"""Images as they change: the views that ``image list --watch`` and ``image build --wait`` show."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from nodepool_ocb.errors import InError, NotFound, OcbError, Unavailable
from nodepool_ocb.images.builders import why_not_built
from nodepool_ocb.images.rules import ImageView
from nodepool_ocb.model.records import Daemon
from nodepool_ocb.operations import logs as daemonlogs
from nodepool_ocb.operations.following import Following
from nodepool_ocb.operations.images.finding import Images
from nodepool_ocb.operations.images.reading import ImageList
from nodepool_ocb.operations.operation import Operation, Right, Situation, Steps
from nodepool_ocb.operations.performer import AnyPerformer, Performer
from nodepool_ocb.operations.polling import polled
from nodepool_ocb.operations.reads.builders import ReadBuilders
from nodepool_ocb.operations.reads.images import ReadImages, configured_pauses
from nodepool_ocb.views import images as shown
from nodepool_ocb.views.builds import BuildProgress, of_build
from nodepool_ocb.views.images import ImageRow

if TYPE_CHECKING:
    from nodepool_ocb.store.client.session import Session


class BuildSeen(msgspec.Struct, frozen=True):
    """The build that answers a request, at one moment."""

    view: ImageView | None  # None: the image was deleted
    progress: BuildProgress
    builders: Mapping[str, Daemon]  # those that run, as of the last successful read
    obstacle: str | None  # why no running builder builds it, if that is so

    def error(self, image: str) -> OcbError | None:
        """The error with which a wait ends; None for a build that is ready, and for one that goes on."""
        if self.progress.outcome in (None, "ready"):
            return None
        kind = NotFound if self.progress.outcome == "deleted" else InError
        return kind(f"{image}: {self.progress.sentence}")


class ImageBuildLook(Operation[BuildSeen], frozen=True, kw_only=True):
    """One look at the build that answers a request. ``request``: its number, as ``ImageBuild`` answers it."""

    noun = "image"
    verb = "build"
    right = Right.VIEWER
    reads = (ReadImages, ReadBuilders)

    image: str
    request: int

    def decide(self, situation: Situation) -> Steps[BuildSeen]:
        view = (yield from ReadImages()).by_name.get(self.image)
        known = yield from ReadBuilders()
        running = {id: builder for id, builder in known.items() if builder is not None}
        return _seen(self.image, view, self.request, situation.now, running)


def rows(performer: AnyPerformer) -> Iterator[dict[str, ImageRow]]:
    """All images as they are, by name, then after each change; without end."""
    if not isinstance(performer, Performer):
        for found in polled(performer, ImageList):
            yield {row.name: row for row in found}
        return
    paused = configured_pauses(performer.settings())
    for source in _sources(performer, None, None):
        yield {name: shown.row(view, time.time(), paused) for name, view in sorted(source.images.items())}


def builds(
    performer: AnyPerformer, image: str, request: int, deadline: float | None, tick_seconds: float
) -> Iterator[BuildSeen]:
    """The build that answers the request now, then after each change and at each tick.

    ``request`` is its number, as ``ImageBuild`` answers it. Raises TimedOut at the deadline (monotonic).
    """
    if not isinstance(performer, Performer):
        yield from polled(performer, lambda: ImageBuildLook(image=image, request=request), deadline)
        return
    builders: Mapping[str, Daemon] = {}
    for source in _sources(performer, deadline, tick_seconds):
        with suppress(Unavailable):  # the builders are only a remark; an outage is noticed with the images
            builders = daemonlogs.daemons(source.opened, "builder")
        yield _seen(image, source.images.get(image), request, source.opened.now(), builders)


def _seen(image: str, view: ImageView | None, request: int, now: float, builders: Mapping[str, Daemon]) -> BuildSeen:
    progress = of_build(view, request, now)
    return BuildSeen(view, progress, builders, _obstacle(image, builders, building=progress.build is not None))


def _obstacle(image: str, running: Mapping[str, Daemon], building: bool) -> str | None:
    if not running:
        return shown.NOBODY
    reason = None if building else why_not_built(image, running)
    return shown.cannot_build(image, reason) if reason else None


class _BuildsSource:
    """The images, for Following."""

    def __init__(self, opened: Session, wake: Callable[[], None]) -> None:
        from nodepool_ocb.store.images import ImageCache

        self.opened = opened
        self._cache = ImageCache(opened, wake)

    @property
    def images(self) -> Images:
        return self._cache.images

    def load(self) -> bool:
        self._cache.load()
        return True

    def refresh(self) -> bool:
        return self._cache.refresh()

    def sweep(self) -> bool:
        self._cache.sweep()
        return True


def _sources(performer: Performer, deadline: float | None, tick_seconds: float | None) -> Iterator[_BuildsSource]:
    """The one source, after each of its changes."""
    made: list[_BuildsSource] = []

    def make(opened: Session, wake: Callable[[], None]) -> _BuildsSource:
        made.append(_BuildsSource(opened, wake))
        return made[0]

    for _ in Following(performer, deadline).changes(make, tick_seconds):
        yield made[0]
