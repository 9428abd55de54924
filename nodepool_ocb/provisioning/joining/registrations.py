"""Machines that wait: which registration a request renews, and how many there may be. Pure.

A machine that holds the secret of its registration renews it. Another machine with one of its MACs is refused while the first
one is seen. After ``SILENT_SECONDS`` the place is free: a machine that was switched off has forgotten its secret.

A machine that waits and has no node may boot again. It is taken as the same one if its join token, all of its MACs, its serial
number or UUID and its disks are those of before. If another machine has those, too, the first one shows itself: it asks with a
secret that is not the present one. Both are named, and no more boot is taken as one of this machine. Until the first one had
time for that, and when two are named, neither a rule nor a plan makes it a node. A person may.

A machine that a person refused stays refused under each of its MACs, with any secret, until its registration is deleted.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Collection, Mapping
from typing import Final

import msgspec

from nodepool_ocb.engine.world import Stored
from nodepool_ocb.errors import Conflict, TooMany
from nodepool_ocb.model import tokens
from nodepool_ocb.model.joining import MachineRegistration

SILENT_SECONDS: Final = 600.0  # without a request: the machine has gone
FORGOTTEN_SECONDS: Final = 86400.0  # without a request: the registration is deleted
OWN_SECRET: Final = re.compile(r"[0-9a-f]{64}")  # that a machine has drawn: 256 bits
POLL_SECONDS: Final = 30.0  # between the requests of a machine that waits
SHOWN_SECONDS: Final = 75.0  # after a machine booted again: if another machine is the first one, it has asked by then
REFUSED_SECONDS: Final = 600.0  # between those of a machine that was refused
SEEN_SECONDS: Final = 120.0  # between two notes of its last request
MOST: Final = 512  # registrations
MOST_OF_TOKEN: Final = 256  # of one join token
SWEPT: Final = 50  # forgotten ones in one transaction


class Admission(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a machine that registers."""

    renewed: str | None = None  # the MAC of its own registration
    again: bool = False  # it booted again, and gets a new secret
    replaced: tuple[str, ...] = ()  # registrations that it replaces
    forgotten: tuple[str, ...] = ()  # registrations that go, since no request came for a day


class Rival(Conflict):
    """Another machine has one of the MACs; ``mac`` names its registration. A caller of the API gets a Conflict."""

    def __init__(self, text: str, mac: str) -> None:
        super().__init__(text)
        self.mac = mac


def knows(registration: MachineRegistration, secret: str) -> bool:
    """Whether this is its secret; the comparison takes the same time for each text."""
    return hmac.compare_digest(tokens.digest(secret), registration.digest)


def knew(registration: MachineRegistration, secret: str) -> bool:
    """Whether this was its secret in the boot before."""
    return registration.former is not None and hmac.compare_digest(tokens.digest(secret), registration.former)


def doubt(registration: MachineRegistration, now: float) -> str | None:
    """Why this may be another machine than the one that waited first, and no rule makes it a node; None if it is not."""
    if registration.former is None:
        return None
    if registration.rival:
        return "two machines with one MAC and one inventory were seen, so no rule takes one of them"
    if now < registration.since + SHOWN_SECONDS:
        return (
            f"it booted again: rules look at it {SHOWN_SECONDS:.0f} s later, unless another machine with its MACs asks"
        )
    return None


def same(before: MachineRegistration, fresh: MachineRegistration) -> bool:
    """Whether the second one looks like another boot of the first one, which waits for its node."""
    known = bool(before.facts.serial or before.facts.uuid) and before.by == fresh.by
    return known and before.node is None and not before.rival and _parts(before) == _parts(fresh)


def _parts(machine: MachineRegistration) -> object:
    """The parts that stay over a boot; names of disks do not."""
    facts = machine.facts
    disks = sorted((each.size, each.serial, each.wwn) for each in facts.disks)
    return {*machine.macs}, facts.serial, facts.uuid, facts.vendor, facts.product, disks


def admitted(
    found: Mapping[str, Stored[MachineRegistration]], fresh: MachineRegistration, secrets: Collection[str], now: float
) -> Admission:
    """The answer to ``fresh``. ``secrets``: those that the machine has.

    Raises Conflict for a machine that was refused, Rival for a MAC of another machine that is seen, and TooMany.
    """
    sharing = {mac: each.record for mac, each in found.items() if not set(fresh.macs).isdisjoint(each.record.macs)}
    for mac, each in sharing.items():
        refuse_refused(mac, each)
    renewed = next((mac for mac, each in sharing.items() for secret in secrets if secret and knows(each, secret)), None)
    seen_before = any(secret and knew(each, secret) for each in sharing.values() for secret in secrets)
    again = (
        None
        if renewed is not None or seen_before
        else next((mac for mac in sharing if same(sharing[mac], fresh)), None)
    )
    renewed = renewed or again
    for mac, each in sharing.items():
        if mac != renewed and now < each.seen + SILENT_SECONDS:
            raise Rival(
                f"{mac} belongs to a machine that registered from {each.address}, and was seen {now - each.seen:.0f} s ago:"
                f" two machines with one MAC, or a stranger; see: nodepool-ocb registration show {mac}",
                mac,
            )
    replaced = tuple(mac for mac in sharing if mac != renewed)
    forgotten = tuple(
        mac
        for mac, each in found.items()
        if mac not in sharing and each.record.refused is None and now >= each.record.seen + FORGOTTEN_SECONDS
    )
    if renewed is None:
        going = {*replaced, *forgotten}
        _refuse_many([each.record for mac, each in found.items() if mac not in going], fresh.by)
    return Admission(renewed=renewed, again=again is not None, replaced=replaced, forgotten=forgotten[:SWEPT])


def refusal(registration: MachineRegistration) -> str | None:
    """The author and the reason of a refusal; None for a machine that was not refused."""
    if registration.refused is None:
        return None
    return f"it was refused by {registration.refused_by}: {registration.refused}"


def refuse_refused(mac: str, registration: MachineRegistration) -> None:
    """Raises Conflict for a machine that was refused, with the command that lets it ask again."""
    if (said := refusal(registration)) is not None:
        raise Conflict(f"machine {mac}: {said}; to let it ask again: nodepool-ocb registration delete {mac}")


def _refuse_many(staying: Collection[MachineRegistration], by: str) -> None:
    """Raises TooMany. Those that wait stay; one that was adopted or refused takes no place of its token."""
    own = sum(each.by == by and each.node is None and each.refused is None for each in staying)
    if own >= MOST_OF_TOKEN:
        raise TooMany(
            f"{own} machines wait that registered with token {by}, the most; adopt or delete some:"
            " nodepool-ocb registration list"
        )
    if len(staying) >= MOST:
        raise TooMany(
            f"{len(staying)} machines are registered, the most; adopt or delete some: nodepool-ocb registration list"
        )
