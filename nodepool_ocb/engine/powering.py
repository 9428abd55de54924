"""Requests to switch machines on and off: one table of steps, and the limits of how many go on side by side.

An annealer takes a request, carries out its steps one after the other, and records each before the next begins. If the annealer
dies, another one repeats the step in the record: to switch off a machine that is off has no effect. A cycle records that the
machine was off before it is switched on, so that no machine is cycled twice.

A machine that its pool switched off after a use must be off (``off_since``): else its former user's system goes on. If that
request fails, it is made again, each time after twice the time, until the machine is off or a person has switched it on. No
other request puts that off, and it waits while a noderole is at work on the machine, or the node is held. Pure.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from typing import Final, TypeAlias

import msgspec
from msgspec.structs import replace

from nodepool_ocb.engine import maintenance
from nodepool_ocb.engine.world import NodeView, Stored, World
from nodepool_ocb.errors import Conflict, NotFound
from nodepool_ocb.model import skew
from nodepool_ocb.model.power import MachinePower, PowerAction, Powered, PowerRequest, PowerResult, PowerStep

REQUEST_SECONDS: Final = 900.0  # until a request fails that no annealer has finished
REASON_CHARACTERS: Final = 500
FULL_SECONDS: Final = 5.0  # between two looks at a chassis with no room
AGAIN_SECONDS: Final = 60.0  # before a machine that must be off is switched off again; doubles
LONGEST_PAUSE_SECONDS: Final = 3600.0
BUSY_SECONDS: Final = 30.0  # between two looks at a machine that must be off, and is at work
BY_HAND: Final = "manual"  # the driver of a machine that a person switches
REPEATER: Final = "annealer"  # that asks for power off again

#: The step after each step of an action; None: the request is done.
TABLE: Final[Mapping[tuple[PowerAction, PowerStep], PowerStep | None]] = {
    (PowerAction.ON, PowerStep.WAITING): PowerStep.ON,
    (PowerAction.ON, PowerStep.ON): None,
    (PowerAction.OFF, PowerStep.WAITING): PowerStep.OFF,
    (PowerAction.OFF, PowerStep.OFF): None,
    (PowerAction.CYCLE, PowerStep.WAITING): PowerStep.OFF,
    (PowerAction.CYCLE, PowerStep.OFF): PowerStep.ON,
    (PowerAction.CYCLE, PowerStep.ON): None,
    (PowerAction.LOOK, PowerStep.WAITING): PowerStep.LOOK,
    (PowerAction.LOOK, PowerStep.LOOK): None,
    (PowerAction.ROTATE, PowerStep.WAITING): PowerStep.ROTATE,
    (PowerAction.ROTATE, PowerStep.ROTATE): None,
}
#: The state that a step ends with.
ENDS: Final = {PowerStep.ON: Powered.ON, PowerStep.OFF: Powered.OFF}
#: The actions that load a chassis and a rack.
SWITCHING: Final = frozenset({PowerAction.ON, PowerAction.OFF, PowerAction.CYCLE})


class PowerLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of an annealer's configuration."""

    at_once: int  # requests at one chassis
    gap_seconds: float  # between two machines of a rack that are switched on


class PowerSituation(msgspec.Struct, frozen=True, kw_only=True):
    """The annealer that decides, its limits, and the requests beside which it begins another one."""

    annealer: str
    living: Collection[str]  # the annealers that run
    limits: PowerLimits
    at_work: Mapping[str, MachinePower]  # by node, also those that this annealer is about to take


class TakeRequest(msgspec.Struct, frozen=True):
    """Write this record: the request is ours, in its first step or in the step that its former annealer began."""

    record: MachinePower


class CarryOutStep(msgspec.Struct, frozen=True):
    """Do the step of the request: it is ours."""

    request: PowerRequest


class FailRequest(msgspec.Struct, frozen=True):
    """Write this record: the request has failed."""

    record: MachinePower


class AskAgain(msgspec.Struct, frozen=True):
    """Write this record: the machine must be off, and the request to switch it off is made again."""

    record: MachinePower


