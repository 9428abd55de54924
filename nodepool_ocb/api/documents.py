"""``/openapi.json``: OpenAPI 3.1, made from the table of routes and the fields of the operations."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import version
from typing import Any, Final

import msgspec

from nodepool_ocb.api.asking import QueryOptions
from nodepool_ocb.api.calls import OPERATIONS
from nodepool_ocb.api.foreign import described as foreign
from nodepool_ocb.api.page.picture import PictureQuery
from nodepool_ocb.api.paging import PageOptions
from nodepool_ocb.api.requests import LONGEST_DEADLINE_SECONDS, SHORTEST_DEADLINE_SECONDS
from nodepool_ocb.api.routes import (
    BUILD_LOG_PATH,
    EVENTS_PATH,
    PICTURE_PATH,
    ROUTES,
    RUN_LOG_PATH,
    Route,
    filled,
    parameters,
)
from nodepool_ocb.api.streams.events import MEDIA_TYPE
from nodepool_ocb.api.streams.logs import LogQuery
from nodepool_ocb.api.streams.wanted import FIELDS
from nodepool_ocb.operations.calls.longwork import begins
from nodepool_ocb.operations.operation import Operation
from nodepool_ocb.operations.plans.saved import SavedPlan
from nodepool_ocb.operations.wire.problems import Problem

_REF: Final = "#/components/schemas/{name}"
#: The refusals that each route may give, with their meaning.
REFUSALS: Final[Mapping[int, str]] = {
    400: "The request is malformed, or leaves open which record it means.",
    401: "No valid token came with the request.",
    403: "The token does not open this.",
    404: "An object does not exist, or is outside the limits of the token.",
    405: "The path has no such method.",
    409: "The request contradicts the records, or needs agreement.",
    412: "A record has another version than the request demands.",
    413: "The body or the records are too large.",
    421: "The server belongs to another cluster.",
    422: "A field is wrong.",
    424: "The awaited thing ended in error.",
    428: "The version of the object is lacking.",
    429: "The token has too many streams, or writes and calls, under way here; nothing was written.",
    503: "ZooKeeper does not answer; nothing was written.",
    504: "The deadline has passed.",
}

#: The keys of a call beside the fields of its operation (``operations.wire.lines.CallBody``).
_CALL: Final[Mapping[str, Any]] = {
    "reason": {"type": ["string", "null"], "description": "For the journal."},
    "dry_run": {"type": "boolean", "default": False},
    "agreed": {
        "type": "boolean",
        "default": False,
        "description": "To the irreversible change that it asks agreement for.",
    },
    "save": {"type": "boolean", "default": False, "description": "Answer the dry run with a plan."},
    "plan": {
        "anyOf": [{"$ref": _REF.format(name="SavedPlan")}, {"type": "null"}],
        "description": "It is carried out, or refused if a record has moved; `fields` is left out.",
    },
    "deadline_seconds": {
        "type": ["number", "null"],
        "minimum": SHORTEST_DEADLINE_SECONDS,
        "maximum": LONGEST_DEADLINE_SECONDS,
    },
}


@cache
def openapi_json() -> bytes:
    """The document as JSON."""
    return msgspec.json.format(msgspec.json.encode(openapi()))


def openapi() -> dict[str, Any]:
    """The document."""
    _, schemas = msgspec.json.schema_components([*OPERATIONS.values(), Problem, SavedPlan], ref_template=_REF)
    found: dict[str, dict[str, Any]] = {}
    for row in ROUTES:
        for path in (row.path, row.one):
            if path is not None:
                found.setdefault(path, {})[row.method.lower()] = _described(row, path)
    for name, kind in OPERATIONS.items():
        found[f"/v1/operations/{name}"] = {"post": _call(name, kind)}
    found[EVENTS_PATH] = {"get": _events()}
    found[PICTURE_PATH] = {"get": _picture()}
    for path in (RUN_LOG_PATH, BUILD_LOG_PATH):
        found[path], found[f"{path}/seen"] = {"get": _log(path)}, {"get": _seen(path)}
    for path, method, item in foreign.described(REFUSALS):
        found.setdefault(path, {})[method] = item
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "nodepool-ocb",
            "version": version("nodepool-ocb"),
            "description": "docs/api.md explains the rules. Each path with GET has HEAD, too, except /v1/events.",
        },
        "security": [{"token": []}],
        "paths": found,
        "components": {
            "schemas": schemas,
            "responses": {str(status): _refusal(text) for status, text in REFUSALS.items()},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _events() -> dict[str, Any]:
    values = {"type": "array", "items": {"type": "string"}}
    query = [{"name": name, "in": "query", "schema": values} for name in FIELDS[:-1]]
    return {
        "operationId": "event-stream",
        "summary": "Entries of the journal and changes of records, as server-sent events.",
        "description": "Right: viewer. docs/api.md has the events.",
        "tags": ["events"],
        "parameters": [
            *query,
            {"name": FIELDS[-1], "in": "query", "schema": {"type": "string"}},
            {"name": "Last-Event-ID", "in": "header", "schema": {"type": "string"}},
        ],
        "responses": _responses({MEDIA_TYPE: {"schema": {"type": "string"}}}),
    }


def _picture() -> dict[str, Any]:
    responses = _responses({"application/json": {"schema": {"type": "object"}}})
    responses["304"] = {"description": "The document has the version that the client knows."}
    header = {"in": "header", "schema": {"type": "string"}}
    return {
        "operationId": "graph-picture",
        "summary": "Roles with the states of their noderoles, or the neighbourhood of one, with a drawing.",
        "description": "Right: viewer.",
        "tags": ["graph"],
        "parameters": [
            *_query(msgspec.structs.fields(PictureQuery)),
            {"name": "If-None-Match", **header},
            {"name": "Ocb-Min-Zxid", **header},
        ],
        "responses": responses,
    }


def _log(path: str) -> dict[str, Any]:
    """A part of a log, by its offset."""
    content = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
    described = _of_log(path, "log", "A part of a log, by its offset.", content)
    described["parameters"] += _query(msgspec.structs.fields(LogQuery))
    refusal = _refusal("The log is shorter than the offset.")
    described["responses"] |= {"416": refusal}
    return described


def _seen(path: str) -> dict[str, Any]:
    content = {"application/json": {"schema": {"type": "object"}}}
    return _of_log(path, "log-seen", "The state of a run or build with a log, and where the log is.", content)


def _of_log(path: str, name: str, summary: str, content: dict[str, Any]) -> dict[str, Any]:
    named = parameters(path)
    return {
        "operationId": f"{named[0]}-{named[1]}-{name}",
        "summary": summary,
        "description": "Right: viewer.",
        "tags": ["logs"],
        "parameters": [_in_path(each) for each in named],
        "responses": _responses(content),
    }


def _call(name: str, kind: type[Operation[Any]]) -> dict[str, Any]:
    body = {
        "type": "object",
        "properties": {"fields": {"$ref": _REF.format(name=kind.__name__)}, **_CALL},
        "additionalProperties": False,
    }
    return {
        "operationId": f"call-{name.replace('/', '-')}",
        "summary": _summary(kind),
        "tags": ["operations"],
        "requestBody": {"required": True, "content": {"application/json": {"schema": body}}},
        "parameters": _headers(kind, None),
        "responses": _responses({"application/x-ndjson": {"schema": {"type": "string"}}}),
    }


def _described(row: Route, path: str) -> dict[str, Any]:
    kind = OPERATIONS[row.operation]
    named = parameters(path)
    taken = filled(row, kind, dict.fromkeys(named, ""))
    rest = [each for each in msgspec.structs.fields(kind) if each.name not in taken]
    described: dict[str, Any] = {
        "operationId": f"{row.operation.replace('/', '-')}{'-one' if path == row.one else ''}",
        "summary": _summary(kind),
        "description": f"Right: {kind.right}.",
        "tags": [kind.noun],
        "parameters": [*(_in_path(each) for each in named), *_headers(kind, row)],
        "responses": _responses({"application/json": {"schema": _answer(kind)}}, row),
    }
    options = {each.name for each in msgspec.structs.fields(QueryOptions)} - {each.name for each in rest} - {*taken}
    wanted = options - (set() if begins(kind) else {"wait"}) if kind.writes else {"deadline_seconds"}
    described["parameters"] += _query(each for each in msgspec.structs.fields(QueryOptions) if each.name in wanted)
    if row.key:
        described["parameters"] += _query(msgspec.structs.fields(PageOptions))
    if row.method == "GET":
        described["parameters"] += _query(rest)
    else:
        described["requestBody"] = {
            "required": any(each.required for each in rest), "content": {"application/json": {"schema": _body(kind, rest)}}
        }  # fmt: skip
    return described


def _summary(kind: type[Operation[Any]]) -> str:
    return (inspect.getdoc(kind) or kind.title()).partition("\n")[0].replace("``", "`")


def _in_path(name: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}


def _headers(kind: type[Operation[Any]], row: Route | None) -> list[dict[str, Any]]:
    names = ["If-Match"] if kind.writes else ["Ocb-Min-Zxid"]
    names += ["If-None-Match"] if row is not None and (row.creates or (row.records and not kind.writes)) else []
    return [{"name": name, "in": "header", "schema": {"type": "string"}} for name in names]


def _query(fields: Iterable[Any]) -> list[dict[str, Any]]:
    made = []
    for each in fields:
        (schema,), _ = msgspec.json.schema_components([each.type], ref_template=_REF)
        made.append({"name": each.encode_name, "in": "query", "required": each.required, "schema": _flat(schema)})
    return made


def _flat(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of a part of a query, which has no null: the part is left out instead."""
    choices = [each for each in schema.get("anyOf", ()) if each != {"type": "null"}]
    return choices[0] if len(choices) == 1 else schema


