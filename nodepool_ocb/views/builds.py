"""The progress of a requested build, and whether its end is known.

A request for a build creates a flag with a new number (its mzxid). A build answers the request if its builder began it
with this number or a later one. The end is known if such a build is ready, if the newest of them failed, or if none can
begin before a person acts. A build with a dead builder decides nothing: another build begins.
"""

from __future__ import annotations

import msgspec

from nodepool_ocb.images import rules
from nodepool_ocb.images.rules import BuildView, ImageView
from nodepool_ocb.model.images import BuildState
from nodepool_ocb.views.times import shown


class BuildProgress(msgspec.Struct, frozen=True):
    """The progress of a requested build."""

    outcome: str | None  # ready, failed, paused, withdrawn or deleted; None while it is open
    sentence: str
    build: BuildView | None = None


def of_build(view: ImageView | None, request: int, now: float) -> BuildProgress:
    """The progress of the build that answers the request with this number."""
    if view is None:
        return BuildProgress("deleted", "the image was deleted")
    ours = [build for build in view.builds if build.record.request >= request]
    for build in ours:
        if build.record.state is BuildState.READY:
            return BuildProgress("ready", f"build {build.id} is ready", build)
    newest = ours[-1] if ours else None
    state = rules.state_shown(newest, view.holder) if newest else None
    if newest and state is BuildState.FAILED:
        return BuildProgress(
            "failed", f"build {newest.id} failed: {newest.record.reason or 'no reason was recorded'}", newest
        )
    if newest and state is BuildState.BUILDING:
        return BuildProgress(None, f"{newest.record.builder} makes build {newest.id}", newest)
    return _not_begun(view, request, newest, now)


def _not_begun(view: ImageView, request: int, last: BuildView | None, now: float) -> BuildProgress:
    lost = f"build {last.id} was aborted; " if last else ""
    if view.request is None or view.request.mzxid < request:
        return BuildProgress("withdrawn", f"{lost}the request is gone, and no build that answers it is ready", last)
    if view.pause is not None and view.pause.on(now):
        pause = view.pause.record
        by = f"{pause.by or 'an unknown user'} has paused {view.name}{f': {pause.reason}' if pause.reason else ''}"
        if pause.until is None:
            return BuildProgress(
                "paused", f"{lost}{by}; the request stays: nodepool-ocb image unpause {view.name}", last
            )
        return BuildProgress(None, f"{lost}{by}; it goes on at {shown(pause.until)}", last)
    if view.holder is not None:
        return BuildProgress(None, f"{lost}{view.holder.host} works on {view.name}, for an earlier request", last)
    return BuildProgress(None, f"{lost}waiting for a builder to begin", last)
