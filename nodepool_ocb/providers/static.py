"""Driver static: machines that exist already. Each slot of a machine is a node; no machine is made or deleted.

A creation checks that the machine answers, and gathers its host keys. Keys that the file pins must be among them; then those
alone are handed out. If annealers act on the node, the runner's state on the machine is renewed first. Keys that killed leases
left in ``authorized_keys`` are removed, if this host can log in. Before each hand-out ``check`` asks the machine again, by a
kept connection if this host can log in. Slots of one machine that are asked about at the same time share an answer
(shared.py). The external id is USER@NAME:PORT#SLOT.
"""

from __future__ import annotations

import contextlib
import ipaddress
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

from msgspec.structs import replace

from nodepool_ocb.config import SshSettings
from nodepool_ocb.jigs.jig import Unreachable
from nodepool_ocb.jigs.ssh import leasekeys
from nodepool_ocb.jigs.ssh.faults import OwnFault
from nodepool_ocb.jigs.ssh.hostkeys import listens
from nodepool_ocb.jigs.ssh.keys import NoKey
from nodepool_ocb.jigs.ssh.link import Broken, Link
from nodepool_ocb.jigs.ssh.pool import Pool
from nodepool_ocb.jigs.ssh.renewing import renew
from nodepool_ocb.model.records import Node
from nodepool_ocb.pool.configuration import LaunchProvider, PoolLabel, Resources, StaticMachine
from nodepool_ocb.pool.views import ProviderQuota
from nodepool_ocb.providers.answers import host_key_faults, is_host
from nodepool_ocb.providers.keyscan import host_keys, refused
from nodepool_ocb.providers.launchoptions import option_faults
from nodepool_ocb.providers.machines import LaunchParty, Machine, MachineOrder, MachineRefused, MachineStamp
from nodepool_ocb.providers.shared import SharedQuestions

WITH_SSH: Final = ("ssh", "network_cli")
LOGIN_SECONDS: Final = 600.0  # after a refused login; sshd may count them
KEYS_SECONDS: Final = 10.0  # beyond the time-out of a machine: another writer may have the file
KEPT_SECONDS: Final = 86400.0  # that a connection is kept without use


def place(machine: StaticMachine) -> str:
    """The name of a machine among all: USER@NAME:PORT."""
    return f"{machine.username}@{machine.name}:{machine.port}"


