"""Images read from ZooKeeper as views, in a handful of requests for all of them, and kept up to date by a watch.

The locks are read after the records: if a build says ``building`` and its lock is then free, no builder works on it. A
record that is empty or cannot be decoded is left out of a view. It stands in ``quarantined``, with the reason for each
path; it stops nothing else, and it is not deleted. The exceptions are the flags that request a build or pause an image:
they count with any content.

In the native layout, records of Nodepool 11 are left out in the same way. Their builds have other ids, and formats that are
text: it is not known whether a Nodepool still works on them. In Nodepool's own tree, builds are in the order of the times of
their states, as for Nodepool.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from typing import Final, TypeAlias, TypeVar

from msgspec.structs import replace

from nodepool_ocb.errors import Invalid
from nodepool_ocb.images.rules import BuildView, ImageView, Paused, Requested, UploadView
from nodepool_ocb.model import paths
from nodepool_ocb.model.images import Build, BuildRequest, Pause, Upload
from nodepool_ocb.model.records import Record
from nodepool_ocb.model.skew import believed
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.client.frames import Znode
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.locks import holders

T = TypeVar("T", bound=Record)

_LOCK: Final = "lock"  # stands among ids
#: In this order: an image is not shown without its request because it was deleted during the reading.
_FLAGS_FIRST: Final = (paths.request_build, paths.pause, paths.image)

_Key: TypeAlias = tuple[str, str]  # image and build


def names(session: Session) -> list[str]:
    """The images that there are; raises Unavailable or Denied."""
    return sorted(session.children(paths.IMAGES) or [])


def read(session: Session, images: Iterable[str], quarantined: dict[str, str] | None = None) -> dict[str, ImageView]:
    """The images of these names as they are now, without those that do not exist; raises Unavailable or Denied.

    The entries of these images in ``quarantined`` are replaced.
    """
    wanted = set(images)
    reader = _ImageReader(session)
    found = reader.images(sorted(wanted))
    if quarantined is not None:
        for path in [path for path in quarantined if _image_of(path) in wanted]:
            del quarantined[path]
        quarantined.update(reader.quarantined)
    return found


class _ImageReader:
    """One reading: level by level, all images at once."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.quarantined: dict[str, str] = {}

    def images(self, wanted: list[str]) -> dict[str, ImageView]:
        session = self._session
        found = session.get_many([path(image) for path in _FLAGS_FIRST for image in wanted])
        requests, pauses, images = (found[index * len(wanted) :][: len(wanted)] for index in range(len(_FLAGS_FIRST)))
        there = [image for image, znode in zip(wanted, images, strict=True) if znode is not None]
        flags = dict(zip(wanted, zip(requests, pauses, strict=True), strict=True))
        builds = self._builds(there)
        held = holders(session, [*map(paths.build_lock, there)])
        return {
            image: ImageView(image, tuple(builds[image]), holder, self._requested(request), self._paused(pause))
            for image, holder in zip(there, held, strict=True)
            for request, pause in [flags[image]]
        }

    def _builds(self, images: list[str]) -> dict[str, list[BuildView]]:
        """Reads records before uploads: a build that says ``delete`` and then has no uploads gets none any more."""
        session = self._session
        folders = [*map(paths.builds, images)]
        listed = session.children_many(folders)
        ids = [self._ids(folder, names) for folder, names in zip(folders, listed, strict=True)]
        builds = [(image, id) for image, found in zip(images, ids, strict=True) for id in found]
        records = session.get_many([paths.build(*build) for build in builds])
        uploads, unread = self._uploads(builds)
        views: dict[str, list[BuildView]] = defaultdict(list)
        for (image, id), znode in zip(builds, records, strict=True):
            record = self._record(Build, znode)
            if record is not None and znode is not None:
                of_build = tuple(uploads[image, id]), frozenset(unread[image, id])
                moment = record.state_time if session.tree.foreign else 0.0
                views[image].append(BuildView(id, record, znode.version, *of_build, moment))
        for each in views.values():
            each.sort(key=lambda build: build.age)
        return views

    def _uploads(self, builds: list[_Key]) -> tuple[dict[_Key, list[UploadView]], dict[_Key, set[str]]]:
        """The uploads of each build, and the providers where one cannot be decoded."""
        session = self._session
        providers = session.children_many([paths.build_providers(*build) for build in builds])
        carried = [
            (*build, name) for build, listed in zip(builds, providers, strict=True) for name in sorted(listed or ())
        ]
        folders = [paths.uploads(*each) for each in carried]
        listed = session.children_many(folders)
        ids = [self._ids(folder, names) for folder, names in zip(folders, listed, strict=True)]
        found = [(each, id) for each, names in zip(carried, ids, strict=True) for id in names]
        records = session.get_many([paths.upload(*each, id) for each, id in found])
        unsure = list(dict.fromkeys(each for (each, _), znode in zip(found, records, strict=True) if znode is not None))
        held = dict(zip(unsure, holders(session, [paths.upload_lock(*each) for each in unsure]), strict=True))
        views: dict[_Key, list[UploadView]] = defaultdict(list)
        unread: dict[_Key, set[str]] = defaultdict(set)
        for (image, build, provider), names in zip(carried, listed, strict=True):
            if self._foreign(names):
                unread[image, build].add(provider)
        for ((image, build, provider), id), znode in zip(found, records, strict=True):
            record = self._record(Upload, znode)
            if znode is not None and record is None:
                unread[image, build].add(provider)
            elif znode is not None and record is not None:
                locked = held[image, build, provider] is not None
                views[image, build].append(UploadView(build, provider, id, record, znode.version, locked))
        return views, unread

    def _ids(self, folder: str, listed: list[str] | None) -> list[str]:
        """Those of the names that are ids, in order."""
        for name in self._foreign(listed):
            path = f"{folder}/{name}"
            self.quarantined[path] = f"{path}: its name is not ten digits; it is left alone"
        return sorted(name for name in listed or () if self._session.tree.ids.fullmatch(name))

    def _foreign(self, listed: list[str] | None) -> list[str]:
        """The names among ids that are no ids."""
        return [name for name in listed or () if name != _LOCK and not self._session.tree.ids.fullmatch(name)]

    def _record(self, kind: type[T], znode: Znode | None) -> T | None:
        if znode is None:
            return None
        try:
            record = codec.decode(kind, znode)
        except Invalid as wrong:
            self.quarantined[znode.path] = str(wrong)
            return None
        if isinstance(record, Build | Upload) and believed(record.state_time, znode.mtime) != record.state_time:
            return replace(record, state_time=znode.mtime)  # its writer's clock was wrong, and this cannot be later
        return record

    def _requested(self, znode: Znode | None) -> Requested | None:
        if znode is None:
            return None
        record = self._record(BuildRequest, znode) if znode.data else None  # the flag counts with any content
        return Requested(record or BuildRequest(at=znode.mtime), znode.version, znode.mzxid)

    def _paused(self, znode: Znode | None) -> Paused | None:
        if znode is None:
            return None
        record = self._record(Pause, znode) if znode.data else None
        return Paused(record or Pause(at=znode.mtime), znode.version)


