"""Power of machines: a driver switches a machine on and off through its BMC or its host, and reads its state."""

from nodepool_ocb.power.driver import (
    Endpoint,
    FaultKind,
    Power,
    PowerFault,
    checked,
    console,
    has_console,
    names,
    opened,
    rotates,
)

__all__ = [
    "Endpoint",
    "FaultKind",
    "Power",
    "PowerFault",
    "checked",
    "console",
    "has_console",
    "names",
    "opened",
    "rotates",
]
