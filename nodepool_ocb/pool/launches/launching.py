"""A launch as a chain of durable facts: the next step, from the record and from observations. Pure.

The record holds the newest fact. A launcher that takes over reads it and continues with the step after it:

- The name and the stamp of the machine are recorded before the provider is asked for a machine. A successor asks the
  provider for the machine with this stamp. If there is none, it draws another stamp before it orders one. So a record never
  has two machines: an order that arrives late makes a machine with a former stamp, which is a leak.
- Each further fact is one versioned write: the id, the address, the host keys, the state ``testing``, the state ``ready``.
- A machine that its provider only lends, and that no role acts on, needs no such chain: its order changes nothing that a
  successor must find. One write records all its facts with the state ``ready``.
- Each phase has a deadline, which counts from the newest fact. ``explain`` names it.
- A fault of the launcher's own host is no fact. The step is tried again until the deadline; then the launch is aborted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Final

import msgspec

from nodepool_ocb.model.pool import LaunchFacts, PoolNode, PoolNodeState, launch_facts
from nodepool_ocb.model.records import State
from nodepool_ocb.pool.configuration import PoolLabel, PoolLabelPolicy

FIRST_LOOK_SECONDS: Final = 0.2  # between two looks at a machine that is building; grows with its age
LONGEST_LOOK_SECONDS: Final = 10.0
AGAIN_SECONDS: Final = 1.0  # after a step that this host or the provider could not do

HOST: Final = "host"  # the parties at fault, as providers.machines.LaunchParty has them
MACHINE: Final = "machine"
PROVIDER: Final = "provider"
QUOTA: Final = "quota"
REQUEST: Final = "request"
IMAGE: Final = "image"  # no party: the image went between the decision and the launch


class LaunchFact(StrEnum):
    """The newest fact of a launch that its record has."""

    RECORDED = "recorded"  # there is a record, and no machine
    NAMED = "named"  # the name and the stamp of the machine; it may exist
    CREATED = "created"  # the provider's id of the machine
    ADDRESSED = "addressed"  # the address
    PINNED = "pinned"  # the host keys, or that none are wanted
    TESTING = "testing"  # the name of the node below /ocb
    OVER = "over"  # the launch has ended


class LaunchDeadline(StrEnum):
    """The deadlines of a launch and of a deletion."""

    CREATE = "create"  # the provider takes the order
    BOOT = "boot"  # the machine runs and has an address
    KEYSCAN = "keyscan"  # its host keys are gathered
    ROLES = "roles"  # the roles of its label are ACTIVE
    DELETE = "delete"  # its machine is gone


class LaunchAction(StrEnum):
    """The steps of a launch."""

    WAIT = "wait"  # nothing to do before some seconds, or before an event
    WRITE_NAME = "write-name"
    FIND_MACHINE = "find-machine"
    CREATE_MACHINE = "create-machine"
    WRITE_ID = "write-id"
    LOOK = "look"
    WRITE_ADDRESS = "write-address"
    SCAN_KEYS = "scan-keys"
    WRITE_KEYS = "write-keys"
    WRITE_TESTING = "write-testing"
    ENROL = "enrol"
    SET_READY = "set-ready"
    FAIL = "fail"


class LaunchStep(msgspec.Struct, frozen=True, kw_only=True):
    """The next step of a launch."""

    action: LaunchAction
    seconds: float = 0.0  # of WAIT
    reason: str | None = None  # of WAIT and FAIL, for people
    party: str = MACHINE  # of FAIL: the party at fault
    keep: bool = False  # of FAIL: the machine stays for a person


class LaunchRefusal(msgspec.Struct, frozen=True):
    """A step that could not be done."""

    action: str  # the step
    reason: str
    party: str = MACHINE
    at: float = 0.0  # when


class MachineSight(msgspec.Struct, frozen=True, kw_only=True):
    """A machine as its provider showed it."""

    external_id: str
    state: str = "running"  # building, running, stopped, failed, deleting
    fault: str | None = None
    addressed: bool = False
    keyed: bool = False  # the provider told its host keys
    at: float = 0.0  # when it was looked at


class RolesSight(msgspec.Struct, frozen=True, kw_only=True):
    """The noderoles of a node below /ocb, by role, as they were read; and whether an annealer is running."""

    states: Mapping[str, State] = {}
    reasons: Mapping[str, str] = {}  # of those in ERROR
    annealers: bool = True


class LaunchSeconds(msgspec.Struct, frozen=True, kw_only=True):
    """The deadlines, in seconds."""

    create: float = 300.0
    boot: float = 300.0
    keyscan: float = 60.0
    roles: float = 1800.0
    delete: float = 600.0


class LaunchView(msgspec.Struct, frozen=True, kw_only=True):
    """A launch as its worker sees it. Observations are of the present hold of the node's lock."""

    record: PoolNode
    label: PoolLabel
    policy: PoolLabelPolicy
    seconds: LaunchSeconds
    now: float
    lent: bool = False  # the provider lends the machine, and neither makes nor deletes it
    drawn: bool = False  # the stamp was drawn in this hold, and the provider was not asked for a machine with it
    sought: bool = False  # the provider said that no machine has the stamp
    machine: MachineSight | None = None
    gone: bool = False  # the provider said that the machine of the record does not exist
    scanned: bool = False  # the host keys were gathered
    enrolled: bool = False  # the node below /ocb is there
    roles: RolesSight | None = None
    refused: LaunchRefusal | None = None  # the newest step, if it could not be done

    @property
    def facts(self) -> LaunchFacts:
        """The facts of the launch."""
        return launch_facts(self.record) or LaunchFacts(key="")