class StaticMachines:
    """The machines of all pools of a provider. Connections are shared by the slots of a machine."""

    deletes: Final = False

    def __init__(self, provider: LaunchProvider, ssh: SshSettings) -> None:
        self._machines = {place(each): each for each in _machines(provider)}
        self._ssh = ssh
        self._pools: dict[float, Pool] = {}
        self._not_before: dict[str, float] = {}  # of a login, by machine; monotonic
        self._lock = threading.Lock()
        self._scans: SharedQuestions[str, tuple[str, ...] | MachineRefused] = SharedQuestions()
        self._logins: SharedQuestions[tuple[str, tuple[str, ...]], Unreachable | None] = SharedQuestions()

    @staticmethod
    def faults(provider: LaunchProvider) -> list[str]:
        return list(_faults(provider))

    @staticmethod
    def resources(provider: LaunchProvider, label: PoolLabel) -> Resources:
        del provider
        return {"instances": 1.0} | dict(label.resources)

    def create(self, order: MachineOrder) -> Machine | MachineRefused:
        return self.renew([order])[0]

    def renew(self, orders: Sequence[MachineOrder]) -> list[Machine | MachineRefused]:
        """The answers to orders of slots of one machine, which is asked once for all."""
        machine = self._ordered(orders[0])
        if machine is None:
            text = f"machine {orders[0].machine} with label {orders[0].label.name} is not in the file"
            return [MachineRefused(text, LaunchParty.REQUEST)] * len(orders)
        keys = self._prepared(machine, orders)
        return [
            MachineRefused(f"machine {place(machine)} has no slot {order.slot}", LaunchParty.REQUEST)
            if (order.slot or 0) not in range(machine.slots)
            else keys
            if isinstance(keys, MachineRefused)
            else _lent(machine, order.slot or 0, order, keys)
            for order in orders
        ]

    def find(self, stamp: MachineStamp) -> None:
        """None: a machine carries no stamp, and a second creation of a slot does no harm."""

    def look(self, external_id: str) -> Machine | None:
        machine = self._of(external_id)
        slot = external_id.rpartition("#")[2]
        if machine is None or not slot.isdecimal() or int(slot) >= machine.slots:
            return None
        return _machine(machine, int(slot), None, _known(machine))

    def delete(self, external_id: str, stamp: MachineStamp) -> None:
        """Only the next creation of the slot changes the machine."""

    def list(self) -> tuple[Machine, ...]:
        return ()

    def quota(self) -> ProviderQuota:
        return ProviderQuota(read=time.time())

    def check(self, external_id: str, host_keys: tuple[str, ...]) -> MachineRefused | None:
        machine = self._of(external_id)
        if machine is None:
            return MachineRefused(f"machine {external_id} is not in the file any more", LaunchParty.REQUEST)
        if not machine.host_key_checking:
            return None
        try:
            if machine.connection_type in WITH_SSH and host_keys and self._may_log_in(machine):
                answer = self._logged_in(machine, host_keys)
                if answer is None or answer.step != "authenticate":
                    return None if answer is None else refused(answer)
                with self._lock:
                    self._not_before[place(machine)] = time.monotonic() + LOGIN_SECONDS
            if machine.connection_type in WITH_SSH and host_keys:
                return _shown(machine, host_keys)
            found = listens(machine.name, machine.port, machine.timeout_seconds, machine.connection_type in WITH_SSH)
        except OwnFault as fault:
            return MachineRefused(str(fault), LaunchParty.HOST)
        return None if found is None else refused(found)

    def close(self) -> None:
        for pool in list(self._pools.values()):
            pool.close()

    # -- machines of the file --

    def _ordered(self, order: MachineOrder) -> StaticMachine | None:
        """The machine that the order names; of several with this name, the one with the label."""
        named = [
            each
            for name, each in self._machines.items()
            if order.machine in (name, each.name) and each in order.pool.machines
        ]
        return next((each for each in named if order.label.name in each.labels), None)

    def _of(self, external_id: str) -> StaticMachine | None:
        """The machine of an id of ours, or of Nodepool's, which is the machine's name."""
        found = self._machines.get(external_id.rpartition("#")[0])
        return found or next((each for each in self._machines.values() if each.name == external_id), None)

    # -- machines --

    def _keys(self, machine: StaticMachine) -> tuple[str, ...] | MachineRefused:
        """The host keys to hand out; the machine answered, unless the file does without host keys."""
        pinned = tuple(map(_key, machine.host_keys))
        if machine.connection_type not in WITH_SSH:
            try:
                found = listens(machine.name, machine.port, machine.timeout_seconds, banner=False)
            except OwnFault as fault:
                return MachineRefused(str(fault), LaunchParty.HOST)
            return () if found is None else refused(found)
        if not machine.host_key_checking:
            return pinned
        kinds = {key.split(" ")[0] for key in pinned}
        scan = partial(host_keys, machine.name, machine.port, machine.timeout_seconds, kinds)
        keys = self._scans.ask(place(machine), scan)
        if isinstance(keys, MachineRefused) or set(pinned) <= set(keys):
            return keys if isinstance(keys, MachineRefused) or not pinned else pinned
        missing = next(key for key in pinned if key not in keys)
        return MachineRefused(
            f"{place(machine)} does not show the host key {missing[:100]} that the file pins; it shows "
            f"{', '.join(key[:100] for key in keys)}: compare them"
        )

    def _renew(self, machine: StaticMachine, keys: tuple[str, ...]) -> MachineRefused | None:
        if machine.slots > 1:
            return MachineRefused(
                f"{place(machine)} has {machine.slots} slots, and annealers act on a machine with one slot alone",
                LaunchParty.REQUEST,
            )
        settings = replace(self._ssh, connect_timeout_seconds=machine.timeout_seconds)
        try:
            found = renew(place(machine), _node(machine, keys), settings)
        except OwnFault as fault:
            return MachineRefused(f"{place(machine)}: its runs were not removed: {fault}", LaunchParty.HOST)
        return None if found is None else refused(found)

    def _prepared(self, machine: StaticMachine, orders: Sequence[MachineOrder]) -> tuple[str, ...] | MachineRefused:
        """The host keys, after all that must be done on the machine before these slots are lent."""
        slots = sorted({order.slot or 0 for order in orders} & set(range(machine.slots)))
        keys = self._keys(machine) if slots else ()
        if isinstance(keys, MachineRefused) or not slots:
            return keys
        annealed = any(order.annealed for order in orders)
        fault = (self._renew(machine, keys) if annealed else None) or self._withdraw_keys(machine, slots, keys)
        return keys if fault is None else fault

    def _withdraw_keys(
        self, machine: StaticMachine, slots: Sequence[int], keys: tuple[str, ...]
    ) -> MachineRefused | None:
        """Remove the keys that leases of the slots left there. Without a login for this host, they stay until they expire."""
        if machine.connection_type != "ssh" or not keys or not self._may_log_in(machine):
            return None
        pool, seconds = self._pool(machine.timeout_seconds), machine.timeout_seconds + KEYS_SECONDS
        try:
            for anew in (False, True):
                link = pool.take(place(machine), _node(machine, keys), anew)
                if isinstance(link, Unreachable):
                    return self._unreached(machine, link)
                try:
                    fault = leasekeys.withdraw(link, slots, machine.slots, seconds)
                    return None if fault is None else MachineRefused(f"{place(machine)}: {fault}")
                except Broken as broken:
                    if anew:
                        return refused(broken.unreachable)
                finally:
                    _give_back(pool, link)
        except NoKey:
            return None
        except OwnFault as fault:
            return MachineRefused(f"{place(machine)}: keys of ended leases were not removed: {fault}", LaunchParty.HOST)
        return None

    def _unreached(self, machine: StaticMachine, answer: Unreachable) -> MachineRefused | None:
        """The refusal of a machine that cannot be reached; None if it only refuses the login, which is not tried again soon."""
        if answer.step != "authenticate":
            return refused(answer)
        with self._lock:
            self._not_before[place(machine)] = time.monotonic() + LOGIN_SECONDS
        return None

    def _may_log_in(self, machine: StaticMachine) -> bool:
        with self._lock:
            return time.monotonic() >= self._not_before.get(place(machine), 0.0)

    def _logged_in(self, machine: StaticMachine, keys: tuple[str, ...]) -> Unreachable | None:
        """None if the machine answers over a connection that is logged in. A kept connection that does not is made anew."""
        return self._logins.ask((place(machine), keys), partial(self._link_answers, machine, keys))

    def _link_answers(self, machine: StaticMachine, keys: tuple[str, ...]) -> Unreachable | None:
        pool = self._pool(machine.timeout_seconds)
        for anew in (False, True):
            try:
                link = pool.take(place(machine), _node(machine, keys), anew)
            except NoKey as lacking:
                return Unreachable("authenticate", str(lacking))
            if isinstance(link, Unreachable):
                return link
            try:
                if link.fresh or link.answers(machine.timeout_seconds):
                    return None
            finally:
                _give_back(pool, link)
        return Unreachable("run", f"{place(machine)} does not answer within {machine.timeout_seconds:g} s")

    def _pool(self, timeout_seconds: float) -> Pool:
        """The connections with this time-out."""
        with self._lock:
            if timeout_seconds not in self._pools:
                settings = replace(
                    self._ssh,
                    connect_timeout_seconds=timeout_seconds,
                    idle_seconds=KEPT_SECONDS,
                    first_contact="pin",
                    become=None,
                )
                self._pools[timeout_seconds] = Pool(settings)
            return self._pools[timeout_seconds]