def _body(kind: type[Operation[Any]], rest: Iterable[Any]) -> dict[str, Any]:
    rest = list(rest)
    schemas, _ = msgspec.json.schema_components([each.type for each in rest], ref_template=_REF)
    return {
        "type": "object",
        "title": kind.__name__,
        "properties": {each.encode_name: schema for each, schema in zip(rest, schemas, strict=True)},
        "required": [each.encode_name for each in rest if each.required],
        "additionalProperties": False,
    }


def _answer(kind: type[Operation[Any]]) -> dict[str, Any]:
    properties: dict[str, Any] = {
        "answer": {"description": "The document of the operation, with the keys that `-o json` prints."},
        "answers": {"type": "array", "description": "Instead of `answer`, if the operation has several rounds."},
        "notes": {"type": "array", "items": {"type": "string"}},
    }
    if kind.writes:
        properties |= {"dry_run": {"type": "boolean"}, "rows": {"type": "array", "items": {"type": "object"}}}
    if begins(kind):
        properties |= {
            "outcome": {"type": "string", "description": "With `wait`: the end of the work."},
            "document": {"description": "With `wait`: the final document."},
            "error": {"$ref": _REF.format(name="Problem")},
        }
    return {"type": "object", "properties": properties, "required": ["notes"]}


def _responses(content: dict[str, Any], row: Route | None = None) -> dict[str, Any]:
    state = {name: {"schema": {"type": "string"}} for name in ("Ocb-Cluster", "Ocb-Zxid", "Ocb-Age")}
    made: dict[str, Any] = {"200": {"description": "Performed.", "headers": state, "content": content}}
    if row is not None and begins(OPERATIONS[row.operation]):
        place = {"Location": {"schema": {"type": "string"}, "description": "The object that shows the work."}}
        made["202"] = {
            "description": "Performed; the work that it began goes on.", "headers": state | place, "content": content
        }  # fmt: skip
    if row is not None and row.records is not None and row.method == "GET":
        made["304"] = {"description": "The document has the version that the client knows."}
    return made | {str(status): {"$ref": f"#/components/responses/{status}"} for status in REFUSALS}


def _refusal(text: str) -> dict[str, Any]:
    """A refusal, to which each route refers."""
    schema = {"$ref": _REF.format(name="Problem")}
    return {"description": text, "content": {"application/problem+json": {"schema": schema}}}