class WaitForOthers(msgspec.Struct, frozen=True):
    """Do nothing before this time has passed, or a record has changed. ``reason``: for people."""

    seconds: float
    reason: str


PowerDecision: TypeAlias = TakeRequest | CarryOutStep | FailRequest | AskAgain | WaitForOthers | None


def request(id: str, action: PowerAction, by: str, now: float, *, network: bool = False) -> PowerRequest:
    """A request that begins now; ``network``: the next boot is one from the network."""
    return PowerRequest(id=id, action=action, network=network, by=by, since=now, until=now + REQUEST_SECONDS)


def asked(record: MachinePower, request: PowerRequest) -> MachinePower:
    """The record with a new request. Raises Conflict while another one is under way.

    A request with the id of the one under way is the same call again, whose answer was lost.
    """
    under_way = record.request
    if under_way is not None and under_way.id != request.id:
        raise Conflict(
            f"{under_way.by} asked for power {under_way.action} before, and that is {under_way.step}; wait until it ends"
        )
    return record if under_way is not None else replace(record, request=request)


def record_of(world: World, fqdn: str) -> Stored[MachinePower]:
    """The power of a node. Raises NotFound with the command that sets it."""
    stored = powers(world).get(fqdn)
    if stored is None:
        raise NotFound(f"{fqdn} has no power settings; set them: nodepool-ocb power set {fqdn} driver=DRIVER ...")
    return stored


def powers(world: World) -> dict[str, Stored[MachinePower]]:
    """All power records, by node."""
    return world.of(MachinePower)


def group(world: World, fqdn: str, record: MachinePower) -> str:
    """The name of all machines that one annealer switches: those of a rack, or of a chassis without a rack."""
    view = world.nodes.get(fqdn)
    rack = view.record.rack if view is not None and view.record is not None else None
    return f"rack {rack}" if rack else f"chassis {record.chassis}" if record.chassis else f"node {fqdn}"


def at_work(record: MachinePower) -> bool:
    """Whether an annealer switches the machine, so that others of its chassis and its rack may have to wait."""
    request = record.request
    return request is not None and request.annealer is not None and request.action in SWITCHING


def decide(world: World, fqdn: str, situation: PowerSituation, now: float) -> PowerDecision:
    """The next act of an annealer for the request of a node. None: there is none, or another annealer carries it out.

    Its cost does not grow with the requests that wait.
    """
    stored = powers(world).get(fqdn)
    if stored is None:
        return None
    if (request := stored.record.request) is None:
        again = off_again(stored.record, now)
        if again is None or now < again:
            return None
        busy = _busy(world.nodes.get(fqdn), now)
        return AskAgain(_off_asked(stored.record, now)) if busy is None else WaitForOthers(BUSY_SECONDS, busy)
    if request.annealer == situation.annealer:
        return CarryOutStep(request)
    if request.annealer in situation.living:
        return None
    if now >= request.until:
        return FailRequest(failed(stored.record, f"no annealer finished it within {REQUEST_SECONDS:.0f} s", None, now))
    if (later := _limited(world, fqdn, stored.record, situation, now)) is not None:
        return later
    step = TABLE[request.action, request.step] if request.step is PowerStep.WAITING else request.step
    assert step is not None, "a request that waits has a step"
    taken = replace(request, annealer=situation.annealer, step=step, began=now)
    return TakeRequest(replace(stored.record, request=taken))


def _limited(
    world: World, fqdn: str, record: MachinePower, situation: PowerSituation, now: float
) -> WaitForOthers | None:
    """The reason to wait for other machines of the chassis or the rack; other actions do not wait."""
    request, limits = record.request, situation.limits
    if request is None or request.action not in SWITCHING or request.annealer is not None:
        return None
    others = {name: each for name, each in situation.at_work.items() if name != fqdn}
    if record.chassis is not None:
        busy = sum(1 for each in others.values() if each.chassis == record.chassis)
        if busy >= limits.at_once:
            return WaitForOthers(FULL_SECONDS, f"{busy} other requests are under way at chassis {record.chassis}")
    mine = group(world, fqdn, record)
    begun = [each.request.began for name, each in others.items() if each.request and group(world, name, each) == mine]
    wait = max(begun, default=0.0) + limits.gap_seconds - now
    return (
        WaitForOthers(wait, f"another machine of {mine} was switched less than {limits.gap_seconds:g} s ago")
        if wait > 0
        else None
    )


