"""The options of drivers test and fake: the machines that they pretend to have, and the faults on demand."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from nodepool_ocb.model.records import Json
from nodepool_ocb.providers.machines import LaunchParty

CALLS: Final = ("create", "find", "look", "delete", "list", "quota")
ACTIONS: Final = ("refuse", "raise", "hang", "kill", "nonsense", "error")
HANG_SECONDS: Final = 3600.0
OPTIONS: Final[Json] = {
    "type": "object",
    "properties": {
        "directory": {"type": "string", "pattern": "^/", "description": "an absolute path"},
        "boot-seconds": {"type": "number", "minimum": 0},
        "address": {"type": "string", "minLength": 1},
        "port": {"type": "integer", "minimum": 1, "maximum": 65535},
        "host-keys": {"type": ["array", "null"], "items": {"type": "string"}},
        "azs": {"type": "array", "items": {"type": "string"}},
        "quota": {"type": "object", "additionalProperties": {"type": "number"}},
        "reported-quota": {"type": "object", "additionalProperties": {"type": "number"}},
        "foreign": {"type": "object", "additionalProperties": {"type": "number"}},
        "faults": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "call": {"enum": list(CALLS)},
                    "at": {"type": "array", "items": {"type": "integer", "minimum": 1}},
                    "do": {"enum": list(ACTIONS)},
                    "when": {"enum": ["before", "after"]},
                    "party": {"enum": [str(party) for party in LaunchParty]},
                    "seconds": {"type": "number", "minimum": 0},
                    "reason": {"type": "string"},
                },
                "required": ["call", "do"],
                "additionalProperties": False,
            },
        },
    },
    "additionalProperties": False,
}

KEY: Final = "fake-cloud"  # of the provider's options
ANY: Final[Json] = {"type": "object", "properties": {KEY: OPTIONS}}
ONLY: Final[Json] = {**ANY, "additionalProperties": False}


class FakeFault(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """A fault of one kind of call."""

    call: str
    do: str
    at: tuple[int, ...] = ()  # the first call is 1, counted in the directory; empty: each call
    when: Literal["before", "after"] = "before"  # the call does its work
    party: LaunchParty = LaunchParty.MACHINE
    seconds: float = HANG_SECONDS
    reason: str = "a fault on demand"


class FakeSettings(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """The options of a provider."""

    directory: str | None = None
    boot_seconds: float = 0.0  # from the creation to running
    address: str = "127.0.0.1"
    port: int | None = None
    host_keys: tuple[str, ...] | None = ("ssh-rsa FAKEKEY",)  # None: the launcher scans for them
    azs: tuple[str, ...] = ()  # empty: any
    quota: dict[str, float] = {}  # beyond which a creation is refused
    reported_quota: dict[str, float] | None = None  # None: the true one
    foreign: dict[str, float] = {}
    faults: tuple[FakeFault, ...] = ()
