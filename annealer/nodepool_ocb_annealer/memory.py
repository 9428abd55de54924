"""After a large tree was read: release the memory of the reading, and let the collector skip the objects that stay.

Loading makes many short-lived strings beside the records; glibc keeps their pages until it is asked for them. The
records stay for as long as the session: frozen, they cost no full collection a third of a second.
"""

from __future__ import annotations

import ctypes
import gc


def tidy() -> None:
    """Takes some tenths of a second for a hundred thousand records."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc's alone
    if trim is not None:
        trim(0)
