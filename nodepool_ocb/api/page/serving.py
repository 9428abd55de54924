"""The routes of the page: its files, the session (sign in, look, sign out), and the picture of a graph.

A session is the token itself in a cookie that no script reads, so any server knows it, and a revoked token ends it.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from litestar import Request, Response, route

from nodepool_ocb.api import hosts, logins
from nodepool_ocb.api.actor import CERTIFICATE, OF_MACHINES, Actor
from nodepool_ocb.api.page import files, picture, signing_in
from nodepool_ocb.api.requests import Desk, body_of
from nodepool_ocb.errors import Denied, Invalid, NotFound, Unauthorized

SESSION: Final = "/v1/session"


class SignIn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of ``POST /v1/session``."""

    token: str


class PageSession(msgspec.Struct, frozen=True, kw_only=True):
    """The holder of the token of a session."""

    name: str | None = None  # None: no person is signed in
    role: str | None = None
    deployments: tuple[str, ...] = ()
    selector: str | None = None
    expires: float | None = None
    oidc: bool = False  # whether a person may sign in at an issuer


def handlers(desk: Desk) -> list[Any]:
    """All routes of the page."""
    own = [_index(desk), _file(desk), _look(desk), _sign_in(desk), _sign_out(desk), picture.handler(desk)]
    return [*own, *signing_in.handlers(desk)]


def _index(desk: Desk) -> Any:
    @route("/", http_method=["GET"], status_code=200)
    async def index(request: Request[Any, Any, Any]) -> Response[Any]:
        return _served(desk, request, files.INDEX)

    return index


def _file(desk: Desk) -> Any:
    @route("/page/{name:str}", http_method=["GET"], status_code=200)
    async def file(request: Request[Any, Any, Any]) -> Response[Any]:
        return _served(desk, request, str(request.path_params["name"]))

    return file


def _served(desk: Desk, request: Request[Any, Any, Any], name: str) -> Response[Any]:
    """Raises NotFound, Invalid for a foreign Host, and Unauthorized for a token in the address."""
    hosts.require_host(request.headers.get("host"), desk.known_hosts())
    logins.require_no_token_in(request.url.query)
    found = files.all_files().get(name)
    if found is None:
        raise NotFound("the page has no file of this name")
    headers = {**files.HEADERS, "ETag": found.etag}
    if request.headers.get("if-none-match") == found.etag:
        return Response(None, status_code=304, headers=headers)
    return Response(found.content, media_type=found.media_type, headers=headers)


# -- sessions --


def _look(desk: Desk) -> Any:
    @route(SESSION, http_method=["GET"], status_code=200)
    async def look(request: Request[Any, Any, Any]) -> Response[Any]:
        """An ended session is none, and its cookie is removed: a page that begins is not at fault."""
        logins.require_no_token_in(request.url.query)
        known = desk.records.settings.api.open_reads or request.scope["state"].get(CERTIFICATE) is not None
        if not known and not {"authorization", "cookie"} & {*request.headers}:
            return _answer(PageSession(oidc=desk.records.settings.api.oidc is not None))
        try:
            return _described(await desk.actor(request))
        except Unauthorized:
            return _with_cookie(
                _answer(PageSession(oidc=desk.records.settings.api.oidc is not None)),
                logins.cookie("", secure=desk.secure(request)),
            )

    return look


def _sign_in(desk: Desk) -> Any:
    @route(SESSION, http_method=["POST"], status_code=200)
    async def sign_in(request: Request[Any, Any, Any]) -> Response[Any]:
        hosts.require_own_page(request.method, request.headers)
        text = _token_of(await body_of(request))
        actor = await desk.actor_of(request, lambda: logins.parted(text))
        if actor.token.role in OF_MACHINES:
            raise Denied(
                f"token {actor.id} has role {actor.token.role}, which is for machines; sign in with another one"
            )
        return _described(actor, logins.cookie(text, secure=desk.secure(request)))

    return sign_in


def _sign_out(desk: Desk) -> Any:
    @route(SESSION, http_method=["DELETE"], status_code=200)
    async def sign_out(request: Request[Any, Any, Any]) -> Response[Any]:
        hosts.require_host(request.headers.get("host"), desk.known_hosts())
        hosts.require_own_page(request.method, request.headers)
        answer = Response(b"{}", media_type="application/json")
        return _with_cookie(answer, logins.cookie("", secure=desk.secure(request)))

    return sign_out


def _token_of(data: bytes) -> str:
    """Raises Invalid; no message repeats the body."""
    try:
        return msgspec.json.decode(data, type=SignIn).token.strip()
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        raise Invalid('the body must be {"token": "..."}') from None


def _described(actor: Actor, cookie: str | None = None) -> Response[Any]:
    token = actor.token
    found = PageSession(
        name=token.name,
        role=token.role,
        deployments=token.deployments,
        selector=token.selector,
        expires=token.expires,
    )
    answer = _answer(found)
    return answer if cookie is None else _with_cookie(answer, cookie)


def _answer(found: PageSession) -> Response[Any]:
    return Response(msgspec.json.encode(found), media_type="application/json")


def _with_cookie(answer: Response[Any], cookie: str) -> Response[Any]:
    answer.headers["Set-Cookie"] = cookie
    return answer
