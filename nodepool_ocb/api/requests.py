"""The parts of a request that every route reads: its actor, its deadline, its versions; and the answer of an error."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec
from litestar import Request, Response
from litestar.exceptions import HTTPException
from msgspec.structs import replace

from nodepool_ocb.api import hosts, logins
from nodepool_ocb.api.actor import ANYONE, CERTIFICATE, CLOSES, KNOWN, Actor
from nodepool_ocb.api.memory.documents import KeptDocuments
from nodepool_ocb.api.memory.flights import Flights
from nodepool_ocb.api.memory.places import RequestPlace, RequestPlaces
from nodepool_ocb.api.memory.rates import Registering
from nodepool_ocb.api.records import ServedRecords
from nodepool_ocb.api.routes import EVENTS_PATH
from nodepool_ocb.errors import Invalid, OcbError, TimedOut, TooLarge, Unauthorized
from nodepool_ocb.model import tokens
from nodepool_ocb.operations import repeats
from nodepool_ocb.operations.joining.registering import RegistrationCreate, RegistrationPoll
from nodepool_ocb.operations.operation import Operation
from nodepool_ocb.operations.repeats import CallKey
from nodepool_ocb.operations.wire.problems import Problem, problem_of

if TYPE_CHECKING:
    from nodepool_ocb.api.oidc.people import OidcPeople

log = logging.getLogger(__name__)

PROBLEM: Final = "application/problem+json"
BODY_SECONDS: Final = 20.0  # that a client may take to send a body
SHORTEST_DEADLINE_SECONDS: Final = 1.0
LONGEST_DEADLINE_SECONDS: Final = 600.0
MOST_DIGITS: Final = 18
MOST_KEY_CHARACTERS: Final = 255

T = TypeVar("T")

#: Words for the statuses that the HTTP layer itself gives.
CODES: Final = {
    400: "bad-request", 404: "no-such-route", 405: "method-not-allowed", 413: "too-large", 415: "media-type",
}  # fmt: skip


class Desk:
    """What the handlers share: the records, the threads that perform, the failed logins, and the places of streams."""

    def __init__(self, records: ServedRecords) -> None:
        connections = records.settings.api.connections
        self.records = records
        self.places = RequestPlaces(connections, "streams of events")
        self.calls = RequestPlaces(connections, "writes and calls")
        self._registering = Registering()
        self.threads = ThreadPoolExecutor(records.settings.api.workers, thread_name_prefix="api")
        self.documents = KeptDocuments()
        self.flights: Flights[Any] = Flights()
        self._failed = logins.FailedLogins(connections // logins.SHARE)
        self._people: OidcPeople | None = None

    async def run(
        self,
        call: Callable[[], T],
        deadline: float,
        threads: ThreadPoolExecutor | None = None,
        place: RequestPlace | None = None,
    ) -> T:
        """The result of a call on a thread of its own. Raises TimedOut at the deadline (monotonic).

        The thread may go on after that; it shares the ``place`` until its end.
        """
        future = asyncio.get_running_loop().run_in_executor(threads or self.threads, call)
        if place is not None:
            future.add_done_callback(place.shared())
        try:
            return await asyncio.wait_for(asyncio.shield(future), max(0.0, deadline - time.monotonic()))
        except TimeoutError:
            future.add_done_callback(lambda done: done.cancelled() or done.exception())  # nobody waits for it any more
            raise TimedOut(
                "the deadline of this request has passed; a write may still happen; see: nodepool-ocb history"
            ) from None

    def take_write(self, actor: Actor, operation: Operation[Any]) -> RequestPlace:
        """A place for a write. Raises TooMany for an actor that has all of its places, and a machine that asks too often."""
        if isinstance(operation, RegistrationCreate):
            self._registering.take(actor.token.name, actor.address)
        elif isinstance(operation, RegistrationPoll):
            self._registering.poll(operation.mac, actor.address)
        return self.calls.take(actor.id)

    def deadline(self, seconds: float | None = None) -> float:
        """Monotonic. Raises Invalid."""
        if seconds is not None and not SHORTEST_DEADLINE_SECONDS <= seconds <= LONGEST_DEADLINE_SECONDS:
            raise Invalid(
                f"a deadline of {seconds:g} seconds: give {SHORTEST_DEADLINE_SECONDS:g} to {LONGEST_DEADLINE_SECONDS:g}"
            )
        return time.monotonic() + (seconds or self.records.settings.api.deadline_seconds)

    async def actor(self, request: Request[Any, Any, Any]) -> Actor:
        """The holder of the token, of the cookie of a session, or of a client certificate; raises the errors of ``actor_of``."""
        opened = self.records.settings.api.open_reads
        return await self.actor_of(request, lambda: _credential(request, self.secure(request), opened))

    async def actor_of(self, request: Request[Any, Any, Any], credential: Callable[[], tuple[str, str]]) -> Actor:
        """The holder of the token with this id and secret.

        Raises Unauthorized after a delay, Invalid or Denied for a foreign Host or Origin, Unavailable. The connection is not cut
        for another one from now on.
        """
        hosts.require_host(request.headers.get("host"), self.known_hosts())
        hosts.require_origin(request.headers.get("origin"), request.headers.get("host"))
        address = request.client.host if request.client is not None else "unknown"
        try:
            found = await self._holder(*credential(), address)
        except Unauthorized:
            request.scope["state"][CLOSES] = not await self._failed.delayed(address)
            raise
        request.scope["state"][KNOWN]()
        return found

    async def _holder(self, id: str, secret: str, address: str) -> Actor:
        """Raises Unauthorized, and the errors of ``_person``."""
        if id == logins.SIGNED:
            return await self._person(secret, address)
        if id == logins.ANYONE:
            return Actor(id=id, token=ANYONE, address=address)
        token = self.records.known_token(id, secret)
        if token is None:
            token = await self.run(lambda: self.records.valid_token(id, secret), self.deadline())
        if token is None:
            raise Unauthorized("this token is not valid: it is unknown, revoked or has ended; have another one made")
        if self.records.use_due(id):
            self.threads.submit(self.records.note_use, id)
        return Actor(id=id, token=token, address=address)

    async def _person(self, text: str, address: str) -> Actor:
        """The holder of a signed token. Raises Unauthorized, Denied, and Unavailable without the issuer's key."""
        people = self.people()
        if people is None:
            raise Unauthorized(f"this server takes no signed tokens; {logins.WANTED}")
        now = self.records.now()
        found = await self.run(lambda: people.person(text, now), self.deadline(), people.threads)
        return Actor(id=found.id, token=found.token, address=address, claims=found.claims)

    def people(self) -> OidcPeople | None:
        """The logins of the issuer that is configured now; None without one. The library is imported then, not before."""
        wanted = self.records.settings.api.oidc
        if wanted is None:
            return None
        if self._people is None or self._people.settings != wanted:
            from nodepool_ocb.api.oidc.people import OidcPeople

            self._people = OidcPeople(wanted)
        return self._people

    def still_valid(self, actor: Actor) -> bool:
        """Whether the token of an actor is still valid with the same rights. Raises Unavailable."""
        if actor.id == logins.ANYONE:
            return self.records.settings.api.open_reads
        if actor.claims is None:
            return self.records.still_valid(actor.id, actor.token)
        people = self.people()
        return people is not None and people.still(actor.token, actor.claims)

    def secure(self, request: Request[Any, Any, Any]) -> bool:
        """Whether the browser reaches this server by TLS, its own or that of a proxy."""
        api = self.records.settings.api
        reached = (request.headers.get("origin") or "", (api.oidc.url if api.oidc is not None else None) or "")
        return api.cert is not None or any(each.startswith("https://") for each in reached)

    def known_hosts(self) -> frozenset[str]:
        """The names by which this server is reached."""
        return frozenset(each.lower() for each in self.records.settings.api.hosts)