def after(record: MachinePower, state: Powered, now: float) -> MachinePower:
    """The record after the step of its request, which ended with this state of the machine.

    A step that ended with another state than its own gave no order, as where a connection was away: it is done again. After
    power on, the machine need not be off any more.
    """
    request = record.request
    assert request is not None, "a step belongs to a request"
    seen = replace(record, powered=state, seen=now)
    if ENDS.get(request.step, state) is not state:
        return seen
    if state is Powered.OFF or request.step is PowerStep.ON:
        seen = replace(seen, off_since=None)
    step = TABLE[request.action, request.step]
    if step is not None:
        return replace(seen, request=replace(request, step=step, began=now))
    result = PowerResult(id=request.id, action=request.action, done=True, annealer=request.annealer, at=now)
    return replace(seen, request=None, result=result)


def confirmed(record: MachinePower) -> MachinePower:
    """The record after the BMC took the fresh password: it is the password now."""
    return record if record.fresh is None else replace(record, password=record.fresh, fresh=None)


def failed(record: MachinePower, reason: str, state: Powered | None, now: float) -> MachinePower:
    """The record after a request that failed; ``state``: the one that was seen last, None where none was."""
    request = record.request
    assert request is not None, "a failure belongs to a request"
    result = PowerResult(
        id=request.id,
        action=request.action,
        done=False,
        reason=reason[:REASON_CHARACTERS],
        annealer=request.annealer,
        at=now,
    )
    seen = record if state is None else replace(record, powered=state, seen=now)
    return replace(seen, request=None, result=result)


# -- a machine that must be off --


def off_again(record: MachinePower, now: float) -> float | None:
    """When power off is asked for again; None: never, or a request is under way. The results of other actions do not count."""
    if record.off_since is None or record.request is not None or record.driver == BY_HAND:
        return None
    since = skew.believed(record.off_since, now)
    last = record.result
    tried = skew.believed(last.at, now) if last is not None and last.action is PowerAction.OFF else 0.0
    begins = max(tried, since)
    return begins + min(max(begins - since, AGAIN_SECONDS), LONGEST_PAUSE_SECONDS)


def off_sentence(view: NodeView, now: float) -> str | None:
    """Why a machine that must be off is not off yet, and the command for one that may be on; None for any other one."""
    stored = powers(view.world).get(view.name)
    record = stored.record if stored is not None else None
    if record is None or record.off_since is None:
        return None
    result = record.result
    parts = ["it must be switched off after its use, and is not off yet"]
    if result is not None and not result.done and result.at >= skew.believed(record.off_since, now):
        parts.append(f"power {result.action} failed: {result.reason}")
    if record.request is not None:
        parts.append(f"power {record.request.action} is under way")
    elif (again := off_again(record, now)) is not None:
        waits = _busy(view, now) if now >= again else f"it is tried again in {again - now:.0f} s"
        parts.append(waits or "it is tried again now")
        parts.append(f"if it may be on: nodepool-ocb power on {view.name}")
    return "; ".join(parts)


def _busy(view: NodeView | None, now: float) -> str | None:
    """Why a machine that must be off is not switched off now; None if it may be."""
    if view is None:
        return None
    if view.claim is not None:
        return f"{view.claim.noderole} is at work on it"
    return f"node {view.name} is held" if maintenance.held(view.record, now) else None


def _off_asked(record: MachinePower, now: float) -> MachinePower:
    """The record with one more request to switch it off; each annealer gives it the same id."""
    newest = record.result.id if record.result is not None else ""
    id = hashlib.sha256(f"{newest} {record.off_since}".encode()).hexdigest()[:16]
    return asked(record, request(id, PowerAction.OFF, REPEATER, now))
