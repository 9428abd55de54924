"""The tidying of a builder beside its work: steps that the rules name, files without a record, leaks at providers.

Each step is begun on a thread. A step that is due again did not help, and is begun again after growing pauses, because
its refusal may last for days. Each provider has a crew of its own: one that is mute holds up no other.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from functools import partial
from typing import Final

from nodepool_ocb.daemon.backoff import LONGEST_SECONDS, Backoff
from nodepool_ocb.daemon.workers import WorkerPool
from nodepool_ocb.images.rules import ImagePolicy, ImageView
from nodepool_ocb.images.tidy import MarkBuild, RemoveBuild, RemoveFiles, RemoveUpload, Step, Tidier, tidy
from nodepool_ocb.store.images import ImageCache
from nodepool_ocb_builder.build import Building
from nodepool_ocb_builder.cleanup import steps
from nodepool_ocb_builder.cleanup.leaks import Leaks
from nodepool_ocb_builder.cleanup.orphans import Orphans
from nodepool_ocb_builder.context import Context

TIDIERS: Final = 4
ASKING: Final = 2  # deletions and looks for leaks at one provider


class Housekeeping:
    """Begun by the turn, on its thread; ``wake`` is called as each piece ends."""

    def __init__(self, context: Context, backoff: Backoff, wake: Callable[[], None]) -> None:
        self._context, self._backoff, self._wake = context, backoff, wake
        self._tidiers = WorkerPool("tidy", TIDIERS, wake)
        self._asking: dict[str, WorkerPool] = {}  # by provider
        self._leaks = Leaks(context)
        self._orphans = Orphans(context)

    def pools(self) -> list[WorkerPool]:
        """All pools that may be at work."""
        return [self._tidiers, *self._asking.values()]

    def tidy(self, view: ImageView, working: str | None, living: frozenset[str], now: float) -> float:
        """Begin every step that is due about an image; ``working`` is the id of the build that is made here now.

        Gives the seconds until a step is to be tried again.
        """
        context = self._context
        waits = [float("inf")]
        for step in tidy(view, self._tidier(view, working, living), now):
            pool = self._asked(step.upload.provider) if isinstance(step, RemoveUpload) else self._tidiers
            waits.append(self._begin(pool, (view.name, *_key(step)), partial(steps.do, context, view.name, step)))
        for build in view.ready():
            if formats := steps.uploaded(context, view.name, build):
                work = partial(steps.remove_uploaded, context, view.name, build, formats)
                waits.append(self._begin(self._tidiers, (view.name, "uploaded", build.id), work))
        return min(waits)

    def look_around(self, cache: ImageCache, at_work: Mapping[str, Building]) -> None:
        """Look at things without an event: files and logs, and objects at providers. ``at_work``: builds under way, by image."""
        context, settings = self._context, self._context.settings
        names = [building.name for building in at_work.values()]
        work = partial(self._orphans.look, dict(cache.images), list(cache.quarantined), names)
        self._backoff.comes("orphans", settings.cleanup_seconds, partial(self._tidiers.start, "orphans", work))
        for provider in context.uploaders if context.cluster else ():
            look = partial(self._asked(provider).start, "leaks", partial(self._leaks.look, provider))
            self._backoff.comes(("leaks", provider), settings.leak_seconds, look)

    def _tidier(self, view: ImageView, working: str | None, living: frozenset[str]) -> Tidier:
        context = self._context
        image = context.diskimages.get(view.name)
        return Tidier(
            builder_id=context.builder_id,
            working=frozenset() if working is None else frozenset({working}),
            configured=image is not None,
            carriers=frozenset(context.carriers(view.name)),
            providers=frozenset(context.uploaders),
            living=living,
            gone=context.gone,
            formats=image.formats if image else (),
            keep=(context.wanted(image) if image else ImagePolicy((), 0.0)).keep,
            failed_keep_seconds=context.settings.failed_keep_seconds,
        )

    def _begin(self, pool: WorkerPool, key: Hashable, work: Callable[[], None]) -> float:
        """When to try again, in seconds."""
        self._backoff.start(pool, key, work, LONGEST_SECONDS)
        return self._backoff.left(key)

    def _asked(self, provider: str) -> WorkerPool:
        return self._asking.setdefault(provider, WorkerPool(f"ask {provider}", ASKING, self._wake))


def _key(step: Step) -> tuple[str, ...]:
    """The key of a step, which does not depend on other fields of the records."""
    kind = type(step).__name__
    match step:
        case MarkBuild(build=build) | RemoveBuild(build=build) | RemoveFiles(build=build):
            return kind, build.id
        case _:
            return kind, step.upload.build, step.upload.provider, step.upload.id
