"""Requests by id, for all verbs of this folder, and those of leases. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from nodepool_ocb.errors import Ambiguous, NotFound
from nodepool_ocb.operations.names import unknown
from nodepool_ocb.operations.operation import Note, Steps
from nodepool_ocb.operations.reads.announcement import Announcement
from nodepool_ocb.operations.reads.pools import FoundPool, ReadPool, ReadPoolAtFirst
from nodepool_ocb.pool.views import PoolView, RequestView


def load() -> Steps[FoundPool]:
    """The records of pools; a note names each that cannot be read. It asks ``ReadPool``."""
    found = yield from ReadPool()
    for warning in _warnings(found):
        yield Note(warning)
    return found


def load_at_first() -> Steps[FoundPool]:
    """The same as they were when agreement was asked for. It asks ``ReadPoolAtFirst`` and ``Announcement``."""
    found = yield from ReadPoolAtFirst()
    yield from Announcement(tuple(_warnings(found)))
    return found


def _warnings(found: FoundPool) -> Iterator[str]:
    for path, reason in found.unread.items():
        said = reason.removeprefix(f"{path}: ")
        yield f"warning: {path} is left out: {said}; see: nodepool-ocb record show {path}"


def request_of(view: PoolView, id: str) -> RequestView:
    """The request of an id, or of its number alone. Raises NotFound, or Ambiguous for a number of several requests."""
    if id in view.requests:
        return view.requests[id]
    number = id.zfill(10) if id.isdecimal() else None
    found = [each for name, each in view.requests.items() if name.partition("-")[2] == number]
    if not found:
        raise unknown("request", id, view.requests) if view.requests else NotFound(_NONE.format(id))
    if len(found) > 1:
        raise Ambiguous(f"{id} may be {' or '.join(each.id for each in found)}; write the whole id")
    return found[0]


_NONE = "request {} does not exist, and no other request; first: nodepool-ocb request create --label LABEL"
