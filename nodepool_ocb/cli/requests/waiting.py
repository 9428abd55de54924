"""Waiting for a request: ``request create --wait``."""

from __future__ import annotations

import time

from nodepool_ocb.cli.kit import output
from nodepool_ocb.cli.kit.performing import performer
from nodepool_ocb.cli.pictures import waits
from nodepool_ocb.errors import OcbError, TimedOut
from nodepool_ocb.operations.requests import watching
from nodepool_ocb.operations.requests.watching import RequestSeen
from nodepool_ocb.views.pools import RequestWait

LEASE_COLUMNS = ("name", "state", "labels", "provider", "address", "port", "user")


def wait(id: str, timeout_seconds: float | None) -> None:
    """Wait until the request is fulfilled, and print it with its nodes: one document.

    Raises InError (failed), NotFound (deleted), or TimedOut; the request stays.
    """
    deadline = None if timeout_seconds is None else time.monotonic() + timeout_seconds
    last: RequestSeen | None = None
    ended: OcbError | None = None
    said = ""
    try:
        with waits.going_on(f"request {id}", lambda: f"request show {id}"):
            for seen in watching.request(performer(), id, deadline):
                last = seen
                if seen.over:
                    ended = seen.error(id)
                    break
                said = _tell(id, seen, said)
    except TimedOut:
        passed = f"request {id} was not fulfilled within {timeout_seconds or 0.0:g} s, and stays"
        ended = TimedOut(f"{passed}; see: nodepool-ocb request show {id}")
    if last is not None and last.document is not None:
        row, leases = last.document.row, last.document.launched
        document = RequestWait(outcome=str(last.state) if last.over else None, request=row, leases=leases)
        tables = [output.table([row], ("name", "state", "labels", "nodes"))]
        if leases:
            tables.append(output.table(leases, LEASE_COLUMNS))
        output.thing(document, id, *tables)
    if ended is not None:
        raise ended


def _tell(id: str, seen: RequestSeen, said: str) -> str:
    """Say why it waits, unless that was said before; gives the sentence."""
    row = None if seen.document is None else seen.document.row
    sentence = f"request {id} waits" + (f": {row.reason}" if row is not None and row.reason else "")
    if sentence != said:
        output.say(sentence)
    return sentence
