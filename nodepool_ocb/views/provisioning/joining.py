"""Machines that wait, and rules of adoption: one a row, and one with all its facts."""

from __future__ import annotations

from collections.abc import Mapping

from nodepool_ocb.model.joining import AdoptionRule, MachineFacts, MachineRegistration
from nodepool_ocb.provisioning.joining import registrations
from nodepool_ocb.views.view import View


class RegistrationRow(View, frozen=True, kw_only=True):
    """A registered machine at a glance."""

    mac: str
    node: str | None  # None: it waits
    address: str
    serial: str | None
    product: str | None
    memory: int | None  # bytes
    disks: int
    since: float
    seen: float
    refused: bool  # by a person
    reason: str | None  # why it waits, or was refused


class RegistrationDocument(View, frozen=True, kw_only=True):
    """A registered machine."""

    mac: str
    node: str | None
    macs: tuple[str, ...]
    address: str
    token_name: str  # of the join token
    host_keys: tuple[str, ...]
    since: float
    seen: float
    rival: str | None  # the address of another machine that claimed one of its MACs
    refused: bool
    reason: str | None
    facts: MachineFacts


class RegisteredRow(View, frozen=True, kw_only=True):
    """The answer to a machine: its secret, or its node and its token. They are shown one time."""

    node: str | None
    secret: str | None
    token: str | None
    reason: str | None
    poll_seconds: float


class AdoptionRow(View, frozen=True, kw_only=True):
    """A rule at a glance."""

    name: str
    order: int
    when: str
    node: str  # the template of names
    deployment: str
    roles: tuple[str, ...]
    commission: tuple[str, ...]
    commit: bool
    allow_install: bool


class AdoptionDocument(View, frozen=True, kw_only=True):
    """One rule."""

    name: str
    record: AdoptionRule


class ForecastRow(View, frozen=True, kw_only=True):
    """The node that a waiting machine would become."""

    mac: str
    rule: str | None
    node: str | None
    reason: str


def rows(found: Mapping[str, MachineRegistration], now: float) -> list[RegistrationRow]:
    """Those that wait first, the oldest first; then those that were refused."""
    order = sorted(
        found.items(), key=lambda each: (each[1].node is not None, each[1].refused is not None, each[1].since, each[0])
    )
    return [_row(mac, each, now) for mac, each in order]


def document(mac: str, machine: MachineRegistration, now: float) -> RegistrationDocument:
    """One machine."""
    return RegistrationDocument(
        mac=mac,
        node=machine.node,
        macs=machine.macs,
        address=machine.address,
        token_name=machine.by,
        host_keys=machine.host_keys,
        since=machine.since,
        seen=machine.seen,
        rival=machine.rival or None,
        refused=machine.refused is not None,
        reason=reason_of(machine, now),
        facts=machine.facts,
    )


def rules(found: Mapping[str, AdoptionRule]) -> list[AdoptionRow]:
    """In the order in which they count."""
    return [
        AdoptionRow(
            name=name,
            order=rule.order,
            when=rule.when,
            node=rule.name,
            deployment=rule.deployment,
            roles=rule.roles,
            commission=rule.commission,
            commit=rule.commit,
            allow_install=rule.allow_install,
        )
        for name, rule in sorted(found.items(), key=lambda each: (each[1].order, each[0]))
    ]


def reason_of(machine: MachineRegistration, now: float) -> str | None:
    """Why a machine waits, or was refused; two machines with one MAC come first."""
    if (said := registrations.refusal(machine)) is not None:
        return said
    parts: list[str] = []
    if machine.rival:
        parts.append(f"two machines with one MAC: {machine.rival} claimed it, too, and was refused")
    if machine.node is None and machine.reason:
        parts.append(machine.reason)
    if machine.node is None and now > machine.seen + 600:
        parts.append(f"no request came for {(now - machine.seen) / 60:.0f} min")
    return "; ".join(parts) or None


def _row(mac: str, machine: MachineRegistration, now: float) -> RegistrationRow:
    return RegistrationRow(
        mac=mac,
        node=machine.node,
        address=machine.address,
        serial=machine.facts.serial or None,
        product=machine.facts.product or None,
        memory=machine.facts.memory or None,
        disks=len(machine.facts.disks),
        since=machine.since,
        seen=machine.seen,
        refused=machine.refused is not None,
        reason=reason_of(machine, now),
    )
