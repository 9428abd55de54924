"""``power set`` and ``power unset``: the access to the BMCs of nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from nodepool_ocb.engine import powering, structure
from nodepool_ocb.engine.selection import together
from nodepool_ocb.engine.world import NodeView, Stored
from nodepool_ocb.errors import Conflict, Invalid
from nodepool_ocb.model import paths, secrecy
from nodepool_ocb.model.power import MachinePower
from nodepool_ocb.model.ranges import is_name
from nodepool_ocb.model.records import Change, Create, Delete, Json, Set
from nodepool_ocb.operations import assignments as assigning
from nodepool_ocb.operations import selection
from nodepool_ocb.operations.operation import Explained, Note, Operation, Right, Situation, Steps
from nodepool_ocb.operations.power import discovering, sharing
from nodepool_ocb.operations.reads.power import CheckDriver, ResolveHosts
from nodepool_ocb.operations.reads.secrets import SealValue
from nodepool_ocb.operations.reads.world import ReadWorld
from nodepool_ocb.operations.values import strict_json

PLACE: Final = "power/password"  # for which a password is encrypted
BMC: Final = "{bmc}"
FIELDS: Final = ("driver", "address", "username", "password", "chassis")


class PowerSet(Operation[Explained], frozen=True, kw_only=True):
    """Set the access to the power of nodes. Keys that are not given stay; another driver begins without options.

    It takes the right of an admin, and with another address the password is given again. Else a secret would go to any address
    that a person names. ``{node}`` and ``{host}`` in an address stand for the name of the node and its first label.
    ``{bmc}`` stands for the address of the BMC that the machine itself reported, in a network of ``within``. Two nodes never get
    the power of one machine: a cycle for one would switch the other.
    """

    noun = "power"
    verb = "set"
    right = Right.ADMIN
    reads = (ReadWorld, selection.ResolveNodes, SealValue, CheckDriver, ResolveHosts)
    writes = ("power",)

    nodes: tuple[str, ...] = ()
    selector: str | None = None
    assignments: tuple[str, ...]  # KEY=VALUE: driver, address, username, password, chassis, or an option of the driver
    within: tuple[str, ...] = ()  # the networks of BMCs, as 10.9.0.0/24; {bmc} needs them

    def decide(self, situation: Situation) -> Steps[Explained]:  # noqa: ARG002
        world = yield from ReadWorld()
        chosen = yield from selection.nodes(world, self.nodes, self.selector)
        given = dict(assigning.pairs(self.assignments))
        if not given:
            raise Invalid("there is nothing to set; give KEY=VALUE, as driver=ipmi address=bmc-{host}.example.com")
        password: Json | None = None
        if text := given.get("password"):
            value = _password(text)
            password = value if secrecy.is_secret(value) else (yield from SealValue(PLACE, value, None))
        present = powering.powers(world)
        taken = discovering.addresses(world) if BMC in given.get("address", "") else {}
        networks = [discovering.network(text) for text in self.within]
        given_to = {
            view.name: _addressed(given, discovering.reported(world, view.name, taken, networks), view.name)
            for view in chosen
        }
        if not networks and BMC in given.get("address", ""):
            raise Invalid(
                f"a machine can report any address as {BMC}, and the password is sent there; name the networks of your BMCs:"
                " --within 10.9.0.0/24"
            )
        after = {name: _merged(name, present.get(name), keys, password) for name, keys in given_to.items()}
        for name, record in after.items():
            yield from CheckDriver(record.driver, record.address, dict(record.options), name)
        before = {name: stored.record for name, stored in present.items() if name in world.nodes}
        before, after = yield from _resolved(before, after)
        sharing.refuse(before, after)

        def one(view: NodeView) -> list[Change]:
            changes = _written(view.name, present.get(view.name), after[view.name])
            if not changes or sharing.same(before.get(view.name), after[view.name]):
                return changes
            raised = structure.stored(world)  # for it rests on the powers of all nodes; another admin may set one now
            return [*changes, Set(paths.STRUCTURE, raised.record, raised.version)]

        for name in after:
            if before.get(name) is not None and before[name].off_since is not None and after[name].off_since is None:
                yield Note(f"{name}: it was not seen off after its use; switch it off by hand before its next use")
        yield from together.decided(world, chosen, one)
        return Explained()


class PowerUnset(Operation[Explained], frozen=True, kw_only=True):
    """Forget the access to the power of nodes. Refused while a request is under way, or a machine must be switched off."""

    noun = "power"
    verb = "unset"
    right = Right.OPERATOR
    reads = (ReadWorld, selection.ResolveNodes)
    writes = ("power",)

    nodes: tuple[str, ...] = ()
    selector: str | None = None

    def decide(self, situation: Situation) -> Steps[Explained]:  # noqa: ARG002
        world = yield from ReadWorld()
        chosen = yield from selection.nodes(world, self.nodes, self.selector)
        present = powering.powers(world)

        def one(view: NodeView) -> list[Change]:
            stored = present.get(view.name)
            if stored is None:
                return []
            if stored.record.request is not None:
                raise Conflict(
                    f"power {stored.record.request.action} of {view.name} is under way; wait until it ends:"
                    f" nodepool-ocb power show {view.name}"
                )
            if stored.record.off_since is not None:
                raise Conflict(
                    f"{view.name} must be switched off after its use, and is not off yet; wait until it is off, or allow that it"
                    f" is on: nodepool-ocb power on {view.name}; if a person switches it: nodepool-ocb power set {view.name}"
                    f" driver={powering.BY_HAND}"
                )
            return [Delete(paths.power(view.name), stored.version)]

        yield from together.decided(world, chosen, one)
        return Explained()


def _resolved(
    before: Mapping[str, MachinePower], after: Mapping[str, MachinePower]
) -> Steps[tuple[dict[str, MachinePower], dict[str, MachinePower]]]:
    """The records with the addresses that their names have, by which other spellings of a machine are recognised."""
    moved = any(not sharing.same(before.get(name), record) for name, record in after.items())
    asked = [*after.values(), *(each for each in before.values() if moved and not each.resolved)]
    hosts = {sharing.host_of(record) for record in asked}
    found = yield from ResolveHosts(tuple(sorted(host for host in hosts if sharing.is_name(host))))

    def known(name: str, record: MachinePower) -> MachinePower:
        former = before.get(name)
        kept = former.resolved if former is not None and sharing.same(former, record) else ()
        return replace(record, resolved=found.get(sharing.host_of(record), kept))

    return {name: known(name, each) for name, each in before.items()}, {
        name: known(name, each) for name, each in after.items()
    }


def _addressed(given: Mapping[str, str], found: discovering.ReportedBmc, fqdn: str) -> Mapping[str, str]:
    """The keys with the BMC's address of this node. Raises Invalid where the machine reported none, or a wrong one."""
    if BMC not in given.get("address", ""):
        return given
    if found.trouble is not None:
        raise Invalid(f"{fqdn}: {found.trouble}; write its address instead of {BMC}")
    return {**given, "address": given["address"].replace(BMC, found.address)}


