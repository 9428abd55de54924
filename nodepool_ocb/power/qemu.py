"""QEMU, by QMP. A machine that is off is a QEMU that is paused after a reset; its process goes on.

Start QEMU with ``-qmp unix:PATH,server=on,wait=off``, ``-no-shutdown`` and, for a machine that begins switched off, ``-S``.
"""

from __future__ import annotations

import contextlib
import json
import socket
import time
from collections.abc import Mapping
from typing import Any, Final

from nodepool_ocb.engine import addressing
from nodepool_ocb.model.power import Powered
from nodepool_ocb.power import consoles
from nodepool_ocb.power.driver import CALL_SECONDS, CONNECT_SECONDS, Endpoint, FaultKind, PowerFault, SerialConsole

NIC: Final = "nic0"
LONGEST_LINE: Final = 1 << 20
OFF: Final = ("paused", "prelaunch", "shutdown")


def faults(address: str, options: Mapping[str, str]) -> list[str]:
    """One sentence for each fault of an address and options."""
    found = consoles.faults(serial) if (serial := options.get("console")) else []
    if address.startswith("unix:/"):
        return found
    host, _, port = address.rpartition(":")
    if address.startswith("unix:") or not host or not port.isdigit():
        found.append(f"address: {address!r} is no QMP socket; write unix:/PATH or HOST:PORT")
    return found


class QemuPower:
    """One QEMU."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint

    def status(self) -> Powered:
        """The state now."""
        with self._session() as qmp:
            return qmp.powered()

    def on(self) -> None:
        """Begin at the firmware, if it is off."""
        with self._session() as qmp:
            if qmp.powered() is not Powered.ON:
                qmp.ask("system_reset")
                qmp.ask("cont")

    def off(self) -> None:
        """Stop, and forget the memory by a reset."""
        with self._session() as qmp:
            qmp.ask("stop")
            qmp.ask("system_reset")

    def network_once(self) -> None:
        """Put the network before the disks. It stays first: its boot script then sends a machine to its disk."""
        with self._session() as qmp:
            device = f"/machine/peripheral/{self._endpoint.options.get('nic', NIC)}"
            if qmp.ask("qom-get", path=device, property="bootindex") != 0:
                qmp.ask("qom-set", path=device, property="bootindex", value=0)

    def set_password(self, password: str) -> None:  # noqa: ARG002
        """It has none."""
        raise PowerFault(FaultKind.REFUSED, f"driver {self._endpoint.driver} has no password")

    def close(self) -> None:
        """It keeps no connection."""

    def _session(self) -> _Qmp:
        return _Qmp(self._endpoint.address)


class _Qmp:
    """One conversation, bounded in time; raises PowerFault."""

    def __init__(self, address: str) -> None:
        self._address, self._ends = address, time.monotonic() + CALL_SECONDS
        self._received = b""

    def __enter__(self) -> _Qmp:
        with self._faults():
            self._socket = self._connected()
        try:
            self._answer()  # its greeting
            self.ask("qmp_capabilities")
        except BaseException:
            self._socket.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def powered(self) -> Powered:
        """On while it runs."""
        status = self.ask("query-status")["status"]
        return Powered.ON if status == "running" else Powered.OFF if status in OFF else Powered.UNKNOWN

    def ask(self, command: str, **arguments: Any) -> Any:
        """The result of a command; events that come meanwhile are passed over."""
        said = {"execute": command} | ({"arguments": arguments} if arguments else {})
        with self._faults():
            self._socket.sendall(json.dumps(said).encode() + b"\n")
        while True:
            answer = self._answer()
            if "return" in answer:
                return answer["return"]
            if "error" in answer:
                reason = str(answer["error"].get("desc", "no reason is given"))[:300]
                raise PowerFault(FaultKind.REFUSED, f"{self._address} answers, and does not do {command}: {reason}")

    def _connected(self) -> socket.socket:
        if self._address.startswith("unix:"):
            found = socket.socket(socket.AF_UNIX)
            found.settimeout(CONNECT_SECONDS)
            try:
                found.connect(self._address.removeprefix("unix:"))
            except BaseException:
                found.close()
                raise
            return found
        return socket.create_connection(addressing.parse(self._address), CONNECT_SECONDS)

    def _answer(self) -> dict[str, Any]:
        """The next line."""
        with self._faults():
            while b"\n" not in self._received:
                left = self._ends - time.monotonic()
                if left <= 0 or len(self._received) > LONGEST_LINE:
                    raise TimeoutError("no whole answer in time")
                self._socket.settimeout(left)
                more = self._socket.recv(1 << 16)
                if not more:
                    raise ConnectionError("the socket was closed")
                self._received += more
            line, _, self._received = self._received.partition(b"\n")
            answer = json.loads(line)
            return answer if isinstance(answer, dict) else {}

    @contextlib.contextmanager
    def _faults(self) -> Any:
        try:
            yield
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise PowerFault(FaultKind.UNREACHABLE, f"{self._address} does not answer: {reason}") from error


def console(endpoint: Endpoint, *, take: bool) -> SerialConsole:  # noqa: ARG001 - QEMU has no session that another one keeps
    """The socket of its serial console."""
    return consoles.SocketConsole(endpoint.options["console"])


DRIVER: Final = QemuPower
