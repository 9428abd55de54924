"""Where images go. A provider's Uploader takes an Item and gives Sent or Refused; ``open`` finds its driver."""

from nodepool_ocb.providers.provider import (
    Item,
    Kept,
    Refused,
    Sent,
    Uploader,
    faults,
    installed,
    open,
)

__all__ = [
    "Item",
    "Kept",
    "Refused",
    "Sent",
    "Uploader",
    "faults",
    "installed",
    "open",
]
