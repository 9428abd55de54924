"""The unreadable part of a World: records, in ``world.unreadable``, and attributes that a reader found, in
``world.spoiled``. Each path has its reason.
"""

from __future__ import annotations

from nodepool_ocb.engine.world import World
from nodepool_ocb.errors import Spoiled
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.client.frames import Znode
from nodepool_ocb.store.world.paths import Listing, WorldPath


class UnreadableRecords:
    """Remembers when each such record changed last; true while there is any."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._hidden: dict[WorldPath, tuple[str, int]] = {}  # to its path and mzxid

    def __bool__(self) -> bool:
        return bool(self._hidden)

    def __contains__(self, at: WorldPath) -> bool:
        return bool(self._hidden) and at in self._hidden  # asked for each write, and nearly always empty

    def mzxid(self, at: WorldPath) -> int:
        """The mzxid of an unreadable record."""
        return self._hidden[at][1]

    def hide(self, at: WorldPath, znode: Znode, reason: str) -> None:
        """Keep the record that is shown, and note that it does not count any more."""
        self._hidden[at] = znode.path, znode.mzxid
        self._world.unreadable[znode.path] = reason

    def unhide(self, at: WorldPath) -> bool:
        """Remove the note, if the record is readable again or gone; gives whether there was one."""
        if at not in self:
            return False
        path, _ = self._hidden.pop(at)
        del self._world.unreadable[path]
        return True

    def gone(self, listed: Listing) -> list[str]:
        """The paths of those that are not there any more."""
        return [path for at, (path, _) in self._hidden.items() if not listed.has(at)]

    # -- attributes --

    def mended(self, path: str, znode: Znode | None) -> bool:
        """Whether attributes that could not be read can be; nothing is looked at where they never were."""
        if path not in self._world.spoiled:
            return False
        try:
            codec.attributes(znode)
        except Spoiled as wrong:
            self._world.spoiled[path] = str(wrong)
            return False
        del self._world.spoiled[path]
        return True
