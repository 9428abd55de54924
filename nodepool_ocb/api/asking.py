"""The operation and its options, from the query and the body of a REST request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Annotated, Any, Final, TypeVar, get_origin

import msgspec
from litestar import Request
from litestar.datastructures import MultiDict
from msgspec.structs import FieldInfo

from nodepool_ocb.api.longwork import LONGEST_WAIT_SECONDS
from nodepool_ocb.api.paging import PageOptions
from nodepool_ocb.api.requests import LONGEST_DEADLINE_SECONDS, SHORTEST_DEADLINE_SECONDS, body_of
from nodepool_ocb.api.routes import Route, filled
from nodepool_ocb.errors import Invalid
from nodepool_ocb.operations.calls.longwork import begins
from nodepool_ocb.operations.names import near
from nodepool_ocb.operations.operation import Operation

T = TypeVar("T")

#: The parts of a query that are no fields.
OPTIONS: Final = ("dry_run", "agreed", "reason", "deadline_seconds", "wait")
PAGES: Final = tuple(each.name for each in msgspec.structs.fields(PageOptions))


class QueryOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How an operation is to be performed."""

    dry_run: bool = False
    agreed: bool = False  # to the irreversible change that it asks agreement for
    reason: str | None = None  # for the journal
    deadline_seconds: (
        Annotated[float, msgspec.Meta(ge=SHORTEST_DEADLINE_SECONDS, le=LONGEST_DEADLINE_SECONDS)] | None
    ) = None
    wait: Annotated[float, msgspec.Meta(ge=0, le=LONGEST_WAIT_SECONDS)] | None = (
        None  # seconds, for the end of long work
    )


def query_of(request: Request[Any, Any, Any], kind: type[T], subject: str) -> T:
    """The parts of a query as a struct, of repeated ones the last. Raises Invalid, with the subject of the query."""
    given = {name: values[-1] for name, values in request.query_params.dict().items()}
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as wrong:
        raise Invalid(f"the query of {subject}: {wrong}") from wrong


async def asked_of(
    request: Request[Any, Any, Any], route: Route, kind: type[Operation[Any]], named: Mapping[str, str]
) -> tuple[QueryOptions, PageOptions, Operation[Any]]:
    """The options and the operation. Raises Invalid for an unknown or wrong field."""
    query = MultiDict(request.query_params.multi_items())
    options = _options(query, OPTIONS, kind)
    if "wait" in options and not begins(kind):
        raise Invalid(f"{kind.title()}: it begins no work that goes on after it, so it takes no `wait`")
    if not kind.writes and (meant := [each for each in options if each != "deadline_seconds"]):
        raise Invalid(f"{kind.title()}: it writes nothing, so it takes no {' and no '.join(meant)}")
    pages = _options(query, PAGES, kind) if route.key else {}
    given = filled(route, kind, named)
    rest = MultiDict((name, value) for name, value in query.multi_items() if name not in {*options, *pages})
    if request.method == "GET":
        given |= _of_query(kind, rest, given, PAGES if route.key else ())
    else:
        for name in rest:
            raise _no_option(kind, name)
        given |= _of_body(kind, await body_of(request), given)
    try:
        return (
            msgspec.convert(options, QueryOptions, strict=False),
            msgspec.convert(pages, PageOptions, strict=False),
            msgspec.convert(given, kind, strict=request.method != "GET"),
        )
    except (msgspec.ValidationError, RecursionError) as wrong:
        raise Invalid(f"{kind.title()}: {wrong}") from wrong


def _options(query: MultiDict[str], names: Sequence[str], kind: type[Operation[Any]]) -> dict[str, str]:
    """The parts of a query with these names, unless the operation has a field of the name."""
    return {name: query.getall(name)[-1] for name in names if name in query and name not in kind.__struct_fields__}


@cache
def fields_of(kind: type[Operation[Any]]) -> Mapping[str, FieldInfo]:
    """The fields by name; to look at them takes longer than the rest of a small request."""
    return {each.name: each for each in msgspec.structs.fields(kind)}


def _of_query(
    kind: type[Operation[Any]], query: MultiDict[str], given: Mapping[str, Any], beside: Sequence[str]
) -> dict[str, Any]:
    fields = fields_of(kind)
    found: dict[str, Any] = {}
    for name in query:
        if name not in fields or name in given:
            raise _unknown(kind, name, given, beside)
        values, origin = query.getall(name), get_origin(fields[name].type)
        if origin is tuple:
            found[name] = values
        elif isinstance(origin, type) and issubclass(origin, Mapping):
            found[name] = dict(each.partition("=")[::2] for each in values)
        else:
            found[name] = values[-1]
    return found


def _of_body(kind: type[Operation[Any]], data: bytes, given: Mapping[str, Any]) -> dict[str, Any]:
    try:
        found: dict[str, Any] = msgspec.json.decode(data, type=dict[str, Any]) if data else {}
    except (msgspec.DecodeError, RecursionError, UnicodeError) as wrong:
        raise Invalid(f"the body is no JSON object: {wrong}") from wrong
    for name in found:
        if name not in kind.__struct_fields__ or name in given:
            raise _unknown(kind, name, given)
    return found


def _no_option(kind: type[Operation[Any]], name: str) -> Invalid:
    """The error for a part of a query of a write: without it, a wrong `dry-run` would write."""
    if name in kind.__struct_fields__:
        return Invalid(f"{kind.title()}: the field {name} stands in the body of a {kind.verb}, not in the query")
    return Invalid(f"{kind.title()}: the query has no part {name[:100]!r}{near(name[:100], OPTIONS)}")


def _unknown(kind: type[Operation[Any]], name: str, given: Mapping[str, Any], beside: Sequence[str] = ()) -> Invalid:
    """``beside``: the parts of a query that a list takes, too."""
    known = ", ".join(each for each in kind.__struct_fields__ if each not in given) or "none"
    pages = f"; of a list also: {', '.join(beside)}" if beside else ""
    return Invalid(f"{kind.title()}: there is no field {name[:100]!r} here; the fields are: {known}{pages}")