def _shown(machine: StaticMachine, keys: tuple[str, ...]) -> MachineRefused | None:
    """None if the machine shows one of these host keys; no login is needed."""
    found = host_keys(machine.name, machine.port, machine.timeout_seconds, {keys[0].split(" ")[0]})
    if isinstance(found, MachineRefused):
        return found
    if set(found) & set(keys):
        return None
    return MachineRefused(f"{place(machine)} shows the host key {found[0][:100]}, which its node does not have")


def _give_back(pool: Pool, link: Link) -> None:
    if not link.alive:
        pool.discard(link)
    pool.give_back(link)


def _machines(provider: LaunchProvider) -> Iterator[StaticMachine]:
    for pool in provider.pools.values():
        yield from pool.machines


def _faults(provider: LaunchProvider) -> Iterator[str]:
    """Those beyond the reading of the file, which refuses odd numbers and a machine that stands twice in a pool."""
    yield from option_faults(provider)
    seen: dict[str, str] = {}
    for pool in provider.pools.values():
        for machine in pool.machines:
            path = f"pools[{pool.name}].nodes[{machine.name}]"
            first = seen.setdefault(place(machine), pool.name)
            if first != pool.name:
                yield f"{path}: machine {place(machine)} stands in pool {first} too; name it once, with all labels"
            if not is_host(machine.name):
                yield f"{path}: `{machine.name}` is neither an address nor a host name; correct the name"
            for key in machine.host_keys:
                if any(host_key_faults((_key(key),))):
                    yield f"{path}.host-key: must be TYPE BASE64, as in ssh-keyscan, and is text {key[:40]!r}"