def fact(record: PoolNode) -> LaunchFact:
    """The newest fact.

    >>> fact(PoolNode(state=PoolNodeState.INIT, state_time=0.0))
    <LaunchFact.RECORDED: 'recorded'>
    """
    if record.state is PoolNodeState.TESTING:
        return LaunchFact.TESTING
    if record.state not in (PoolNodeState.INIT, PoolNodeState.BUILDING):
        return LaunchFact.OVER
    facts = launch_facts(record)
    if facts is None or not facts.key:
        return LaunchFact.RECORDED
    if record.external_id is None:
        return LaunchFact.NAMED
    if record.interface_ip is None:
        return LaunchFact.CREATED
    return LaunchFact.ADDRESSED if record.host_keys is None else LaunchFact.PINNED


def next_step(view: LaunchView) -> LaunchStep | None:
    """The next step; None when the launch has ended."""
    found = fact(view.record)
    return None if found is LaunchFact.OVER else STEPS[found](view)


def deadline(record: PoolNode, seconds: LaunchSeconds) -> tuple[LaunchDeadline, float] | None:
    """The deadline that runs, and its end; None if none does."""
    facts = launch_facts(record)
    name = DEADLINES.get(fact(record))
    if name is None or facts is None:
        return None
    return name, facts.since + float(getattr(seconds, name))


# -- after each fact --


def _recorded(view: LaunchView) -> LaunchStep:
    if (left := view.facts.not_before - view.now) > 0:
        return LaunchStep(action=LaunchAction.WAIT, seconds=left, reason="the launch before it failed")
    if view.lent and not view.policy.annealed:
        return _lent(view)
    return LaunchStep(action=LaunchAction.WRITE_NAME)


def _lent(view: LaunchView) -> LaunchStep:
    machine, refused = view.machine, view.refused
    if machine is not None:
        whole = machine.state == "running" and machine.addressed and machine.keyed
        return LaunchStep(action=LaunchAction.SET_READY if whole else LaunchAction.WRITE_NAME)
    if refused is None:
        return LaunchStep(action=LaunchAction.CREATE_MACHINE)
    if refused.party != HOST:
        return LaunchStep(action=LaunchAction.FAIL, reason=refused.reason, party=refused.party)
    end = max(view.record.created_time or 0.0, view.facts.not_before) + view.seconds.create
    if view.now >= end:
        return _over(view, LaunchDeadline.CREATE, f": {refused.reason}")
    return _again(view) or LaunchStep(action=LaunchAction.CREATE_MACHINE)


def _named(view: LaunchView) -> LaunchStep:
    refused = view.refused
    if view.machine is not None:
        return LaunchStep(action=LaunchAction.WRITE_ID)
    if refused is not None and refused.action == LaunchAction.CREATE_MACHINE and refused.party != HOST:
        return LaunchStep(action=LaunchAction.FAIL, reason=refused.reason, party=refused.party)
    if (wait := _late(view) or _again(view)) is not None:
        return wait
    if view.drawn:
        return LaunchStep(action=LaunchAction.CREATE_MACHINE)
    if view.sought:  # an order of a dead launcher may arrive late: its machine has the former stamp, and is a leak
        return LaunchStep(action=LaunchAction.WRITE_NAME)
    return LaunchStep(action=LaunchAction.FIND_MACHINE)


def _created(view: LaunchView) -> LaunchStep:
    machine = view.machine
    if view.gone:
        return LaunchStep(action=LaunchAction.FAIL, reason="the machine is gone")
    if machine is not None and machine.state in ("failed", "deleting"):
        reason = f"the machine is {machine.state}" + (f": {machine.fault}" if machine.fault else "")
        return LaunchStep(action=LaunchAction.FAIL, reason=reason)
    if machine is not None and machine.state == "running" and machine.addressed:
        return LaunchStep(action=LaunchAction.WRITE_ADDRESS)
    if (late := _late(view)) is not None:
        return late
    if (again := _again(view)) is not None:
        return again
    if machine is not None and (left := machine.at + _pause(view) - view.now) > 0:
        return LaunchStep(action=LaunchAction.WAIT, seconds=left, reason=f"the machine is {machine.state}")
    return LaunchStep(action=LaunchAction.LOOK)


def _addressed(view: LaunchView) -> LaunchStep:
    if view.scanned:
        return LaunchStep(action=LaunchAction.WRITE_KEYS)
    return _late(view) or _again(view) or LaunchStep(action=LaunchAction.SCAN_KEYS)