def _image_of(path: str) -> str:
    """The image that a path below it, or its own, is of."""
    return path.removeprefix(paths.IMAGES + "/").partition("/")[0]


class ImageCache:
    """All images, kept up to date: ``wake`` is called, on the connection's thread, when ``refresh`` has something to do.

    Everything but the watch is called on one thread.
    """

    def __init__(self, session: Session, wake: Callable[[], None]) -> None:
        self.images: dict[str, ImageView] = {}
        self.quarantined: dict[str, str] = {}
        self.cluster = 0  # the mzxid of the cluster's record when the newest sweep began; 0 where there was none
        self._session = session
        self._wake = wake
        self._events: deque[str] = deque()
        self._dirty: set[str] = set()
        self._connection = 0  # the session's count of connections when all was read
        self._swept = -1  # the zxid that the newest sweep began with

    def load(self) -> None:
        """Watch, and read everything; again in every new session. Raises Unavailable or Denied."""
        self._session.ensure(paths.IMAGES)
        self._session.watch(paths.IMAGES, self._event)
        self._swept = -1
        self.sweep()

    def refresh(self) -> bool:
        """Read the images that something happened to; whether there was anything to read."""
        if self._connection != self._session.connections:
            self.sweep()
            return True
        self._absorb()
        dirty, self._dirty = self._dirty, set()
        return self._read(dirty)

    def sweep(self) -> None:
        """Read everything, unless nothing at all was written since the last sweep began: watches are hints."""
        self._absorb()
        connection = self._session.connections
        _, cluster = self._session.get_many([paths.IMAGES, paths.CLUSTER])
        self.cluster = 0 if cluster is None else cluster.mzxid
        zxid = self._session.last_zxid  # the reads that follow see all writes up to here
        if zxid != self._swept or self._dirty:
            found = names(self._session)
            self._read({*found, *self.images})
            self._swept = zxid
            self._dirty.clear()
        self._connection = connection

    def _read(self, wanted: set[str]) -> bool:
        if not wanted:
            return False
        try:
            found = read(self._session, sorted(wanted), self.quarantined)
        except BaseException:
            self._dirty |= wanted  # to be read when it can be
            raise
        for image in wanted - found.keys():
            self.images.pop(image, None)
        self.images.update(found)
        return True

    def _event(self, _kind: str, path: str) -> None:
        self._events.append(path)
        self._wake()

    def _absorb(self) -> None:
        while self._events:
            path = self._events.popleft()
            if path != paths.IMAGES:
                self._dirty.add(_image_of(path))
