"""Manual: a person switches the machine. Each command is a fault whose text is the instruction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from nodepool_ocb.model.power import Powered
from nodepool_ocb.power.driver import Endpoint, FaultKind, PowerFault


def faults(_address: str, _options: Mapping[str, str]) -> list[str]:
    """None: it has neither."""
    return []


class ManualPower:
    """A machine without a BMC."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint

    def status(self) -> Powered:
        """Not visible."""
        return Powered.UNKNOWN

    def on(self) -> None:
        """Ask a person."""
        raise PowerFault(FaultKind.MANUAL, "press its power button to switch it on")

    def off(self) -> None:
        """Ask a person."""
        raise PowerFault(FaultKind.MANUAL, "hold its power button until it is off")

    def network_once(self) -> None:
        """Ask a person."""
        raise PowerFault(FaultKind.MANUAL, "choose the boot from the network in its boot menu")

    def set_password(self, password: str) -> None:  # noqa: ARG002
        """It has none."""
        raise PowerFault(FaultKind.REFUSED, f"driver {self._endpoint.driver} has no password")

    def close(self) -> None:
        """It keeps no connection."""


DRIVER: Final = ManualPower
