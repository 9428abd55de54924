"""The routes of the page's sign-in at the issuer: it begins with a request of the page, and ends with the way back.

A refusal on the way back leads to the page, with the code of the error; the log has its sentence.
"""

from __future__ import annotations

import logging
from typing import Any, Final, Literal

import msgspec
from litestar import Request, Response, route
from litestar.datastructures import Cookie

from nodepool_ocb.api import hosts, logins
from nodepool_ocb.api.requests import Desk
from nodepool_ocb.errors import NotFound, OcbError
from nodepool_ocb.operations.wire.problems import problem_of

log = logging.getLogger(__name__)

SIGN_IN: Final = "/v1/session/oidc"
WAY_BACK: Final = f"{SIGN_IN}/callback"
NONE: Final = "this server has no sign-in by OpenID Connect; sign in with a token"


def handlers(desk: Desk) -> list[Any]:
    """Both routes."""
    return [_begin(desk), _end(desk)]


def _begin(desk: Desk) -> Any:
    @route(SIGN_IN, http_method=["POST"], status_code=200)
    async def begin(request: Request[Any, Any, Any]) -> Response[Any]:
        """The address at the issuer. Raises NotFound without an issuer, and Unavailable while it is away."""
        hosts.require_host(request.headers.get("host"), desk.known_hosts())
        hosts.require_own_page(request.method, request.headers)
        people = desk.people()
        if people is None:
            raise NotFound(NONE)
        from nodepool_ocb.api.oidc.people import FLOW_SECONDS, BegunSignIn

        begun, back, secure = BegunSignIn.new(), _way_back(desk, request), desk.secure(request)
        address = await desk.run(lambda: people.address(begun, back), desk.deadline(), people.threads)
        answer = Response(msgspec.json.encode({"address": address}), media_type="application/json")
        answer.cookies = [_cookie(logins.FLOW_COOKIE, begun.cookie, "lax", FLOW_SECONDS, secure)]
        return answer

    return begin


def _end(desk: Desk) -> Any:
    @route(WAY_BACK, http_method=["GET"], status_code=303)
    async def end(request: Request[Any, Any, Any]) -> Response[Any]:
        """To the page, with a session or with the code of a fault."""
        hosts.require_host(request.headers.get("host"), desk.known_hosts())
        secure = desk.secure(request)
        cookies, place = [_cookie(logins.FLOW_COOKIE, "", "lax", 0, secure)], "/"
        try:
            text = await _signed_in(desk, request)
            cookies.append(_cookie(logins.COOKIE, text, "strict", None, secure))
        except OcbError as error:
            found = problem_of(error)
            log.warning("a sign-in at the issuer failed: %s", found.detail)
            place = f"/#/signin?fault={found.code}"
        return Response(None, status_code=303, headers={"Location": place}, cookies=cookies)

    return end


async def _signed_in(desk: Desk, request: Request[Any, Any, Any]) -> str:
    people = desk.people()
    if people is None:
        raise NotFound(NONE)
    from nodepool_ocb.api.oidc.people import BegunSignIn

    begun = BegunSignIn.of_cookie(logins.of_flow(request.headers.get("cookie"), secure=desk.secure(request)))
    query, back, now = dict(request.query_params), _way_back(desk, request), desk.records.now()
    return await desk.run(lambda: people.signed_in(begun, query, back, now), desk.deadline(), people.threads)


def _cookie(name: str, text: str, site: Literal["lax", "strict"], seconds: int | None, secure: bool) -> Cookie:
    """``lax``: the browser sends it on the way back from the issuer, which is another site."""
    key = f"{logins.SECURE_PREFIX}{name}" if secure else name
    return Cookie(key=key, value=text, path="/", httponly=True, samesite=site, max_age=seconds, secure=secure)


def _way_back(desk: Desk, request: Request[Any, Any, Any]) -> str:
    """The address to which the issuer sends the browser; the issuer knows it."""
    oidc = desk.records.settings.api.oidc
    url = oidc.url if oidc is not None else None
    scheme = "https" if desk.secure(request) else "http"
    own = url or f"{scheme}://{request.headers.get('host')}"
    return f"{own.rstrip('/')}{WAY_BACK}"
