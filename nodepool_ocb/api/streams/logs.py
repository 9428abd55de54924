"""Logs of runs and builds by byte offset, from the daemon that has them.

``GET .../log?offset=N&wait=S`` gives at most 256 KiB from byte N; a negative N counts from the end. If there is no byte beyond N
yet, the answer waits for one, S seconds at most. A client that asks again at the offset that it has reached, here or at another
server, misses nothing and gets nothing twice. ``.../log/seen`` tells of the run or build, and where its log is.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any, Final

import msgspec
from litestar import Request, Response

from nodepool_ocb.api.actor import Actor, require_right
from nodepool_ocb.api.asking import query_of
from nodepool_ocb.api.performing import OperationOrder, perform
from nodepool_ocb.api.requests import Desk, problem
from nodepool_ocb.errors import Unavailable
from nodepool_ocb.operations.buildlogs import BuildLogSeen, LogOfBuild
from nodepool_ocb.operations.images.logs import ImageLog
from nodepool_ocb.operations.logparts import Found, LogPart, MissingLog, Shorter
from nodepool_ocb.operations.logs import AskedLog
from nodepool_ocb.operations.noderoles.logs import NoderoleLog
from nodepool_ocb.operations.operation import Operation
from nodepool_ocb.operations.runlogs import RunLog, RunLogSeen
from nodepool_ocb.operations.wire.codec import encode_answer
from nodepool_ocb.operations.wire.problems import Problem

THREADS: Final = 64
WAITING: Final = 32  # requests that wait for more at a time; others are answered at once
LONGEST_WAIT_SECONDS: Final = 20.0
MOST_OFFSET: Final = 10**15


class LogQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The part of a log that is asked for."""

    offset: Annotated[int, msgspec.Meta(ge=-MOST_OFFSET, le=MOST_OFFSET)] = 0
    wait: Annotated[float, msgspec.Meta(ge=0.0, le=LONGEST_WAIT_SECONDS)] = 0.0  # seconds


class LogDesk:
    """The threads on which daemons are asked: others than those of operations, for they wait."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="api-logs")
        self._waiting = threading.BoundedSemaphore(WAITING)

    async def run_log(self, request: Request[Any, Any, Any], *, seen: bool) -> Response[Any]:
        """The handler for the log of a run."""
        named = request.path_params
        operation = NoderoleLog(noderole=named["of_noderole"], run=named["of_run"])

        def find(actor: Actor) -> RunLog:
            return RunLog(self.desk.records.session, self._chosen(actor, operation), None, files=False)

        return await self._answered(request, NoderoleLog, find, seen)

    async def build_log(self, request: Request[Any, Any, Any], *, seen: bool) -> Response[Any]:
        """The handler for the log of a build."""
        named = request.path_params
        operation = ImageLog(image=named["of_image"], build=named["of_build"])

        def find(actor: Actor) -> LogOfBuild:
            return LogOfBuild(self.desk.records.session, self._chosen(actor, operation), files=False)

        return await self._answered(request, ImageLog, find, seen)

    def _chosen(self, actor: Actor, operation: Operation[Any]) -> Any:
        """The run or build. Raises NotFound, also for one outside the limits of the token, and Denied."""
        order = OperationOrder(operation=operation, deadline=self.desk.deadline())
        return perform(self.desk.records, actor, order, lambda _: None).performed.answers[0]

    async def _answered(
        self,
        request: Request[Any, Any, Any],
        kind: type[Operation[Any]],
        find: Callable[[Actor], RunLog | LogOfBuild],
        seen: bool,
    ) -> Response[Any]:
        actor = await self.desk.actor(request)
        require_right(actor, kind)
        query = query_of(request, LogQuery, "a log")

        def ask() -> Response[Any]:
            log = find(actor)
            if not log.looked:
                raise Unavailable("ZooKeeper does not answer this server, which cannot find the log; try again")
            return _seen(log) if seen else self._part(log, query)

        return await self.desk.run(ask, self.desk.deadline(), self._threads)

    def _part(self, log: AskedLog, query: LogQuery) -> Response[Any]:
        waits = query.wait > 0 and self._waiting.acquire(blocking=False)
        try:
            place, found = log.ask(query.offset, query.wait if waits else 0.0)
        finally:
            if waits:
                self._waiting.release()
        return _part(place, found)


def _seen(log: RunLog | LogOfBuild) -> Response[Any]:
    if isinstance(log, RunLog):
        found: Any = RunLogSeen(log.places, log.seen)
    else:
        found = BuildLogSeen(log.places, log.build, log.state)
    return Response(encode_answer(found), status_code=200, media_type="application/json")


def _part(place: str, found: Found) -> Response[Any]:
    if isinstance(found, LogPart):
        headers = {"Log-Offset": str(found.offset), "Log-Size": str(found.size), "Log-Ended": _word(found.ended)}
        headers["Log-Place"] = place
        return Response(found.data, status_code=200, media_type="application/octet-stream", headers=headers)
    if isinstance(found, Shorter):
        detail = (
            f"the log has {found.size} bytes, and the offset is beyond them. If this log had them before, its host lost its end,"
            " or another daemon begins it anew: ask from offset 0"
        )
        return _refused(
            Problem(code="log-shorter", status=416, detail=detail, error="Invalid"), {"Log-Size": str(found.size)}
        )
    if isinstance(found, MissingLog):
        detail = "nothing was printed, or the log was removed" if found.ended else "nothing has been printed yet"
        return _refused(
            Problem(code="no-log", status=404, detail=detail, error="NotFound"), {"Log-Ended": _word(found.ended)}
        )
    raise Unavailable(found.reason or "no daemon could be asked for this log")


def _refused(refusal: Problem, headers: dict[str, str]) -> Response[Any]:
    made = problem(refusal)
    made.headers.update(headers)
    return made


def _word(ended: bool) -> str:
    return "yes" if ended else "no"
