"""Power of machines: the access to a BMC, the state that it reported, and the request that is under way."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta

from nodepool_ocb.model.ranges import Moment, Name
from nodepool_ocb.model.records import Json, Record

Line = Annotated[str, Meta(max_length=500)]
RequestId = Annotated[str, Meta(pattern=r"^[0-9a-f]{16}\Z")]


class Powered(StrEnum):
    """The power of a machine as its BMC or host reports it."""

    ON = "on"
    OFF = "off"
    UNKNOWN = "unknown"  # the driver cannot see it, or the BMC reports a state between the two


class PowerAction(StrEnum):
    """A request of a person or a role."""

    ON = "on"
    OFF = "off"
    CYCLE = "cycle"  # off, then on
    LOOK = "look"  # ask for the state
    ROTATE = "rotate"  # give the BMC the fresh password


class PowerStep(StrEnum):
    """The progress of a request. Each step may be repeated; a repetition of a finished one has no effect."""

    WAITING = "waiting"  # no annealer has taken it
    OFF = "off"  # it is being switched off
    ON = "on"  # it is being switched on
    LOOK = "look"  # its state is being asked for
    ROTATE = "rotate"  # its BMC is given the fresh password


class PowerRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One request; the record has at most one."""

    id: RequestId
    action: PowerAction
    network: bool = False  # the next boot is one from the network
    by: str
    since: Moment
    until: Moment  # it fails if no annealer has finished it then
    step: PowerStep = PowerStep.WAITING
    annealer: str | None = None  # that carries it out; another one continues if it dies
    began: Moment = 0.0  # of the step


class PowerResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The end of the newest request."""

    id: RequestId
    action: PowerAction
    done: bool
    reason: Line | None = None  # of a failure
    annealer: str | None = None
    at: Moment


class MachinePower(Record, frozen=True, kw_only=True, omit_defaults=True, tag=1):
    """``nodes/<fqdn>/power``: how the machine is switched on and off."""

    driver: Name
    address: Line = ""
    resolved: tuple[
        Line, ...
    ] = ()  # the addresses of the name in it, when it was set: two spellings of one machine have these
    username: Line = ""
    password: Json | None = None  # a secret: {"$secret": TEXT}
    fresh: Json | None = None  # a password that is stored before the BMC is given it; the BMC has this one or the other
    options: Mapping[str, Line] = {}  # of the driver
    chassis: Name | None = None  # machines with shared power: few are switched at the same time
    powered: Powered = Powered.UNKNOWN
    seen: Moment = 0.0  # when that was reported
    request: PowerRequest | None = None
    result: PowerResult | None = None
    off_since: Moment | None = None  # since when it must be off: power off is asked for again until it is
