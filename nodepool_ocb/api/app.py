"""The ASGI application: every route, the answers of errors, and the headers of each answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec
from litestar import Litestar, Request, Response, route
from litestar.exceptions import HTTPException

from nodepool_ocb.api import calls, documents, requests, resources
from nodepool_ocb.api.actor import CLOSES
from nodepool_ocb.api.foreign import fuel, nodepool
from nodepool_ocb.api.page import serving
from nodepool_ocb.api.records import ServedRecords
from nodepool_ocb.api.requests import Desk
from nodepool_ocb.api.routes import BUILD_LOG_PATH, EVENTS_PATH, ROUTES, RUN_LOG_PATH, Route, placed
from nodepool_ocb.api.streams import events as streams
from nodepool_ocb.api.streams.logs import LogDesk
from nodepool_ocb.errors import OcbError, OutcomeUnknown
from nodepool_ocb.operations.wire.problems import problem_of
from nodepool_ocb.telemetry import metrics

#: Of each answer: it is data, and no page may frame, run or keep it.
SAFE: Final = {
    "x-content-type-options": "nosniff",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}


def application(records: ServedRecords) -> Any:
    """The application over these records."""
    desk = Desk(records)
    app = Litestar(
        route_handlers=[
            _operations(desk), _events(desk), *_logs(desk), _openapi(), *_rest(desk), *serving.handlers(desk),
            *fuel.handlers(desk), *nodepool.handlers(desk),
        ],
        exception_handlers={
            OcbError: requests.of_error, HTTPException: requests.of_http, Exception: requests.of_bug
        },
        openapi_config=None,
        logging_config=None,
        request_max_body_size=records.settings.api.body_bytes,
    )  # fmt: skip
    return _stamped(app, records)


def _operations(desk: Desk) -> Any:
    @route("/v1/operations/{name:path}", http_method=["POST"], status_code=200)
    async def operations(request: Request[Any, Any, Any]) -> Response[Any]:
        return await calls.call(desk, request)

    return operations


def _events(desk: Desk) -> Any:
    @route(EVENTS_PATH, http_method=["GET"], status_code=200)
    async def events(request: Request[Any, Any, Any]) -> Response[Any]:
        return await streams.events(desk, request)

    return events


def _logs(desk: Desk) -> list[Any]:
    logs = LogDesk(desk)
    ways = ((RUN_LOG_PATH, logs.run_log), (BUILD_LOG_PATH, logs.build_log))
    return [_log(path + more, answer, bool(more)) for path, answer in ways for more in ("", "/seen")]


def _log(path: str, answer: Callable[..., Awaitable[Response[Any]]], seen: bool) -> Any:
    @route(placed(path), http_method=["GET"], status_code=200)
    async def log(request: Request[Any, Any, Any]) -> Response[Any]:
        return await answer(request, seen=seen)

    return log


def _openapi() -> Any:
    @route("/openapi.json", http_method=["GET"], status_code=200)
    async def openapi() -> Response[bytes]:
        return Response(documents.openapi_json(), media_type="application/json")

    return openapi


def _rest(desk: Desk) -> list[Any]:
    places = [(row, path) for row in ROUTES for path in (row.path, row.one) if path is not None]
    return [_handler(desk, row, path) for row, path in places]


def _handler(desk: Desk, row: Route, path: str) -> Any:
    kind = calls.OPERATIONS[row.operation]

    @route(placed(path), http_method=[row.method], status_code=200)  # type: ignore[list-item]
    async def handle(request: Request[Any, Any, Any]) -> Response[Any]:
        return await resources.answer(desk, request, row, kind, path)

    return handle


Send = Callable[[dict[str, Any]], Awaitable[None]]


def _stamped(app: Any, records: ServedRecords) -> Any:
    """The application with the state of ZooKeeper in the headers of each answer, and its time in the metrics."""

    async def stamped(scope: Any, receive: Any, send: Send) -> None:
        began, answered = time.monotonic(), False

        async def stamp(message: dict[str, Any]) -> None:
            nonlocal answered
            if message["type"] == "http.response.start":
                answered = True
                metrics.API_REQUESTS.labels(str(message["status"])).inc()
                metrics.API_SECONDS.observe(time.monotonic() - began)
                closing = [(b"connection", b"close")] if scope["state"].get(CLOSES) else []
                message = {**message, "headers": [*_headers(message["headers"], records), *closing]}
            await send(message)

        try:
            await app(_as_get(scope), receive, stamp)
        except asyncio.CancelledError:  # this server ends
            if not answered:
                for message in _cut():
                    await stamp(message)
            raise

    return stamped


def _as_get(scope: Any) -> Any:
    """A HEAD as a GET: uvicorn leaves the body out. A stream of events has no end, so its path has no HEAD."""
    if scope.get("method") != "HEAD" or scope["path"] == EVENTS_PATH:
        return scope
    return {**scope, "method": "GET"}


def _cut() -> tuple[dict[str, Any], ...]:
    """The answer to a request that the end of the server cuts: a client sends it again, to any server."""
    problem = problem_of(
        OutcomeUnknown("this server ends, and the request was cut; a write may still happen; send the request again")
    )
    body = msgspec.json.encode(problem)
    headers = {"content-type": requests.PROBLEM, "content-length": str(len(body)), "retry-after": "1"}
    return (
        {
            "type": "http.response.start",
            "status": problem.status,
            "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        },
        {"type": "http.response.body", "body": body},
    )


def _headers(given: Any, records: ServedRecords) -> list[tuple[bytes, bytes]]:
    state = {"ocb-cluster": records.cluster, "ocb-zxid": str(records.zxid), "ocb-age": f"{records.age_seconds:.3f}"}
    there = {bytes(name).lower() for name, _ in given}
    more = ((name.encode(), value.encode()) for name, value in (SAFE | state).items())
    return [*given, *((name, value) for name, value in more if name not in there)]
