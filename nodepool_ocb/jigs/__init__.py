"""The jigs, which act on machines. A jig takes an Order and returns an Outcome; ``installed`` finds them."""

from nodepool_ocb.jigs.jig import (
    Detached,
    Failed,
    Fenced,
    Jig,
    Lost,
    Order,
    Outcome,
    Succeeded,
    Unknown,
    Unreachable,
    installed,
)

__all__ = [
    "Detached",
    "Failed",
    "Fenced",
    "Jig",
    "Lost",
    "Order",
    "Outcome",
    "Succeeded",
    "Unknown",
    "Unreachable",
    "installed",
]
