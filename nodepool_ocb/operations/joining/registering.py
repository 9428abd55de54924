"""``registration create`` and ``poll``: the requests of a machine that waits.

Each of them looks at the rules of adoption, so the server that hears the machine makes its node. A rule that is set later
counts at the next request. Two servers at the same moment make one node: the MAC and the registration are written once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec.structs import replace

from nodepool_ocb.engine import installing
from nodepool_ocb.engine.world import Stored
from nodepool_ocb.errors import Conflict, Denied, Invalid, NotFound, Stale
from nodepool_ocb.model import paths, tokens
from nodepool_ocb.model.joining import MachineRegistration
from nodepool_ocb.model.records import Change, Create, Delete, Json, Set
from nodepool_ocb.model.tokens import Token, TokenRole
from nodepool_ocb.operations import assignments
from nodepool_ocb.operations.joining import making
from nodepool_ocb.operations.names import node_of, record_of
from nodepool_ocb.operations.operation import Because, Explained, Operation, Right, Situation, Steps
from nodepool_ocb.operations.reads.networks import (
    EnsureJoining,
    ReadAdoptionRules,
    ReadMacOwners,
    ReadRegistration,
    ReadRegistrations,
)
from nodepool_ocb.operations.reads.tokens import DrawSecret, EnsureTokens, ReadTokens
from nodepool_ocb.operations.reads.world import ReadWorld
from nodepool_ocb.provisioning.addressing import macs as macs_of
from nodepool_ocb.provisioning.joining import adoption, inventories, registrations

MOST_HOST_KEYS: Final = 8
LONGEST_SECRET: Final = 128


class Registered(Explained, frozen=True, kw_only=True):
    """The answer to a machine that registered. The secret is in this answer alone."""

    mac: str = ""  # the name of the registration
    secret: str | None = None  # None in a dry run, and for a renewal
    poll_seconds: float = registrations.POLL_SECONDS
    node: str | None = None


class PolledNode(Explained, frozen=True, kw_only=True):
    """The answer to a machine that asks for its node. A new token is in each such answer; the one before opens nothing."""

    node: str | None = None
    token: str | None = None
    reason: str | None = None  # why it waits
    poll_seconds: float = registrations.POLL_SECONDS


class RegistrationCreate(Operation[Registered], frozen=True, kw_only=True):
    """Register this machine, or renew its registration with its secret. A rule of adoption may make its node at once."""

    noun = "registration"
    verb = "create"
    right = Right.OPERATOR
    reads = (*making.READS, ReadRegistrations, ReadAdoptionRules, ReadMacOwners, EnsureJoining, DrawSecret)
    writes = making.WRITES
    confidential = True

    macs: tuple[str, ...]  # of its boot NICs, that of this boot first
    inventory: Mapping[str, Json] = {}
    host_keys: tuple[str, ...] = ()
    secret: str = (
        ""  # of its registration, or the one that it is to have: 64 letters of 0-9a-f; empty: the server draws one
    )

    def decide(self, situation: Situation) -> Steps[Registered]:
        """Raises Rival, Conflict for a machine that was refused, TooMany, TooLarge or Invalid."""
        yield from EnsureJoining()
        found = yield from ReadRegistrations()
        drawn = yield from DrawSecret()
        # One that the machine has drawn: no lost answer locks it out. The same in each attempt, which so knows its own record.
        drew = registrations.OWN_SECRET.fullmatch(self.secret) is not None
        secret = self.secret if drew else drawn.secret.hex()
        fresh = self._record(situation)
        try:
            admitted = registrations.admitted(found, fresh, (self.secret, secret), situation.now)
        except registrations.Rival as rival:
            yield from _noted(found, rival.mac, situation)
            raise
        going: list[Change] = [
            Delete(paths.registration(mac), found[mac].version) for mac in (*admitted.replaced, *admitted.forgotten)
        ]
        if admitted.renewed is not None:
            before = found[admitted.renewed]
            after = _renewed(before.record, fresh)
            if admitted.again:  # the age is that of the secret
                after = replace(after, digest=tokens.digest(secret), former=before.record.digest, since=situation.now)
            yield [*going, Set(paths.registration(admitted.renewed), after, before.version)]
            node = yield from _looked(admitted.renewed, Stored(after, before.version + 1), situation)
            own_secret = registrations.knows(before.record, self.secret)
            return Registered(
                mac=admitted.renewed, secret=None if own_secret or situation.call.dry_run else secret, node=node
            )
        mac = fresh.macs[0]
        after = replace(fresh, digest=tokens.digest(secret))
        if mac in admitted.replaced:
            going = [change for change in going if change.path != paths.registration(mac)]
            own: Change = Set(paths.registration(mac), after, found[mac].version)
            version = found[mac].version + 1
        else:
            own, version = Create(paths.registration(mac), after), 0
        yield [*going, own]
        if situation.call.dry_run:
            return Registered(mac=mac)
        node = yield from _looked(mac, Stored(after, version), situation)
        return Registered(mac=mac, secret=secret, node=node)

    def _record(self, situation: Situation) -> MachineRegistration:
        """Raises Invalid or TooLarge."""
        macs = macs_of.checked(self.macs)
        if not macs:
            raise Invalid("macs: there is none; give that of the NIC from which the machine booted")
        if len(self.host_keys) > MOST_HOST_KEYS:
            raise Invalid(f"host_keys: {len(self.host_keys)} are more than a machine may have ({MOST_HOST_KEYS})")
        try:
            keys = assignments.host_keys(self.host_keys)
        except ValueError as wrong:
            raise Invalid(f"host_keys: {wrong}") from None
        return MachineRegistration(
            macs=macs,
            digest="0" * 64,
            facts=inventories.facts_of(self.inventory),
            host_keys=keys,
            address=situation.call.host,
            by=situation.by,
            deployments=tuple(sorted(situation.call.deployments or ())),
            since=situation.now,
            seen=situation.now,
        )


class RegistrationPoll(Operation[PolledNode], frozen=True, kw_only=True):
    """Ask for the node of this machine, with the secret of its registration; after the adoption also for its own token."""

    noun = "registration"
    verb = "poll"
    right = Right.OPERATOR
    reads = (*making.READS, ReadRegistration, ReadAdoptionRules, ReadMacOwners, DrawSecret, ReadTokens, EnsureTokens)
    writes = (*making.WRITES, "token")
    confidential = True

    mac: str
    secret: str

    def decide(self, situation: Situation) -> Steps[PolledNode]:
        """Raises NotFound for a machine that is to register again, Denied for a wrong secret or one of a former user."""
        mac = _canonical(self.mac)
        stored = yield from ReadRegistration(mac)
        if stored is None:
            raise NotFound(f"registration {mac} does not exist; register the machine again")
        if len(self.secret) > LONGEST_SECRET or not registrations.knows(stored.record, self.secret):
            if stored.record.former is None:
                raise Denied(f"this is not the secret of registration {mac}")
            yield from _noted({mac: stored}, mac, situation)  # a machine that booted has no older secret
            raise Denied(
                f"another machine with the MACs and the inventory of {mac} registered: two machines with one MAC;"
                f" see: nodepool-ocb registration show {mac}"
            )
        if (said := registrations.refusal(stored.record)) is not None:
            return PolledNode(reason=said, poll_seconds=registrations.REFUSED_SECONDS)
        if stored.record.node is not None:
            owners = yield from ReadMacOwners(stored.record.macs)
            if stored.record.node not in owners.values():
                gone = replace(stored.record, node=None, token=None, reason=f"node {stored.record.node} was deleted")
                ended = yield from _ended(stored.record)
                yield [Set(paths.registration(mac), gone, stored.version), *ended]
                return PolledNode(reason=gone.reason)
            return (yield from _token(mac, stored, situation))
        node = yield from _looked(mac, stored, situation)
        if node is None:
            after = yield from ReadRegistration(mac)
            return PolledNode(reason=None if after is None else after.record.reason)
        return PolledNode(node=node, poll_seconds=1.0)


def _token(mac: str, stored: Stored[MachineRegistration], situation: Situation) -> Steps[PolledNode]:
    """A new token of role node for the machine; those before are deleted, for an answer may be lost.

    Raises Denied if a former user of the machine may know the secret, and while the machine is being installed.
    """
    node = stored.record.node
    assert node is not None, "only an adopted machine has a token"
    view = node_of((yield from ReadWorld()), node)
    begins = installing.tokens_from(view)
    if stored.record.since < begins and installing.under_way(view) is not None:
        raise Denied(f"{node} is being installed; the machine gets its token when it boots for that")
    if stored.record.since < begins:
        raise Denied(
            f"registration {mac} is older than the newest use or installation of {node}, so a former user may know its secret;"
            f" nodepool-ocb registration delete {mac}, then register the machine again"
        )
    life = record_of(view).epoch_base
    drawn = yield from DrawSecret()
    text = tokens.text(drawn.id, drawn.secret)
    made = Token(
        name=tokens.of_machine(node),
        role=TokenRole.NODE,
        digest=tokens.digest((tokens.split(text) or ("", ""))[1]),
        selector=f"name:{node}",
        life=life,
        created=max(situation.now, begins),
        by=situation.by,
    )
    yield from EnsureTokens()
    after = replace(stored.record, token=drawn.id, seen=situation.now)
    ended = yield from _ended(stored.record, made)
    yield [Create(paths.token(drawn.id), made), Set(paths.registration(mac), after, stored.version), *ended]
    return PolledNode(node=node) if situation.call.dry_run else PolledNode(node=node, token=text)


def _ended(machine: MachineRegistration, made: Token | None = None) -> Steps[list[Delete]]:
    """The deletions of the token that the machine has now, and of those of the same node as a token that is made."""
    if machine.token is None and made is None:
        return []
    like = (made.name, made.role, made.life) if made is not None else None
    found = (yield from ReadTokens()).readable
    return [
        Delete(paths.token(id), each.version)
        for id, each in found.items()
        if id == machine.token or (each.record.name, each.record.role, each.record.life) == like
    ]


def _looked(mac: str, stored: Stored[MachineRegistration], situation: Situation) -> Steps[str | None]:
    """Adopt the machine if a rule fits, or if a planned node has its MAC; gives the node. Else note the reason."""
    machine = stored.record
    if machine.node is not None:
        return machine.node
    owners = yield from ReadMacOwners(machine.macs)
    rules = yield from ReadAdoptionRules()
    chosen = adoption.chosen({name: each.record for name, each in rules.items()}, machine)
    doubt = registrations.doubt(machine, situation.now)
    reason = doubt or chosen.reason
    if doubt is None and (owners or chosen.rule is not None):
        try:
            return (yield from _adopted(mac, stored, situation, [*owners.values()], chosen))
        except Stale:
            raise
        except (Conflict, Invalid, NotFound) as fault:
            reason = f"{chosen.reason}: {fault}" if chosen.rule is not None else str(fault)
    reason = reason[:1000]
    if reason != machine.reason or situation.now >= machine.seen + registrations.SEEN_SECONDS:
        yield [Set(paths.registration(mac), replace(machine, seen=situation.now, reason=reason), stored.version)]
    return None


def _adopted(
    mac: str, stored: Stored[MachineRegistration], situation: Situation, owners: list[str], chosen: adoption.ChosenRule
) -> Steps[str]:
    world = yield from ReadWorld()
    if owners:
        view = world.nodes.get(owners[0])
        if len({*owners}) > 1 or view is None or view.record is None:
            raise Conflict(
                f"its MACs belong to several nodes ({', '.join(sorted({*owners}))}); see: nodepool-ocb node list"
            )
        if view.record.host_keys or view.record.alive or mac not in stored.record.macs:
            raise Conflict(
                f"node {view.name} has its MAC and runs on a known machine; if this is the same one:"
                f" nodepool-ocb node adopt {mac} {view.name}"
            )
        if stored.record.deployments and view.record.deployment not in stored.record.deployments:
            raise Conflict(f"node {view.name} is outside the deployments of the join token")
        changes = yield from making.tied(world, situation, mac, stored, view)
        yield Because(f"machine {mac}, for which this node was planned")
        yield changes
        return view.name
    assert chosen.rule is not None, "the caller has a node or a rule"
    taken = {*world.nodes, *(path.rpartition("/")[2] for path in world.unreadable)}
    fqdn = adoption.node_name(chosen.rule, stored.record, taken)
    changes = yield from making.made(world, situation, mac, stored, (fqdn, chosen.rule))
    yield Because(f"rule of adoption {chosen.name}, machine {mac}")
    yield changes
    return fqdn


def _renewed(before: MachineRegistration, fresh: MachineRegistration) -> MachineRegistration:
    """The facts, the host keys and the address are new; its name, its secret, its node and its age stay."""
    return replace(
        before,
        facts=fresh.facts,
        host_keys=fresh.host_keys,
        address=fresh.address,
        by=fresh.by,
        deployments=fresh.deployments,
        seen=fresh.seen,
    )


def _noted(found: Mapping[str, Stored[MachineRegistration]], mac: str, situation: Situation) -> Steps[Any]:
    """Keep the address of the other machine; one write for each address."""
    stored = found[mac]
    if stored.record.rival != situation.call.host:
        yield [Set(paths.registration(mac), replace(stored.record, rival=situation.call.host), stored.version)]


def _canonical(text: str) -> str:
    """Raises Invalid."""
    return macs_of.checked([text])[0]
