"""What providers have of our cluster and no record names: deleted when it is seen twice.

What is not known stays. A record that cannot be decoded may name anything of its build; and an upload that says
``failed`` may have lost its session and still be going on, for as long as an upload to its provider may take.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable

from nodepool_ocb import metrics
from nodepool_ocb.image import ImageView
from nodepool_ocb.model import UploadState
from nodepool_ocb.providers.provider import Kept
from nodepool_ocb.store import images, paths
from nodepool_ocb_builder.site import Site

log = logging.getLogger(__name__)


class Leaks:
    """Remembers what was seen once, and since when."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._suspects: dict[str, dict[str, float]] = {}  # provider → external id → monotonic time of the first look

    def look(self, provider: str) -> None:
        """Compare one provider with the records; blocking, for a thread. Raises Unavailable."""
        site = self._site
        uploader, settings = site.uploaders.get(provider), site.providers.get(provider)
        if uploader is None or settings is None:
            return  # it is configured no more
        ours = [kept for kept in uploader.list() if kept.cluster == site.cluster]
        records = _Records(site, provider, ours)
        now, before = time.monotonic(), self._suspects.get(provider, {})
        suspects = {kept.external_id: before.get(kept.external_id, now) for kept in ours if not records.know(kept)}
        for kept in ours:
            wait = settings.image_upload_timeout_seconds if records.may_be_going_on(kept) else 0.0
            if kept.external_id in before.keys() & suspects.keys() and now >= suspects[kept.external_id] + wait:
                log.warning("%s at %s is in no record: deleted", kept.external_id, provider)
                if uploader.delete(kept.external_id) is None:
                    metrics.LEAKS.inc()
        self._suspects[provider] = suspects


class _Records:
    """What the records say of what a provider listed; read after it was listed."""

    def __init__(self, site: Site, provider: str, listed: Iterable[Kept]) -> None:
        self._provider = provider
        self._unread: dict[str, str] = {}
        site.session.sync()
        named = {kept.image for kept in listed} & {*images.names(site.session)}
        views = images.read(site.session, filter(None, named), self._unread)
        self._states: dict[tuple[str | None, ...], UploadState] = {}
        self._external_ids: set[str] = set()
        for view in views.values():
            self._learn(view)

    def _learn(self, view: ImageView) -> None:
        for build in view.builds:
            for upload in build.uploads:
                if upload.provider == self._provider:
                    self._states[view.name, build.id, upload.id] = upload.record.state
                    self._external_ids |= {upload.record.external_id or ""}

    def know(self, kept: Kept) -> bool:
        """Whether a record names it, or is about to, or may do so."""
        state = self._states.get((kept.image, kept.build, kept.upload))
        return kept.external_id in self._external_ids or state is UploadState.UPLOADING or self._may_be_named(kept)

    def may_be_going_on(self, kept: Kept) -> bool:
        """Whether its upload has failed, as far as the record knows."""
        return self._states.get((kept.image, kept.build, kept.upload)) is UploadState.FAILED

    def _may_be_named(self, kept: Kept) -> bool:
        build = paths.build(kept.image or "", kept.build or "")
        uploads = paths.uploads(kept.image or "", kept.build or "", self._provider)
        return any(path == build or path.startswith(f"{uploads}/") for path in self._unread)
