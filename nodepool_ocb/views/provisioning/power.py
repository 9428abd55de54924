"""The power of machines, without passwords."""

from __future__ import annotations

from collections.abc import Mapping

from nodepool_ocb.model import secrecy
from nodepool_ocb.model.power import MachinePower
from nodepool_ocb.views.times import age
from nodepool_ocb.views.view import View


class PowerRow(View, frozen=True, kw_only=True):
    """One machine."""

    node: str
    power: str  # on, off or unknown
    seen: float | None  # when the BMC reported it; None: never
    driver: str
    address: str
    chassis: str | None
    request: str | None  # the request under way, in a few words
    trouble: str | None  # the reason of the newest request's failure
    asked: str | None  # the id of the newest request
    outcome: str | None  # of the newest request: waiting, done or failed


class DiscoveredBmc(View, frozen=True, kw_only=True):
    """A BMC that a machine reported."""

    node: str
    bmc: str  # its address; empty where that is none
    driver: str | None  # of the power settings of the node; None: it has none
    address: str | None
    trouble: str | None  # why the address must not be used


class PowerDocument(View, frozen=True, kw_only=True):
    """One machine in full."""

    row: PowerRow
    username: str
    password: str | None  # hidden; a reference is shown
    unconfirmed: bool  # a new password is stored, and no login has confirmed that the BMC has it
    options: Mapping[str, str]
    result: str | None  # of the newest request, in a sentence


def row(fqdn: str, record: MachinePower, now: float) -> PowerRow:
    """One machine; ``now`` is for the age of a request."""
    request, result = record.request, record.result
    newest, done = request or result, result is not None and result.done
    words = None
    if request is not None:
        at = f" at {request.annealer}" if request.annealer else ""
        words = f"{request.action} for {request.by}, {age(now - request.since)} old: {request.step}{at}"
    trouble = result.reason if request is None and result is not None and not done else None
    return PowerRow(
        node=fqdn,
        power=str(record.powered),
        seen=record.seen or None,
        driver=record.driver,
        address=record.address,
        chassis=record.chassis,
        request=words,
        trouble=trouble,
        asked=request.id if request is not None else result.id if result is not None else None,
        outcome=None if newest is None else "waiting" if request is not None else "done" if done else "failed",
    )


def document(fqdn: str, record: MachinePower, now: float) -> PowerDocument:
    """One machine in full."""
    result = record.result
    text = secrecy.text_of(record.password)
    sentence = None
    if result is not None:
        end = "done" if result.done else f"failed: {result.reason}"
        sentence = f"{result.action}, {age(now - result.at)} ago: {end}"
    return PowerDocument(
        row=row(fqdn, record, now),
        username=record.username,
        password=None if text is None else secrecy.HIDDEN if secrecy.encrypted(text) else text,
        unconfirmed=record.fresh is not None,
        options=record.options,
        result=sentence,
    )
