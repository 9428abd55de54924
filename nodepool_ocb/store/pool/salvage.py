"""The place of a node whose record cannot be read: its provider, its pool, its labels and its slot, as far as they are known.

Such a node uses capacity. Its sound keys tell the place; otherwise the record that this process read before tells it.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from nodepool_ocb.errors import Invalid
from nodepool_ocb.model.pool import PoolNode, PoolNodeState
from nodepool_ocb.pool.views import PoolNodeView
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.client.frames import Znode

KEYS: Final = (
    "provider",
    "pool",
    "type",
    "slot",
    "hostname",
    "username",
    "connection_port",
    "ssh_port",
    "external_id",
    "resources",
    "tenant_name",
    "driver_data",
)


def salvaged(id: str, znode: Znode, former: PoolNodeView | None) -> PoolNodeView:
    """The node as one on hold, which no rule acts on; ``provider`` is None if nothing tells it."""
    try:
        found = codec.document(znode)
    except Invalid:
        found = {}
    sound = {key: found[key] for key in KEYS if key in found and _sound(key, found[key])}
    if former is not None:
        sound = {key: getattr(former.record, key) for key in KEYS} | sound
    state: dict[str, Any] = {"state": PoolNodeState.HOLD, "state_time": znode.ctime}
    record = msgspec.convert(state | sound, PoolNode)
    return PoolNodeView(id=id, record=record, version=znode.version, created=znode.ctime)


def _sound(key: str, value: object) -> bool:
    """Whether a record of now may have this value."""
    try:
        msgspec.convert({"state": PoolNodeState.HOLD, "state_time": 0.0, key: value}, PoolNode)
    except msgspec.ValidationError:
        return False
    return True
