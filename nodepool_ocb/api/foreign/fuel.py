"""Fuel's paths: the task lists of clusters and releases, as Nailgun served them, and the login of its client.

A cluster is a deployment, a release one with a task list; ``api.fuel`` gives names for numbers. A PUT replaces the cluster's or
the release's own list, without a version, and is read as Fuel read it. Errors have Nailgun's ``message`` beside the problem.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import msgspec
from litestar import Request, Response, route
from litestar.exceptions import HTTPException
from msgspec.structs import replace

from nodepool_ocb.api import hosts, logins
from nodepool_ocb.api.actor import Actor, require_right
from nodepool_ocb.api.performing import OperationOrder, perform
from nodepool_ocb.api.requests import Desk, body_of
from nodepool_ocb.errors import Invalid, NotFound, OcbError
from nodepool_ocb.model.records import Json
from nodepool_ocb.operations.operation import Operation
from nodepool_ocb.operations.tasks.files import ListFiles
from nodepool_ocb.operations.tasks.lists import TasksDownload, TasksList
from nodepool_ocb.operations.tasks.storing import TasksUpload
from nodepool_ocb.operations.wire.problems import Problem, problem_of
from nodepool_ocb.views.foreign import fuel as entries
from nodepool_ocb.views.foreign.fuel import Entry, ListPart

ROOTS: Final = ("", "/api", "/api/v1")  # before a path: as the specification writes it, and as Fuel's clients send it
CLUSTER: Final = "/clusters/{of_cluster:str}/deployment_tasks"
RELEASE: Final = "/releases/{of_release:str}/deployment_tasks"
KEYSTONE: Final = "/keystone/v2.0/tokens"
VERSIONS: Final = ("/api/version", "/api/v1/version")
DEFAULT_GRAPH: Final = "default"
BAD_REQUEST: Final = 400

_LIST: Final = msgspec.json.Decoder(list[dict[str, Json]])

Answer = Callable[[Request[Any, Any, Any]], Awaitable[Response[Any]]]


class _Credentials(msgspec.Struct, frozen=True):
    password: str


class _Known(msgspec.Struct, frozen=True):
    id: str


class _Auth(msgspec.Struct, frozen=True, rename={"credentials": "passwordCredentials"}):
    credentials: _Credentials | None = None
    token: _Known | None = None  # a client that has logged in before sends this instead

    @property
    def text(self) -> str:
        """Our token; empty without one."""
        return self.credentials.password if self.credentials else self.token.id if self.token else ""


class _Login(msgspec.Struct, frozen=True):
    """The body of a login; the user and the tenant that a client also sends are not read."""

    auth: _Auth


def handlers(desk: Desk) -> list[Any]:
    """All routes of Fuel."""
    paths = FuelPaths(desk)
    return [
        _route(["GET"], VERSIONS, paths.version),
        _route(["POST"], [KEYSTONE], paths.log_in),
        _route(["GET"], [root + CLUSTER for root in ROOTS], paths.cluster),
        _route(["PUT"], [root + CLUSTER for root in ROOTS], paths.put_cluster),
        _route(["GET"], [f"{root}{CLUSTER}/{{level:str}}" for root in ROOTS], paths.level),
        _route(["GET"], [root + RELEASE for root in ROOTS], paths.release),
        _route(["PUT"], [root + RELEASE for root in ROOTS], paths.put_release),
    ]


def _route(methods: list[Any], paths: Any, answer: Answer) -> Any:
    @route(list(paths), http_method=methods, status_code=200)
    async def handle(request: Request[Any, Any, Any]) -> Response[Any]:
        try:
            return await answer(request)
        except OcbError as error:
            return _refused(problem_of(error))
        except HTTPException as error:
            status = error.status_code if BAD_REQUEST <= error.status_code < 500 else 500
            return _refused(Problem(code="refused", status=status, detail=str(error.detail), error="Invalid"))

    return handle


def _refused(found: Problem) -> Response[bytes]:
    """A refusal for Fuel's client, which prints ``message``; Nailgun answers 400 to each fault of the data."""
    if found.error == "Invalid":
        found = replace(found, status=BAD_REQUEST)
    body = {**msgspec.to_builtins(found), "message": found.detail, "errors": []}
    headers = {"WWW-Authenticate": 'Bearer realm="nodepool-ocb"'} if found.status == 401 else {}
    return Response(msgspec.json.encode(body), status_code=found.status, media_type="application/json", headers=headers)


