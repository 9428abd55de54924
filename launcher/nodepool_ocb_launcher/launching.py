"""The launch of one node: carries out the steps of ``pool.launches.launching``, one at a time, with the node's lock held."""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from nodepool_ocb.engine.enrolling import Enrolment
from nodepool_ocb.model.journal import PoolVerb
from nodepool_ocb.model.pool import LaunchFacts, PoolNode, PoolNodeState, launch_facts
from nodepool_ocb.model.records import Node
from nodepool_ocb.pool.capacity.judging import launched_from
from nodepool_ocb.pool.configuration import LaunchProvider, PoolLabel, ProviderPool
from nodepool_ocb.pool.launches import launching
from nodepool_ocb.pool.launches.hostnames import machine_hostname
from nodepool_ocb.pool.launches.launching import (
    LaunchAction,
    LaunchRefusal,
    LaunchStep,
    LaunchView,
    MachineSight,
    RolesSight,
)
from nodepool_ocb.providers.calls import MachineCalls
from nodepool_ocb.providers.keyscan import host_keys
from nodepool_ocb.providers.machines import Machine, MachineOrder, MachineRefused
from nodepool_ocb.store.pool.nodes import HeldNode
from nodepool_ocb.telemetry import metrics
from nodepool_ocb.views.history import pooling
from nodepool_ocb_launcher.context import LauncherContext, label_of
from nodepool_ocb_launcher.records import SSH_PORT, address_fields, lent_fields

log = logging.getLogger(__name__)

KEY_BYTES: Final = 6  # of chance in the key of an attempt
SCAN_SECONDS: Final = 10.0  # of one attempt to gather host keys


class LaunchParts(msgspec.Struct, frozen=True):
    """The configured parts of a launch."""

    provider: LaunchProvider
    pool: ProviderPool
    label: PoolLabel
    calls: MachineCalls


def parts(context: LauncherContext, record: PoolNode) -> LaunchParts | None:
    """The parts for a node; None if the configuration has its provider, its pool or its label no more."""
    place = context.place(record.provider, record.pool)
    label = None if place is None else label_of(place[1], record.type)
    calls = context.providers.get(record.provider or "")
    return None if place is None or label is None or calls is None else LaunchParts(*place, label, calls)


def launch_identity(node: str, facts: LaunchFacts) -> str:
    """The identity of a launch, as its node below /ocb has it."""
    return f"{node}-{facts.key}"


def launch_order(
    context: LauncherContext,
    node: str,
    record: PoolNode,
    found: LaunchParts,
    halt: threading.Event,
    image: str | None = None,
) -> MachineOrder:
    """The order of a machine for the record of a node; ``image``: the provider's id of the image."""
    facts, annealed = launch_facts(record) or LaunchFacts(key=""), context.policy(found.label.name).annealed
    login = f"{record.username}@{facts.machine}:{record.connection_port}"  # of a static machine
    return MachineOrder(
        name=record.hostname or node,
        stamp=context.stamp(record.provider or "", record.pool or "", node, facts.key),
        label=found.label,
        pool=found.pool,
        image=image,
        username=record.username,
        annealed=annealed,
        az=record.az,
        machine=None if facts.machine is None else login,
        slot=record.slot,
        public_keys=context.public_keys() if annealed else (),
        stop=halt,
        timeout_seconds=found.provider.launch_seconds,
    )


