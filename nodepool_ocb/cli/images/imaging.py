"""Images as commands see them: read, found by their names, and changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nodepool_ocb.cli.kit.performing import performer
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Daemon
from nodepool_ocb.operations.images import finding
from nodepool_ocb.operations.images.finding import Images as Images
from nodepool_ocb.operations.images.finding import uploads_of as uploads_of
from nodepool_ocb.operations.reads.images import ReadImages

if TYPE_CHECKING:
    from nodepool_ocb.store.client.session import Session

# -- reading --


def load(opened: Session, quarantined: dict[str, str] | None = None) -> Images:
    """All images, no older than this call. Records that cannot be read go into ``quarantined``; without it they are printed."""
    if quarantined is None:
        return performer().read(finding.load(), opened)
    found = performer().read(iter(ReadImages()), opened)
    quarantined.update(found.unread)
    return found.by_name


def lock_paths(images: Images) -> list[str]:
    """The locks of builds, and of uploads."""
    carried = dict.fromkeys(
        (name, each.build, each.provider) for name, view in images.items() for each in uploads_of(view)
    )
    return [*map(paths.build_lock, images), *(paths.upload_lock(*each) for each in carried)]


def builders(opened: Session, quarantined: dict[str, str] | None = None) -> dict[str, Daemon]:
    """The running builders by their ids, without those with a record that cannot be read."""
    from nodepool_ocb.store import daemons

    found = daemons.read(opened, "builder", quarantined)
    return {id: said for id, said in found.items() if said is not None}
