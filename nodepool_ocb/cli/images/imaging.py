"""Images as commands see them: read, found by their names, shown in rows, and changed.

A build is shown as it stands and not as its record says: one that says ``building`` and that nobody works on any more was
aborted, an upload of that kind has failed.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from nodepool_ocb.cli.kit import output, session
from nodepool_ocb.cli.kit.follow import Following
from nodepool_ocb.cli.kit.options import unknown
from nodepool_ocb.errors import NotFound
from nodepool_ocb.images import rules
from nodepool_ocb.images.rules import BuildView, ImageView, UploadView
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Build, BuildState, Change, Daemon, Json, UploadState
from nodepool_ocb.views.times import age
from nodepool_ocb.views.view import whole

if TYPE_CHECKING:
    from nodepool_ocb.store.client.session import Session

NOBODY = "no builder is running: nothing is built or uploaded; systemctl start nodepool-ocb-builder"

Images = Mapping[str, ImageView]


# -- reading --


def load(opened: Session, quarantined: dict[str, str] | None = None) -> dict[str, ImageView]:
    """All images, no older than this call; says what could not be read, unless it is put into ``quarantined``."""
    from nodepool_ocb.store import images

    unread: dict[str, str] = {} if quarantined is None else quarantined
    opened.sync()
    found = images.read(opened, images.names(opened), unread)
    for path, reason in unread.items() if quarantined is None else ():
        output.say(f"warning: {path} is left out: {reason}")
    return found


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

    for _ in Following(deadline).changes(make, tick_seconds):
        yield made[0].opened, made[0].cache.images


# -- finding --


def image_of(images: Images, name: str) -> ImageView:
    """Raises NotFound."""
    if name not in images:
        raise unknown("image", name, images)
    return images[name]


def build_of(view: ImageView, id: str) -> BuildView:
    """Raises NotFound. Leading zeros may be left out, and ``IMAGE-`` may stand before the id."""
    digits = id.removeprefix(f"{view.name}-")
    found = view.build(digits.zfill(10))
    if found is None:
        has = ", ".join(build.id for build in view.builds) or "none"
        raise NotFound(f"image {view.name} has no build {id}; it has: {has}")
    return found


def uploads_named(view: ImageView, build: str, provider: str, id: str | None) -> list[UploadView]:
    """A build's uploads at a provider, or the one of this id. Raises NotFound."""
    of_build = build_of(view, build)
    there = [upload for upload in of_build.uploads if upload.provider == provider]
    chosen = there if id is None else [upload for upload in there if upload.id == id.zfill(10)]
    if not chosen:
        what = f"{of_build.id} {provider}{f' {id}' if id and there else ''}"
        raise unknown("upload", what, (f"{each.build} {each.provider}" for each in of_build.uploads))
    return chosen


# -- telling --


def called(upload: UploadView) -> str:
    """An upload as a person is asked about it."""
    name = upload.record.external_name or f"build {upload.build}, upload {upload.id}"
    return f"{name} at {upload.provider}"


def stands(view: ImageView, build: BuildView) -> BuildState:
    """The state that is shown."""
    return rules.state_shown(build, view.holder)


def upload_stands(upload: UploadView) -> UploadState:
    """The state that is shown: what nobody sends any more has failed."""
    if upload.record.state is UploadState.UPLOADING and not upload.locked:
        return UploadState.FAILED
    return upload.record.state


def row(view: ImageView, paused: Mapping[str, str] = {}) -> dict[str, Json]:
    """An image at a glance; its uploads are those of the newest ready build. ``paused`` says in which file it is paused."""
    newest = next(iter(view.ready()), None)
    sent = newest.uploads if newest else ()
    holder = view.holder
    return {
        "name": view.name,
        "build": newest.id if newest else None,
        "since": newest.record.state_time if newest else None,
        "formats": list(newest.record.formats) if newest else [],
        "builds": dict(Counter(str(stands(view, build)) for build in view.builds)),
        "uploads": {"ready": sum(each.record.state is UploadState.READY for each in sent), "all": len(sent)},
        "failures": len(rules.failures(view)),
        "request": whole(view.request.record) if view.request else None,
        "pause": whole(view.pause.record) if view.pause and view.pause.on(time.time()) else None,
        "paused_in": paused.get(view.name),
        "builder": holder.host if holder else None,
    }


def words(row: Mapping[str, Json], reasons: bool = False) -> dict[str, Json]:
    """A row of ``row`` for a table; with ``reasons``, also why a build or a pause was asked for."""
    uploads, request, pause = row["uploads"], row["request"], row["pause"]
    asked = request and f"{request['by'] or 'somebody'}, {age(time.time() - request['at'])} ago"
    paused = pause and f"{pause['by'] or 'somebody'}{_until(pause['until'])}"
    if reasons:
        asked = asked and ": ".join(filter(None, (asked, request["reason"])))
        paused = paused and ": ".join(filter(None, (paused, pause["reason"])))
    file = row["paused_in"] if reasons or not row["paused_in"] else Path(row["paused_in"]).name
    return {
        **{key: value for key, value in row.items() if key != "paused_in"},
        "builds": counted(row["builds"]),
        "uploads": f"{uploads['ready']}/{uploads['all']}" if uploads["all"] else None,
        "request": asked,
        "pause": "; ".join(filter(None, (paused, file and f"in {file}"))) or None,
    }


def counted(states: Mapping[str, int]) -> str | None:
    """
    >>> counted({"ready": 2, "failed": 1})
    '1 failed, 2 ready'
    """
    return ", ".join(f"{count} {state}" for state, count in sorted(states.items())) or None


def _until(until: float | None) -> str:
    return f", {age(until - time.time())} left" if until is not None else ""


def build_row(view: ImageView, build: BuildView) -> dict[str, Json]:
    """A build as it stands, with its uploads."""
    state = stands(view, build)
    row = {"build": build.id, **whole(build.record), "state": str(state), "since": build.record.state_time}
    if state is not build.record.state:
        row["reason"] = f"{build.record.builder} does not work on it any more"
    return {**row, "uploads": [upload_row(view.name, upload) for upload in build.uploads]}


def upload_row(name: str, upload: UploadView) -> dict[str, Json]:
    """An upload as it stands; its ``name`` is what ``upload delete`` takes."""
    state = upload_stands(upload)
    row = {
        "name": f"{name} {upload.build} {upload.provider} {upload.id}",
        "image": name,
        "build": upload.build,
        "provider": upload.provider,
        "upload": upload.id,
        **whole(upload.record),
        "state": str(state),
        "since": upload.record.state_time,
    }
    if state is not upload.record.state:
        row["reason"] = f"{upload.record.builder or 'its builder'} does not send it any more"
    return row


# -- changing --


def change(
    opened: Session, decide: Callable[[Images], Iterable[Sequence[Change]]], dry_run: bool = False
) -> list[Change]:
    """Write what ``decide`` gives, and decide again where somebody was faster; gives all changes."""
    return session.decided(opened, lambda: decide(load(opened)), dry_run)


def uploads_of(view: ImageView) -> Iterator[UploadView]:
    """Those of all builds."""
    return (upload for build in view.builds for upload in build.uploads)


def log_of(build: Build) -> tuple[str, str]:
    """Host and file of the log; both empty where the record does not say."""
    host, _, file = (build.log or "").partition(":")
    return host, file