class Launch:
    """The observations of a launch in one hold of the lock, and its steps."""

    def __init__(self, context: LauncherContext, node: HeldNode, found: LaunchParts) -> None:
        self._context, self._node, self._parts = context, node, found
        self._drawn = False
        self._sought = False
        self._machine: Machine | None = None
        self._machine_at = 0.0
        self._gone = False
        self._image: str | None = None  # the provider's id of the image, chosen with the stamp
        self._keys: tuple[str, ...] | None = None
        self._enrolled = False
        self._roles: RolesSight | None = None
        self._refused: LaunchRefusal | None = None
        self._halt = context.halt

    @property
    def facts(self) -> LaunchFacts:
        """The facts of the record."""
        return launch_facts(self._node.record) or LaunchFacts(key="")

    def step(self) -> LaunchStep | None:
        """The next step; None when the launch has ended."""
        return launching.next_step(self._view())

    def take(self, step: LaunchStep) -> None:
        """Carry out a step, except WAIT. Raises the exceptions of ``HeldNode.note``."""
        before = self._refused
        self._steps[step.action](self, step)
        if self._refused is before:
            self._refused = None

    def look_again(self) -> None:
        """The noderoles of the node have changed, or it was created."""
        self._roles = None
        if self._refused is not None and self._refused.action == LaunchAction.ENROL:
            self._refused = None

    def _view(self) -> LaunchView:
        machine, found = self._machine, self._parts
        policy = self._context.policy(found.label.name)
        return LaunchView(
            record=self._node.record,
            label=found.label,
            policy=policy,
            seconds=self._context.seconds(found.provider, policy),
            now=self._context.session.now(),
            lent=found.calls.lends and not found.calls.deletes,
            drawn=self._drawn,
            sought=self._sought,
            machine=None
            if machine is None
            else MachineSight(
                external_id=machine.external_id,
                state=machine.state,
                fault=machine.fault,
                addressed=machine.address is not None,
                keyed=machine.host_keys is not None,
                at=self._machine_at,
            ),
            gone=self._gone,
            scanned=self._keys is not None,
            enrolled=self._enrolled,
            roles=self._roles,
            refused=self._refused,
        )

    # -- calls of the provider --

    def _find(self, step: LaunchStep) -> None:
        self._seen(step, self._parts.calls.find(self._stamp()))
        if self._machine is None and self._refused is None:
            self._sought = True

    def _create(self, step: LaunchStep) -> None:
        found = self._parts
        order = launch_order(self._context, self._node.id, self._node.record, found, self._halt, self._image)
        self._drawn = False  # from now on a machine may have this stamp
        self._seen(step, found.calls.create(order, lambda: self._node.held))

    def _look(self, step: LaunchStep) -> None:
        answer = self._parts.calls.look(self._node.record.external_id or "")
        if isinstance(answer, Machine) and answer.stamp not in (None, self._stamp()):
            answer = None  # the provider gave the id to a machine of another launch
        self._seen(step, answer)
        self._gone = answer is None

    def _seen(self, step: LaunchStep, answer: Machine | MachineRefused | None) -> None:
        now = self._context.session.now()
        if isinstance(answer, MachineRefused):
            self._refused = LaunchRefusal(step.action, answer.reason, answer.party, now)
        elif answer is not None:
            self._machine, self._machine_at, self._refused = answer, now, None
        else:
            self._refused = None

    def _scan(self, step: LaunchStep) -> None:
        record = self._node.record
        answer = host_keys(record.interface_ip or "", record.connection_port or SSH_PORT, SCAN_SECONDS)
        if isinstance(answer, MachineRefused):
            self._refused = LaunchRefusal(step.action, answer.reason, answer.party, self._context.session.now())
        else:
            self._keys, self._refused = answer, None

    # -- writes --

    def _write_name(self, _step: LaunchStep) -> None:
        context, found, record = self._context, self._parts, self._node.record
        key = secrets.token_hex(KEY_BYTES)
        name = (
            self.facts.machine or self._formatted_name()
        )  # Nodepool finds a static machine by its name, user and port
        image = None
        if found.label.diskimage is not None:
            image = launched_from(context.images, found.pool, found.label.diskimage)
            if image is None:
                reason = f"image {found.label.diskimage} has no ready upload at {found.provider.name}"
                self._fail(LaunchStep(action=LaunchAction.FAIL, reason=reason, party=launching.IMAGE))
                return
        fields: dict[str, Any] = {"hostname": name, "driver_data": self._with(key=key)}
        if image is not None:
            fields["image_id"] = image.path
            fields["username"] = record.username or image.username
            fields["python_path"] = record.python_path or image.python_path
            fields["shell_type"] = record.shell_type or image.shell_type
        self._node.enter(PoolNodeState.BUILDING, **fields)
        self._image = image.external_id if image is not None else None
        self._drawn, self._sought = True, False

    def _formatted_name(self) -> str:
        """The name by ``hostname-format``: that of a machine which is made, and of a node below /ocb."""
        context, found = self._context, self._parts
        return machine_hostname(
            found.provider.hostname_format,
            label=found.label.name,
            provider=found.provider.name,
            pool=found.pool.name,
            node=self._node.id,
            domain=context.admin_domain if context.policy(found.label.name).annealed else None,
        )

    def _write_id(self, _step: LaunchStep) -> None:
        """Record the id, with the address if the machine has one already: one write instead of two."""
        assert self._machine is not None
        addressed = self._machine.state == "running" and self._machine.address is not None
        named = {"hostname": self._machine.name} if self._parts.calls.of_fleet else {}
        self._write(external_id=self._machine.external_id, **named, **(self._address() if addressed else {}))

    def _write_address(self, _step: LaunchStep) -> None:
        self._write(**self._address())

    def _address(self) -> dict[str, Any]:
        assert self._machine is not None
        return address_fields(self._node.record, self._machine, self._parts.label)

    def _write_keys(self, _step: LaunchStep) -> None:
        self._write(host_keys=self._keys)

    def _write(self, **fields: Any) -> None:
        self._node.note(driver_data=self._with(), **fields)

    def _with(self, **facts: Any) -> dict[str, Any]:
        """The facts with these changes; deadlines count from now on."""
        now = self._context.session.now()
        known: dict[str, Any] = msgspec.to_builtins(replace(self.facts, **{"since": now, **facts}))
        return known

    def _write_testing(self, _step: LaunchStep) -> None:
        lent, record = self.facts.machine is not None, self._node.record
        name = record.external_id if self._parts.calls.of_fleet else record.hostname
        facts = self._with(fqdn=self._formatted_name() if lent else name)
        self._node.enter(PoolNodeState.TESTING, driver_data=facts)

    def _set_ready(self, _step: LaunchStep) -> None:
        record, now = self._node.record, self._context.session.now()
        seconds = max(0.0, now - (record.created_time or now))
        said = f"it was ready after {seconds:.1f} s"
        fields: dict[str, Any] = {}
        if record.external_id is None:  # a machine that is lent: no fact of it was recorded before
            assert self._machine is not None
            fields = lent_fields(record, self._machine, self._parts.label)
            record = replace(record, **fields)
        entry = pooling.of_node(self._context.author(), PoolVerb.LAUNCH_NODE, self._node.id, record, said)
        self._node.finish(PoolNodeState.READY, entry, reason=None, **fields)
        self._context.roster.forget(self.facts.fqdn or "")
        provider = self._parts.provider.name
        metrics.LAUNCHES.labels(provider, "ready").inc()
        metrics.LAUNCH_SECONDS.labels(provider).observe(seconds)
        log.info("node %s is ready at %s", self._node.id, provider)

    def _fail(self, step: LaunchStep) -> None:
        state = PoolNodeState.HOLD if step.keep else launching.ending(step.party)
        facts: dict[str, Any] = {"party": str(step.party)}
        if step.party == launching.QUOTA:
            facts["refusals"] = self.facts.refusals + 1
            facts["beside"] = self._context.machines.get(self._parts.provider.name, 0)
        fields: dict[str, Any] = {"reason": step.reason, "driver_data": self._with(**facts)}
        if step.keep:
            fields["comment"] = step.reason
        entry = None
        if state is not PoolNodeState.ABORTED:
            record = self._node.record
            entry = pooling.of_node(self._context.author(), PoolVerb.FAIL_NODE, self._node.id, record, step.reason)
        self._node.enter(state, entry, **fields)
        metrics.LAUNCHES.labels(self._parts.provider.name, str(state)).inc()
        log.warning("node %s %s: %s", self._node.id, "is kept" if step.keep else state, step.reason)

    def _enrol(self, step: LaunchStep) -> None:
        answer = self._context.roster.enrol(self._enrolment())
        if isinstance(answer, RolesSight):
            self._enrolled, self._roles, self._refused = True, answer, None
            return
        party = launching.HOST if answer is None else launching.MACHINE
        reason = answer or f"{self.facts.fqdn} is being created"
        self._refused = LaunchRefusal(step.action, reason, party, self._context.session.now())

    def _enrolment(self) -> Enrolment:
        """The node below /ocb, with the address and the host keys of the machine."""
        record, policy = self._node.record, self._context.policy(self._parts.label.name)
        host, port = record.interface_ip or "", record.connection_port or SSH_PORT
        bracketed = f"[{host}]" if ":" in host else host
        node = Node(
            deployment=policy.deployment,
            available=self._context.settings.nodes.available,
            addresses=(bracketed if port == SSH_PORT else f"{bracketed}:{port}",),
            user=record.username or "root",
            host_keys=record.host_keys or (),
        )
        launch = launch_identity(self._node.id, self.facts)
        machine = self._parts.calls.of_fleet
        return Enrolment(fqdn=self.facts.fqdn or "", launch=launch, node=node, roles=policy.roles, machine=machine)

    def _stamp(self) -> Any:
        record = self._node.record
        return self._context.stamp(record.provider or "", record.pool or "", self._node.id, self.facts.key)

    _steps: Final[Mapping[LaunchAction, Callable[[Launch, LaunchStep], None]]] = {
        LaunchAction.WRITE_NAME: _write_name,
        LaunchAction.FIND_MACHINE: _find,
        LaunchAction.CREATE_MACHINE: _create,
        LaunchAction.WRITE_ID: _write_id,
        LaunchAction.LOOK: _look,
        LaunchAction.WRITE_ADDRESS: _write_address,
        LaunchAction.SCAN_KEYS: _scan,
        LaunchAction.WRITE_KEYS: _write_keys,
        LaunchAction.WRITE_TESTING: _write_testing,
        LaunchAction.ENROL: _enrol,
        LaunchAction.SET_READY: _set_ready,
        LaunchAction.FAIL: _fail,
    }
