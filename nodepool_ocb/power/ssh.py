"""SSH: a login to the host that runs the machine, and the commands that the operator states for it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import Final

from nodepool_ocb.config import SshSettings
from nodepool_ocb.engine import addressing
from nodepool_ocb.jigs.jig import Unreachable
from nodepool_ocb.jigs.ssh import asking
from nodepool_ocb.jigs.ssh.faults import OwnFault
from nodepool_ocb.jigs.ssh.link import Broken, Link
from nodepool_ocb.jigs.ssh.pool import Pool
from nodepool_ocb.model.power import Powered
from nodepool_ocb.model.records import Node
from nodepool_ocb.power.driver import CALL_SECONDS, Endpoint, FaultKind, PowerFault

COMMANDS: Final = ("status", "on", "off", "network_once")
_ENDED: Final = re.compile(r"(?s)(.*?)\n?exit ([0-9]+)\n\Z")


def faults(address: str, options: Mapping[str, str]) -> list[str]:
    """One sentence for each fault of an address and options."""
    found = []
    user, at, host = address.rpartition("@")
    if at and not user:
        found.append(f"address: {address!r} has no user before @; write [USER@]HOST[:PORT]")
    try:
        addressing.canonical(host)
    except ValueError as error:
        found.append(str(error))
    if (key := options.get("host_key")) is None or len(key.split()) < 2:
        found.append("options: host_key is needed, the public key of the host: ssh-ed25519 AAAA...")
    missing = [name for name in COMMANDS if name != "network_once" and not options.get(name)]
    found += [f"options: {name} is needed: {name}=COMMAND" for name in missing]
    return found


class SshPower:
    """The commands of one machine at one host."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint, self._pool = endpoint, Pool(endpoint.login or SshSettings())
        user, _, host = endpoint.address.rpartition("@")
        self._host = Node(addresses=(host,), user=user or "root", host_keys=(endpoint.options.get("host_key", ""),))

    def status(self) -> Powered:
        """The last word that the command prints."""
        words = self._run("status").split()
        return Powered(words[-1].lower()) if words and words[-1].lower() in ("on", "off") else Powered.UNKNOWN

    def on(self) -> None:
        """Switch it on."""
        self._run("on")

    def off(self) -> None:
        """Switch it off without asking its system."""
        self._run("off")

    def network_once(self) -> None:
        """Make the next boot one from the network."""
        self._run("network_once")

    def set_password(self, password: str) -> None:  # noqa: ARG002
        """It has none."""
        raise PowerFault(FaultKind.REFUSED, f"driver {self._endpoint.driver} has no password")

    def close(self) -> None:
        """End the connection."""
        self._pool.close()

    def _run(self, name: str) -> str:
        command = self._endpoint.options.get(name)
        if command is None:
            raise PowerFault(
                FaultKind.REFUSED, f"{self._endpoint.address} has no command for {name}; set options {name}=COMMAND"
            )
        said = self._asked(f"sh -c {shlex.quote(command)} 2>&1 </dev/null; printf '\\nexit %s\\n' $?")
        ended = _ENDED.search(said)
        if ended is None:
            raise PowerFault(
                FaultKind.UNREACHABLE, f"{self._endpoint.address}: the command for {name} has no end in time"
            )
        if ended[2] != "0":
            line = " ".join(ended[1].split())[-300:]
            raise PowerFault(
                FaultKind.REFUSED, f"{self._endpoint.address}: the command for {name} ended with {ended[2]}: {line}"
            )
        return ended[1]

    def _asked(self, command: str) -> str:
        address = self._endpoint.address
        try:
            link = self._pool.take(address, self._host)
            if not isinstance(link, Link):
                raise self._unreachable(link)
            try:
                said = asking.ask(link, command, CALL_SECONDS)
            except BaseException:
                self._pool.discard(link)
                raise
            self._pool.give_back(link)
        except OwnFault as error:
            raise PowerFault(FaultKind.OWN, f"{address} is not reached from this host: {error}") from error
        except Broken as error:
            raise PowerFault(FaultKind.UNREACHABLE, f"{address} does not answer: {error}") from error
        return said

    def _unreachable(self, said: Unreachable) -> PowerFault:
        if said.step in ("authenticate", "host key"):
            return PowerFault(FaultKind.LOGIN, f"{self._endpoint.address} refuses the login: {said.why}")
        return PowerFault(FaultKind.UNREACHABLE, f"{self._endpoint.address} does not answer: {said.why}")


DRIVER: Final = SshPower
