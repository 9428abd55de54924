"""Following of ``events`` at a server of the API: the stream of the server, which goes on after a break."""

from __future__ import annotations

import re
import time
from collections.abc import Generator, Iterator, Sequence
from typing import Any, Final

import msgspec

from nodepool_ocb.errors import OcbError, OutcomeUnknown, Unavailable
from nodepool_ocb.model.journal import Entry
from nodepool_ocb.operations.following import OUTAGE_SECONDS
from nodepool_ocb.operations.history.events import Event
from nodepool_ocb.remote.performer import RemotePerformer
from nodepool_ocb.views.history import entries
from nodepool_ocb.views.history.entries import EntryFilter, EntryRow
from nodepool_ocb.views.history.happenings import StateEvent

PATH: Final = "/v1/events?kind=entry&kind=node&kind=noderole"
PAUSE_SECONDS: Final = 0.5  # before a stream that broke is opened again
NUMBERS: Final = re.compile(r"(?:^|(?<=-))-?[0-9]+")  # in the id of an event
FOLDERS: Final = (False, True)  # of people and annealers, of launchers


class _StreamEvent(msgspec.Struct):
    name: str
    id: str
    data: Any


def events(
    performer: RemotePerformer, wanted: EntryFilter, after: int | None, after_pool: int | None, *, follow: bool
) -> Generator[Sequence[Event], None, None]:
    """As ``operations.history.events``; without ``follow`` it ends behind the newest entry of now."""
    present = NUMBERS.findall(next(_opened(performer, "")).id)
    newest = {pool: int(present[pool]) for pool in FOLDERS}
    begin = -1 if wanted.since is not None else None
    last = {pool: begin if given is None else given for pool, given in zip(FOLDERS, (after, after_pool), strict=True)}
    reached = {pool: newest[pool] if (number := last[pool]) is None else number for pool in FOLDERS}
    for event in _followed(performer, f"{reached[False]}-{reached[True]}-{present[2]}--1--1"):
        found = list(_shown(performer, event, wanted, reached))
        if found:
            yield found
        if not follow and all(reached[pool] >= newest[pool] for pool in FOLDERS):
            return


def _shown(
    performer: RemotePerformer, event: _StreamEvent, wanted: EntryFilter, reached: dict[bool, int]
) -> Iterator[Event]:
    data = event.data
    if event.name == "reset":
        performer.caller.note(f"warning: {data['reason']}; changes may be missing here")
    elif event.name == "entry":
        number, pool = data.pop("number"), bool(data.pop("pool", False))
        reached[pool] = max(reached[pool], number)
        record = msgspec.convert(data, Entry)
        row = entries.chosen(EntryRow(number=number, record=record, pool=pool or msgspec.UNSET), wanted)
        if row is not None:
            yield row
    elif event.name == "state":
        now = time.time()
        for each in data["changes"]:
            if each["was"] != each["state"] and wanted.about(each["name"]):
                yield StateEvent(at=now, kind=each["kind"], name=each["name"], old=each["was"], new=each["state"])


def _followed(performer: RemotePerformer, since: str) -> Iterator[_StreamEvent]:
    """The events behind a place, over breaks. Raises Unavailable after a long one, and the errors of the server."""
    silent_since: float | None = None
    while True:
        try:
            for event in _opened(performer, f"&since={since}"):
                silent_since, since = None, event.id
                yield event
        except (Unavailable, OutcomeUnknown) as lost:
            now = time.monotonic()
            if silent_since is None:
                silent_since = now
                performer.caller.note(f"{lost}; waiting for it")
            if now >= silent_since + OUTAGE_SECONDS:
                raise Unavailable(str(lost)) from lost
        time.sleep(PAUSE_SECONDS)


def _opened(performer: RemotePerformer, query: str) -> Iterator[_StreamEvent]:
    """The events of one answer; data are the last line of an event."""
    name = id = ""
    for line in performer.follow(f"{PATH}{query}"):
        field, _, value = line.decode().rstrip("\n").partition(": ")
        if field == "event":
            name = value
        elif field == "id":
            id = value
        elif field == "data":
            try:
                yield _StreamEvent(name, id, msgspec.json.decode(value))
            except msgspec.DecodeError as wrong:
                raise OcbError(f"an event of the server cannot be read: {wrong}; is it an API server?") from wrong