def _pinned(view: LaunchView) -> LaunchStep:
    return LaunchStep(action=LaunchAction.WRITE_TESTING if view.policy.annealed else LaunchAction.SET_READY)


def _testing(view: LaunchView) -> LaunchStep:
    if not view.enrolled or view.roles is None:
        refused = view.refused
        if refused is not None and refused.action == LaunchAction.ENROL and refused.party != HOST:
            keep = view.policy.keep_failed
            return LaunchStep(action=LaunchAction.FAIL, reason=refused.reason, party=refused.party, keep=keep)
        return _late(view) or _again(view) or LaunchStep(action=LaunchAction.ENROL)
    states = view.roles.states
    for role in sorted(states):
        if states[role] is State.ERROR:
            reason = f"role {role} is in ERROR" + (
                f": {view.roles.reasons[role]}" if role in view.roles.reasons else ""
            )
            return LaunchStep(action=LaunchAction.FAIL, reason=reason, keep=view.policy.keep_failed)
    if all(state is State.ACTIVE for state in states.values()):
        return LaunchStep(action=LaunchAction.SET_READY)
    if (late := _late(view)) is not None:
        return msgspec.structs.replace(late, keep=view.policy.keep_failed)
    found = deadline(view.record, view.seconds)
    left = found[1] - view.now if found is not None else LONGEST_LOOK_SECONDS
    return LaunchStep(action=LaunchAction.WAIT, seconds=left, reason=_waiting(view.roles))


#: The step after each fact.
STEPS: Final[Mapping[LaunchFact, Callable[[LaunchView], LaunchStep]]] = {
    LaunchFact.RECORDED: _recorded,
    LaunchFact.NAMED: _named,
    LaunchFact.CREATED: _created,
    LaunchFact.ADDRESSED: _addressed,
    LaunchFact.PINNED: _pinned,
    LaunchFact.TESTING: _testing,
}

#: The deadline that runs after each fact.
DEADLINES: Final[Mapping[LaunchFact, LaunchDeadline]] = {
    LaunchFact.NAMED: LaunchDeadline.CREATE,
    LaunchFact.CREATED: LaunchDeadline.BOOT,
    LaunchFact.ADDRESSED: LaunchDeadline.KEYSCAN,
    LaunchFact.TESTING: LaunchDeadline.ROLES,
}


def _late(view: LaunchView) -> LaunchStep | None:
    """The end of the launch, if its deadline is over."""
    found = deadline(view.record, view.seconds)
    if found is None or view.now < found[1]:
        return None
    name = found[0]
    cause = f": {view.refused.reason}" if view.refused is not None else ""
    if name is LaunchDeadline.ROLES and view.roles is not None:
        cause = f": {_waiting(view.roles)}"
    elif name is LaunchDeadline.BOOT and view.machine is not None and not cause:
        cause = f": the machine is {view.machine.state} and has {'an' if view.machine.addressed else 'no'} address"
        cause += f": {view.machine.fault}" if view.machine.fault else ""
    return _over(view, name, cause)


def _over(view: LaunchView, name: LaunchDeadline, cause: str) -> LaunchStep:
    """The end of the launch by a deadline."""
    seconds = float(getattr(view.seconds, name))
    party = view.refused.party if view.refused is not None else MACHINE
    return LaunchStep(action=LaunchAction.FAIL, reason=f"deadline {name} of {seconds:g} s is over{cause}", party=party)


def _again(view: LaunchView) -> LaunchStep | None:
    """The wait before a refused step is tried again."""
    if view.refused is None or (left := view.refused.at + AGAIN_SECONDS - view.now) <= 0:
        return None
    return LaunchStep(action=LaunchAction.WAIT, seconds=left, reason=view.refused.reason)


def _pause(view: LaunchView) -> float:
    """The seconds between two looks at a machine: a tenth of the time that it takes so far."""
    return min(LONGEST_LOOK_SECONDS, max(FIRST_LOOK_SECONDS, (view.now - view.facts.since) / 10))


def _waiting(roles: RolesSight) -> str:
    """The roles that are not ACTIVE."""
    waiting = sorted(role for role, state in roles.states.items() if state is not State.ACTIVE)
    said = ", ".join(f"{role} is {roles.states[role]}" for role in waiting[:3])
    more = f" and {len(waiting) - 3} more roles are not ACTIVE" if len(waiting) > 3 else ""
    return f"{said}{more}" + ("" if roles.annealers else "; no annealer is running, and one must be started")


def ending(party: str) -> PoolNodeState:
    """The state of a node after a launch that ended by the fault of a party: only some count as failures.

    >>> ending("quota"), ending("machine")
    (<PoolNodeState.ABORTED: 'aborted'>, <PoolNodeState.FAILED: 'failed'>)
    """
    return PoolNodeState.ABORTED if party in (QUOTA, HOST, IMAGE) else PoolNodeState.FAILED