def _credential(request: Request[Any, Any, Any], secure: bool, opened: bool) -> tuple[str, str]:
    """The id and the secret. Raises Unauthorized, and Denied for a cookie that another site's page made a browser send.

    A browser sends a client certificate by itself, too: so another site's page must not use it. ``opened``: a request without any
    of them is one of ``ANYONE``.
    """
    logins.require_no_token_in(request.url.query)
    header = request.headers.get("authorization")
    session = logins.of_session(request.headers.get("cookie"), secure=secure) if header is None else None
    certificate = request.scope["state"].get(CERTIFICATE) if header is None and session is None else None
    if certificate is not None:
        hosts.require_own_program(request.method, request.headers)
        return tokens.of_certificate(certificate)
    if session is None:
        return (logins.ANYONE, "") if opened and header is None else logins.bearer(header)
    hosts.require_own_page(request.method, request.headers)
    return session


async def body_of(request: Request[Any, Any, Any]) -> bytes:
    """Raises TimedOut for a client that sends too slowly, TooLarge for one that sends too much."""
    try:
        async with asyncio.timeout(BODY_SECONDS):
            return await request.body()
    except TimeoutError:
        raise TimedOut(f"the body did not come within {BODY_SECONDS:g} seconds; send the request again") from None
    except HTTPException as refused:
        if refused.status_code == 413:
            raise TooLarge("the body is larger than api.body_bytes of the server allows") from None
        raise


