"""The destinations of images. A provider's Uploader takes an Item and returns Sent or Refused; ``open`` finds its driver."""

from nodepool_ocb.providers.provider import (
    Item,
    Kept,
    Refused,
    Sent,
    Uploader,
    external_name,
    faults,
    installed,
    not_ours,
    open,
    takes,
)
from nodepool_ocb.providers.stamp import Stamp

__all__ = [
    "Item",
    "Kept",
    "Refused",
    "Sent",
    "Stamp",
    "Uploader",
    "external_name",
    "faults",
    "installed",
    "not_ours",
    "open",
    "takes",
]
