"""IPMI, by the program ipmitool. The password goes to it in its environment, so no list of processes shows it."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Mapping
from typing import Final

from nodepool_ocb.engine import addressing
from nodepool_ocb.model.power import Powered
from nodepool_ocb.power.consoles import ProgramConsole
from nodepool_ocb.power.driver import CALL_SECONDS, Endpoint, FaultKind, PowerFault, SerialConsole

PROGRAM: Final = "ipmitool"
PORT: Final = 623
INTERFACES: Final = ("lanplus", "lan")
SUITE: Final = "3"  # of ciphers, which each BMC with IPMI 2.0 has: RAKP-HMAC-SHA1, AES
CHANNEL: Final = "1"  # of the LAN
TRIES: Final = ("-R", "2", "-N", "3")  # requests, and seconds for each
#: Parts of the errors that ``ipmitool -v`` prints: they distinguish a wrong login from silence.
LOGIN: Final = (
    "RAKP 2 HMAC is invalid",
    "unauthorized name",
    "Invalid user name",
    "password invalid",
    "RAKP 2 message indicates",
)
LEAVE_SOL: Final = b"~."  # by which `sol activate` gives the session back; it sends the machine nothing
SILENT: Final = ("Unable to establish", "Get Auth Capabilities error", "No response", "Address lookup", "timeout")


def faults(address: str, options: Mapping[str, str]) -> list[str]:
    """One sentence for each fault of an address and options."""
    found = []
    if any(letter.isspace() for letter in address) or "/" in address:
        found.append(f"address: {address!r} is no address of a BMC; write HOST or HOST:PORT")
    else:
        try:
            _split(address)
        except ValueError as wrong:
            found.append(f"address: {wrong}")
    if (interface := options.get("interface", INTERFACES[0])) not in INTERFACES:
        found.append(f"options: interface is {interface!r}; write lanplus or lan")
    if (mode := options.get("mode")) not in (None, "uefi", "bios"):
        found.append(f"options: mode is {mode!r}; write uefi or bios")
    if (console := options.get("console")) not in (None, "no"):
        found.append(f"options: console is {console!r}; write no, or leave it out")
    return found


class IpmiPower:
    """One BMC."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint

    def status(self) -> Powered:
        """The state now."""
        lines = self._run("chassis", "power", "status").lower().splitlines() or [""]
        said = lines[-1].strip()
        return Powered.ON if said.endswith("on") else Powered.OFF if said.endswith("off") else Powered.UNKNOWN

    def on(self) -> None:
        """Switch it on."""
        self._run("chassis", "power", "on")

    def off(self) -> None:
        """Switch it off without asking its system."""
        self._run("chassis", "power", "off")

    def network_once(self) -> None:
        """Override the boot device for one boot."""
        efi = ("options=efiboot",) if self._endpoint.options.get("mode") == "uefi" else ()
        self._run("chassis", "bootdev", "pxe", *efi)

    def set_password(self, password: str) -> None:
        """Change the user of this access. The program reads the command, so no list of processes shows the password."""
        name = self._endpoint.username
        for line in self._run("user", "list", CHANNEL).splitlines():
            words = line.split()
            if len(words) > 1 and words[0].isdigit() and words[1] == name:
                self._run(
                    "exec",
                    "/dev/stdin",
                    said=f"user set password {words[0]} {password} {16 if len(password) <= 16 else 20}\n",
                )
                return
        raise PowerFault(FaultKind.REFUSED, f"{self._endpoint.address} has no user {name}")

    def close(self) -> None:
        """It keeps no connection."""

    def _run(self, *words: str, said: str = "") -> str:
        endpoint = self._endpoint
        command, environment = _command(endpoint), _environment(endpoint)
        try:
            done = subprocess.run(
                [*command, *words],
                env=environment,
                input=said.encode(),
                capture_output=True,
                timeout=CALL_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise PowerFault(
                FaultKind.UNREACHABLE, f"{endpoint.address} does not answer within {CALL_SECONDS:.0f} s"
            ) from None
        except OSError as error:
            raise PowerFault(
                FaultKind.OWN, f"this host cannot start {PROGRAM}: {error.strerror}; install the package ipmitool here"
            ) from error
        if done.returncode != 0:
            raise self._fault(done.stderr.decode(errors="replace"))
        return done.stdout.decode(errors="replace").strip()

    def _fault(self, said: str) -> PowerFault:
        """The fault that the errors of ipmitool tell."""
        address, line = self._endpoint.address, " ".join(said.split())[:300]
        if any(part in said for part in LOGIN):
            return PowerFault(
                FaultKind.LOGIN,
                f"{address} refuses user {self._endpoint.username or '(none)'}; set user and password again",
            )
        if any(part in said for part in SILENT):
            return PowerFault(FaultKind.UNREACHABLE, f"{address} does not answer: {line}")
        return PowerFault(FaultKind.REFUSED, f"{address} answers, and does not do it: {line or 'no reason is given'}")


def _command(endpoint: Endpoint) -> list[str]:
    """The words before those of the command itself."""
    host, port = _split(endpoint.address)
    interface = endpoint.options.get("interface", INTERFACES[0])
    access = ("-I", interface, "-H", host, "-p", str(port), "-U", endpoint.username, "-E")
    return [PROGRAM, "-v", *access, *(("-C", SUITE) if interface == "lanplus" else ()), *TRIES]


def _environment(endpoint: Endpoint) -> dict[str, str]:
    path = f"{os.environ.get('PATH', '')}:/usr/sbin"
    return {"PATH": path, "IPMI_PASSWORD": endpoint.password, "LC_ALL": "C"}


def console(endpoint: Endpoint, *, take: bool) -> SerialConsole:
    """The console by Serial over LAN. ``take``: a session that another reader has is ended before."""
    if take:
        with contextlib.suppress(PowerFault):  # there is none, or the BMC refuses it: the console itself says so
            IpmiPower(endpoint)._run("sol", "deactivate")
    words = [*_command(endpoint), "sol", "activate"]
    return ProgramConsole(words, _environment(endpoint), leave=LEAVE_SOL, login=LOGIN)


def _split(address: str) -> tuple[str, int]:
    """Host and port; the default is that of IPMI, not of SSH.

    >>> _split("bmc1"), _split("10.0.0.9:9001"), _split("fd00::9")
    (('bmc1', 623), ('10.0.0.9', 9001), ('fd00::9', 623))
    """
    with_port = address.count(":") == 1 or "]:" in address
    host, port = addressing.parse(address)
    return host, port if with_port else PORT


DRIVER: Final = IpmiPower
