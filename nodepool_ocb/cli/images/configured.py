"""What the nodepool.yaml of this host says of images, for whoever wonders why nothing is built; builders read their own."""

from __future__ import annotations

import os
from collections.abc import Mapping

from nodepool_ocb.cli.kit import session
from nodepool_ocb.cli.kit.options import asked
from nodepool_ocb.errors import Invalid


def paused() -> Mapping[str, str]:
    """The images that it pauses, each with the file's name; none where there is no such file, or it does not pass."""
    from nodepool_ocb import config
    from nodepool_ocb.images import nodepool

    if not (asked("config") or config.find()):
        return {}
    file = session.settings().builder.nodepool
    try:
        return {image.name: file for image in nodepool.load(file, environ=os.environ).diskimages if image.pause}
    except Invalid:
        return {}
