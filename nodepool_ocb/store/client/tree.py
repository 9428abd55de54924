"""The layout of the records of images in ZooKeeper, as a session applies it to paths and data.

All other code knows one layout, the native one: the paths of ``model.paths``, and the records of ``model.images``. A session
translates each path and each record on its way to ZooKeeper and back. This module has the native layout, which
translates nothing. ``store.nodepool11`` has that of Nodepool 11.
"""

from __future__ import annotations

import re
from typing import ClassVar, Final

from nodepool_ocb.store.client.frames import Znode


class ImageTree:
    """The native layout. Paths are without the chroot."""

    foreign: ClassVar[bool] = False  # another product writes here, too
    ids: ClassVar[re.Pattern[str]] = re.compile(r"[0-9]{10}")  # of builds

    def stored(self, path: str) -> str:
        """The path in ZooKeeper of a native path, or of the beginning of one."""
        return path

    def native(self, path: str) -> str:
        """The native path of a path in ZooKeeper."""
        return path

    def written(self, path: str, data: bytes) -> bytes:  # noqa: ARG002
        """The data to write for a record at a native path; ``data`` is the native record."""
        return data

    def read(self, znode: Znode) -> Znode:
        """A znode as it was read, with its native path and the data in ZooKeeper: the same with the native record."""
        return znode

    def open(self, path: str) -> bool:  # noqa: ARG002
        """Whether each client has all rights at a native path, also if the rest has an ACL."""
        return False


NATIVE: Final = ImageTree()