def _key(text: str) -> str:
    """A host key of the file without its comment."""
    return " ".join(text.split()[:2])


def _known(machine: StaticMachine) -> tuple[str, ...] | None:
    """The host keys by the file alone; None: they are to be gathered."""
    if machine.host_keys or not machine.host_key_checking or machine.connection_type not in WITH_SSH:
        return tuple(map(_key, machine.host_keys))
    return None


def _node(machine: StaticMachine, keys: tuple[str, ...]) -> Node:
    """The machine as the room of SSH knows one."""
    host = f"[{machine.name}]" if ":" in machine.name else machine.name
    return Node(addresses=(f"{host}:{machine.port}",), user=machine.username, host_keys=keys)


def _lent(machine: StaticMachine, slot: int, order: MachineOrder, keys: tuple[str, ...]) -> Machine:
    return replace(
        _machine(machine, slot, order.stamp, keys), resources={"instances": 1.0} | dict(order.label.resources)
    )


def _machine(machine: StaticMachine, slot: int, stamp: MachineStamp | None, keys: tuple[str, ...] | None) -> Machine:
    address = _address(machine)
    return Machine(
        external_id=f"{place(machine)}#{slot}",
        name=machine.name,
        stamp=stamp,
        address=machine.name,
        port=machine.port,
        public_ipv4=address if address and ":" not in address else None,
        public_ipv6=address if address and ":" in address else None,
        host_keys=keys,
    )


def _address(machine: StaticMachine) -> str | None:
    """The first address of its name; None where the resolver knows none now: the name is the address to connect to."""
    with contextlib.suppress(ValueError):
        return str(ipaddress.ip_address(machine.name))
    with contextlib.suppress(OSError):
        return str(socket.getaddrinfo(machine.name, machine.port, type=socket.SOCK_STREAM)[0][4][0])
    return None
