"""The contract of a power driver: four short commands. A driver only sends them; its caller waits for their effect.

Each command is repeatable: on, off and network_once name a state, and none of them toggles. So a caller that lost an answer
sends the command again. A power cycle is off, then on, and belongs to the caller, which records each half.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from importlib import import_module
from typing import Final, Protocol

import msgspec

from nodepool_ocb.config import SshSettings
from nodepool_ocb.documents.suggest import nearest
from nodepool_ocb.errors import Invalid, OcbError
from nodepool_ocb.model.power import Powered

CALL_SECONDS: Final = 20.0  # a command or a question, at most
CONNECT_SECONDS: Final = 5.0


class FaultKind(StrEnum):
    """The kinds of faults of a command. None of them says that the machine is on or off."""

    UNREACHABLE = "unreachable"  # no answer, or none in time
    LOGIN = "login"  # the BMC refuses the user or the password
    REFUSED = "refused"  # the BMC answered, and does not do it
    NO_EFFECT = "no effect"  # it was accepted, and the machine stayed as it was
    MANUAL = "manual"  # a person has to do it
    OWN = "own host"  # this host lacks a program or a file


class PowerFault(OcbError):
    """A command that was not done; the text names the BMC and the next step."""

    def __init__(self, fault: FaultKind, text: str) -> None:
        super().__init__(text)
        self.fault = fault


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """A BMC or a host with its access; the password is in plain text and stays in memory."""

    driver: str
    address: str = ""
    username: str = ""
    password: str = ""
    options: Mapping[str, str] = {}
    login: SshSettings | None = None  # the keys and times of a login to the host

    def __repr__(self) -> str:
        return f"Endpoint({self.driver} {self.address})"  # without the password, for it is logged


class Power(Protocol):
    """One machine's power. Made for one command or a few; each call raises PowerFault, and takes CALL_SECONDS at most."""

    def status(self) -> Powered:
        """The state now."""

    def on(self) -> None:
        """Switch it on; no effect on a machine that is on."""

    def off(self) -> None:
        """Switch it off without asking its system; no effect on a machine that is off."""

    def network_once(self) -> None:
        """Make the next boot, and no later one, a boot from the network."""

    def set_password(self, password: str) -> None:
        """Give the BMC another password for the user of this access. It counts for the next access, or already for this one."""

    def close(self) -> None:
        """Give back connections; never raises."""


class SerialConsole(Protocol):
    """An open serial console, for reading. ``refused``: the login was refused, so another try would be refused, too."""

    @property
    def refused(self) -> bool: ...

    def fileno(self) -> int:
        """Readable as soon as there is output, or an end."""

    def read(self) -> bytes:
        """A piece of its output, empty at its end. Raises nothing."""

    def leave(self) -> None:
        """Begin to give it back, without a wait. Raises nothing."""

    def close(self) -> None:
        """Give it back; ends some seconds after ``leave`` at most. Raises nothing."""


class OptionRule(msgspec.Struct, frozen=True):
    """The address and the options of one driver."""

    module: str
    address: str  # its meaning, for people; empty: it takes none
    options: Mapping[str, str] = {}  # name → meaning, for people


DRIVERS: Final[Mapping[str, OptionRule]] = {
    "redfish": OptionRule(
        "redfish",
        "https://HOST[:PORT]",
        {
            "system": "id of the system at a BMC with several",
            "ca": "file on the annealers' hosts with the certificate that signs the BMC's",
            "verify": "no: take any certificate of the BMC",
            "mode": "uefi or bios, for the boot from the network; without it the BMC keeps its mode",
            "console": "HOST[:PORT] of the BMC's IPMI, by which its serial console is read",
        },
    ),
    "ipmi": OptionRule(
        "ipmi",
        "HOST[:PORT]",
        {
            "interface": "lanplus (default) or lan",
            "mode": "uefi or bios, for the boot from the network",
            "console": "no: its serial console is not read",
        },
    ),
    "ssh": OptionRule(
        "ssh",
        "[USER@]HOST[:PORT] of the host that runs the machine",
        {
            "host_key": "pinned key of the host: ssh-ed25519 AAAA...",
            "status": "command that prints on or off",
            "on": "command that switches the machine on",
            "off": "command that switches it off",
            "network_once": "command that makes the next boot one from the network",
        },
    ),
    "qemu": OptionRule(
        "qemu",
        "unix:PATH or HOST:PORT of the QMP socket",
        {
            "nic": "id of the network device with its boot index (default nic0)",
            "console": "unix:PATH or HOST:PORT of the socket of its serial console",
        },
    ),
    "manual": OptionRule("manual", ""),
}


def names() -> tuple[str, ...]:
    """Every driver, in the order of their names."""
    return tuple(sorted(DRIVERS))


def checked(driver: str, address: str, options: Mapping[str, str]) -> None:
    """Raises Invalid, with one sentence for each fault of a driver's name, address and options."""
    rule = DRIVERS.get(driver)
    if rule is None:
        raise Invalid(
            f"driver: there is no power driver {driver!r}{_hint(driver, DRIVERS)} Known are {', '.join(names())}"
        )
    faults = []
    if rule.address and not address:
        faults.append(f"address: driver {driver} needs {rule.address}")
    if not rule.address and address:
        faults.append(f"address: driver {driver} takes none; leave it out")
    for name in options:
        if name not in rule.options:
            hint = _hint(name, rule.options)
            known = ", ".join(rule.options) or "none"
            faults.append(f"options: driver {driver} has no option {name!r}{hint} Known are {known}")
    if bool(address) == bool(rule.address):
        faults += import_module(f"nodepool_ocb.power.{rule.module}").faults(address, options)
    if faults:
        raise Invalid(faults)


def _hint(word: str, words: Iterable[str]) -> str:
    """The end of a sentence about an unknown word; empty where none is like it."""
    near = nearest(word, words)
    return f"; did you mean {near}?" if near else ""


def opened(endpoint: Endpoint) -> Power:
    """The power at an endpoint that ``checked`` accepts; connects with the first command. Raises Invalid."""
    checked(endpoint.driver, endpoint.address, endpoint.options)
    module = import_module(f"nodepool_ocb.power.{DRIVERS[endpoint.driver].module}")
    power: Power = module.DRIVER(endpoint)
    return power


def rotates(driver: str) -> bool:
    """Whether the password of such a machine can be changed."""
    return driver in ("redfish", "ipmi")


def has_console(driver: str, options: Mapping[str, str]) -> bool:
    """Whether the serial console of such a machine can be read."""
    said = options.get("console")
    return (driver == "ipmi" and said != "no") or (driver in ("redfish", "qemu") and bool(said))


def console(endpoint: Endpoint, *, take: bool = False) -> SerialConsole:
    """Open the serial console of a machine that has one; takes CALL_SECONDS at most. Raises PowerFault or Invalid.

    ``take``: end the session of another reader before, where the BMC has only one.
    """
    checked(endpoint.driver, endpoint.address, endpoint.options)
    module = import_module(f"nodepool_ocb.power.{DRIVERS[endpoint.driver].module}")
    opened: SerialConsole = module.console(endpoint, take=take)
    return opened