def _merged(
    fqdn: str, stored: Stored[MachinePower] | None, given: Mapping[str, str], password: Json | None
) -> MachinePower:
    """The record with the keys that were given; an empty value removes an option, the password or the chassis."""
    before = stored.record if stored is not None else None
    driver = given.get("driver") or (before.driver if before is not None else "")
    if not driver:
        raise Invalid(f"{fqdn} has no power settings yet; give a driver: driver=ipmi")
    kept = before if before is not None and before.driver == driver else None
    chassis = given.get("chassis", (before.chassis or "") if before is not None else "")
    if chassis and not is_name(chassis):
        raise Invalid(f"chassis: {chassis!r} is no name; write small letters, digits, '-', '_' and '.'")
    options = dict(kept.options) if kept is not None else {}
    options |= {key: value for key, value in given.items() if key not in FIELDS}
    address = given.get("address", kept.address if kept is not None else "")
    made = MachinePower(
        driver=driver,
        address=address.replace("{node}", fqdn).replace("{host}", fqdn.partition(".")[0]),
        username=given.get("username", before.username if before is not None else ""),
        password=password if "password" in given else before.password if before is not None else None,
        options={key: value for key, value in options.items() if value},
        chassis=chassis or None,
    )
    if before is None:
        return made
    moved = (made.driver, made.address, made.options) != (before.driver, before.address, before.options)
    if moved and before.password is not None and "password" not in given:
        raise Invalid(
            f"{fqdn}: the password was given for {before.address or before.driver}; give it again: password=-"
        )
    kept_fresh = before.fresh if "password" not in given and not moved else None
    return replace(
        made,
        fresh=kept_fresh,
        request=before.request,
        result=before.result,
        powered=before.powered,
        seen=before.seen,
        off_since=before.off_since if made.driver != powering.BY_HAND else None,  # it could not be asked for again
    )


def _written(fqdn: str, stored: Stored[MachinePower] | None, after: MachinePower) -> list[Change]:
    if stored is None:
        return [Create(paths.power(fqdn), after)]
    return [] if stored.record == after else [Set(paths.power(fqdn), after, stored.version)]


def _password(text: str) -> Json:
    """The text of a password, or a reference to one: JSON that the command line made of it, else the text itself."""
    try:
        value = strict_json(text)
    except ValueError:
        return text
    return value if secrecy.is_secret(value) or isinstance(value, str) else text