class FuelPaths:
    """The answers of Fuel's paths."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk

    # -- the login of Fuel's client --

    async def version(self, request: Request[Any, Any, Any]) -> Response[Any]:
        """Fuel's client asks here whether it must log in."""
        hosts.require_host(request.headers.get("host"), self.desk.known_hosts())
        return _json({"api": "1.0", "auth_required": True, "feature_groups": []})

    async def log_in(self, request: Request[Any, Any, Any]) -> Response[Any]:
        """Keystone's answer to a login with a password, which is one of our tokens."""
        try:
            text = msgspec.json.decode(await body_of(request), type=_Login).auth.text.strip()
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            raise Invalid("the body must be a login of Keystone v2.0 with a password, which is a token") from None
        actor = await self.desk.actor_of(request, lambda: logins.parted(text))
        tenant = {"id": "admin", "name": "admin", "enabled": True}
        token = {"id": text, "expires": _time(actor.token.expires), "issued_at": _time(0.0), "tenant": tenant}
        user = {"id": actor.id, "name": actor.token.name, "username": actor.token.name, "roles": [], "roles_links": []}
        return _json({"access": {"token": token, "user": user, "serviceCatalog": [], "metadata": {}}})

    async def _actor(self, request: Request[Any, Any, Any]) -> Actor:
        """The holder of the token in X-Auth-Token, as Fuel's client sends it, or as on all other paths."""
        text = request.headers.get("x-auth-token")
        if not text or "authorization" in request.headers:
            return await self.desk.actor(request)
        logins.require_no_token_in(request.url.query)
        return await self.desk.actor_of(request, lambda: logins.parted(text.strip()))

    # -- task lists --

    async def cluster(self, request: Request[Any, Any, Any]) -> Response[Any]:
        """The list of a cluster with that of its release below it."""
        name = self._cluster(request)
        return await self._listed(request, TasksDownload(deployment=name, merged=True))

    async def release(self, request: Request[Any, Any, Any]) -> Response[Any]:
        """The list of a release."""
        return await self._listed(request, TasksDownload(release=self._release(request)))

    async def level(self, request: Request[Any, Any, Any]) -> Response[Any]:
        """One layer of the list of a cluster: its own, that of its release, or that of plugins, which is empty."""
        level, name = request.path_params["level"], self._cluster(request)
        if level == "own":
            return await self._listed(request, TasksDownload(deployment=name))
        if level not in ("release", "plugins"):
            raise NotFound(f"a list has no level {level[:100]}; ask for own, release or plugins")
        rows = await self._performed(await self._actor(request), TasksList())
        base = next((row.base for row in rows if row.kind == "deployment" and row.name == name), None)
        if level == "plugins" or base is None:
            return _json([])
        return await self._listed(request, TasksDownload(release=base))

    async def put_cluster(self, request: Request[Any, Any, Any]) -> Response[Any]:
        """Replace the own list of a cluster."""
        return await self._stored(request, TasksUpload(deployment=self._cluster(request)))

    async def put_release(self, request: Request[Any, Any, Any]) -> Response[Any]:
        """Replace the list of a release."""
        return await self._stored(request, TasksUpload(release=self._release(request)))

    async def _listed(self, request: Request[Any, Any, Any], operation: TasksDownload) -> Response[Any]:
        actor, query = await self._actor(request), request.query_params
        _require_default(query)
        part = ListPart(
            start=query.get("start") or query.get("start_task"),
            end=query.get("end") or query.get("end_task"),
            include=frozenset(query.getall("include", [])),
        )
        texts = await self._performed(actor, operation)
        lists = {name: text for name, text in texts.items() if name.endswith(entries.FILE)}
        return _json(await self.desk.run(lambda: _entries(lists, part), self.desk.deadline()))

    async def _stored(self, request: Request[Any, Any, Any], upload: TasksUpload) -> Response[Any]:
        actor = await self._actor(request)
        _require_default(request.query_params)
        try:
            listed = _LIST.decode(await body_of(request))
        except (msgspec.DecodeError, RecursionError, UnicodeError) as wrong:
            raise Invalid(f"the body is no JSON list of tasks: {wrong}") from wrong
        require_right(actor, TasksUpload)
        texts = await self.desk.run(lambda: entries.file_of(listed), self.desk.deadline())
        files = ListFiles(texts)
        await self._performed(actor, replace(upload, files=files, lenient=True, compat_prefix=True, force=True))
        return _json(listed)

    async def _performed(self, actor: Actor, operation: Operation[Any]) -> Any:
        require_right(actor, type(operation))
        order = OperationOrder(operation=operation, deadline=self.desk.deadline())
        found = await self.desk.run(lambda: perform(self.desk.records, actor, order, lambda _: None), order.deadline)
        return found.performed.answer

    def _cluster(self, request: Request[Any, Any, Any]) -> str:
        name = str(request.path_params["of_cluster"])
        return self.desk.records.settings.api.fuel.clusters.get(name, name)

    def _release(self, request: Request[Any, Any, Any]) -> str:
        name = str(request.path_params["of_release"])
        return self.desk.records.settings.api.fuel.releases.get(name, name)


def _entries(texts: Mapping[str, str], part: ListPart) -> list[Entry]:
    found = entries.entries_of(texts)
    return entries.part_of(found, part) if part else found


def _require_default(query: Mapping[str, str]) -> None:
    """Raises NotFound for another graph than the one that each list has."""
    if query.get("graph_type", DEFAULT_GRAPH) not in ("", DEFAULT_GRAPH):
        raise NotFound("a list has one graph; leave graph_type out")


def _time(seconds: float | None) -> str:
    """A time as Keystone writes it; without an end, one that no client sees."""
    from datetime import UTC, datetime

    never = datetime(9999, 12, 31, tzinfo=UTC)
    return (never if seconds is None else datetime.fromtimestamp(seconds, UTC)).strftime("%Y-%m-%dT%H:%M:%SZ")


def _json(value: Any) -> Response[bytes]:
    return Response(msgspec.json.encode(value), media_type="application/json")
