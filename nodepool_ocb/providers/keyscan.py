"""The host keys of a launched machine: the one function that the launcher and all drivers use."""

from __future__ import annotations

from collections.abc import Collection

from nodepool_ocb.jigs.jig import Unreachable
from nodepool_ocb.jigs.ssh.faults import OwnFault
from nodepool_ocb.jigs.ssh.hostkeys import scan
from nodepool_ocb.providers.machines import LaunchParty, MachineRefused


def host_keys(
    address: str, port: int, timeout_seconds: float, kinds: Collection[str] = ()
) -> tuple[str, ...] | MachineRefused:
    """The machine's host keys as ``TYPE BASE64``, one of each kind, in about this time. A fault of this host is its party."""
    try:
        found = scan(address, port, timeout_seconds, kinds)
    except OwnFault as fault:
        return MachineRefused(str(fault), LaunchParty.HOST)
    return refused(found) if isinstance(found, Unreachable) else found


def refused(found: Unreachable) -> MachineRefused:
    """The refusal that an unreachable machine means. A fault of the path counts as one of the machine."""
    return MachineRefused(found.why, LaunchParty.MACHINE)
