"""The query of an event stream: its filters, and the place at which it begins. Pure."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from litestar import Request

from nodepool_ocb.api.actor import Actor
from nodepool_ocb.api.feed import cursor
from nodepool_ocb.api.feed.cursor import EventCursor
from nodepool_ocb.api.feed.items import ENTRY, EventFilter, SelectedNames
from nodepool_ocb.errors import Invalid
from nodepool_ocb.views.history.recordchanges import KINDS

WORDS: Final = (ENTRY, *KINDS)
#: The fields of the query; each but the last may be repeated.
FIELDS: Final = ("kind", "deployment", "node", "since")
MOST_VALUES: Final = 1000


class EventQuery(msgspec.Struct, frozen=True):
    """What a client asked for."""

    filter: EventFilter
    since: EventCursor | None


def asked(request: Request[Any, Any, Any], actor: Actor) -> EventQuery:
    """The query within the limits of the token. The header Last-Event-ID goes before ``since``. Raises Invalid."""
    query = request.query_params
    for name in query:
        if name not in FIELDS:
            raise Invalid(f"there is no field {name[:100]!r} here; the fields are: {', '.join(FIELDS)}")
    values = {name: frozenset(query.getall(name, [])) for name in FIELDS[:-1]}
    if sum(map(len, values.values())) > MOST_VALUES:
        raise Invalid(f"give at most {MOST_VALUES} values; without any, the stream has all events")
    for kind in values["kind"].difference(WORDS):
        raise Invalid(f"there is no kind {kind[:100]!r}; the kinds are: {', '.join(WORDS)}")
    since = request.headers.get("last-event-id") or query.get("since")
    limits = actor.limits
    return EventQuery(
        EventFilter(
            kinds=values["kind"],
            deployments=values["deployment"],
            nodes=values["node"],
            within=frozenset(limits.deployments) if limits is not None and limits.deployments else None,
            selected=SelectedNames() if limits is not None and limits.selector is not None else None,
        ),
        None if since is None else cursor.parse(since),
    )