def min_zxid(request: Request[Any, Any, Any]) -> int | None:
    """The zxid that a read must show. Raises Invalid."""
    text = request.headers.get("ocb-min-zxid")
    if text is None:
        return None
    if not text.isascii() or not text.isdecimal() or len(text) > MOST_DIGITS:
        raise Invalid("the header Ocb-Min-Zxid must be a zxid as an answer gave it: decimal digits")
    return int(text)


def call_key(
    request: Request[Any, Any, Any], actor: Actor, operation: Operation[Any], reason: str | None
) -> CallKey | None:
    """The key of a call that may be repeated, from the header Idempotency-Key. Raises Invalid."""
    text = request.headers.get("idempotency-key")
    if text is None:
        return None
    key = text.strip().strip('"')
    if not key or len(key) > MOST_KEY_CHARACTERS or not key.isascii() or not key.isprintable():
        raise Invalid(f"the header Idempotency-Key must have 1 to {MOST_KEY_CHARACTERS} printable ASCII characters")
    return repeats.call_key(actor.id, key, operation, reason)


def versions(header: str | None) -> tuple[str, ...]:
    """The versions in If-Match or If-None-Match.

    >>> versions('"a1", W/"b2"'), versions("*"), versions(None)
    (('a1', 'b2'), ('*',), ())
    """
    parts = (each.strip().removeprefix("W/").strip('"') for each in (header or "").split(","))
    return tuple(each for each in parts if each)


# -- errors --


def problem(found: Problem) -> Response[bytes]:
    """The answer of a request that was refused."""
    headers = {"WWW-Authenticate": 'Bearer realm="nodepool-ocb"'} if found.status == 401 else {}
    headers |= {"Retry-After": "1"} if found.status in (429, 503) else {}
    return Response(msgspec.json.encode(found), status_code=found.status, media_type=PROBLEM, headers=headers)


def of_error(_: Request[Any, Any, Any], error: OcbError) -> Response[bytes]:
    """The handler of errors of the project."""
    return problem(problem_of(error))


def of_http(request: Request[Any, Any, Any], error: HTTPException) -> Response[bytes]:
    """The handler of errors of the HTTP layer: no such path, another method, a body that is too large."""
    status = error.status_code if 400 <= error.status_code < 500 else 500
    allow = next((text for name, text in (error.headers or {}).items() if name.lower() == "allow"), None)
    if allow is not None and "GET" in allow and request.url.path != EVENTS_PATH:
        allow = f"{allow}, HEAD"
    detail = {
        404: "this server has no such path; GET /openapi.json lists all",
        405: f"this path has no {request.method[:20]}; it has {allow or 'others'}; GET /openapi.json lists all",
    }.get(status, str(error.detail))
    made = Problem(code=CODES.get(status, "refused"), status=status, detail=detail, error="Invalid")
    answer = problem(replace(made, error="NotFound") if status == 404 else made)
    return (
        answer
        if allow is None
        else Response(answer.content, status_code=status, media_type=PROBLEM, headers={"Allow": allow})
    )


def of_bug(request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
    """The handler of all other errors: the client hears nothing of them, and the log all."""
    log.error("%s %.200r failed", request.method, request.url.path, exc_info=error)
    detail = "this request failed by a fault of the server; its log says why"
    return problem(Problem(code="fault", status=500, detail=detail))
