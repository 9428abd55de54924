"""``image list``, ``image show`` and ``upload list``."""

from __future__ import annotations

from nodepool_ocb.images import builders, rules
from nodepool_ocb.images.rules import ImagePolicy, ImageView, NotDue
from nodepool_ocb.operations.images import finding
from nodepool_ocb.operations.operation import Note, Operation, Right, Situation, Steps
from nodepool_ocb.operations.reads.builders import ReadBuilders
from nodepool_ocb.operations.reads.images import ReadConfiguredPauses, ReadImages
from nodepool_ocb.views import images as shown
from nodepool_ocb.views.images import ImageDocument, ImageRow, UploadRow


class ImageList(Operation[list[ImageRow]], frozen=True, kw_only=True):
    """Every image, by name. An image without records that no builder has in its configuration is left out."""

    noun = "image"
    verb = "list"
    right = Right.VIEWER
    reads = (ReadImages, ReadBuilders, ReadConfiguredPauses)

    def decide(self, situation: Situation) -> Steps[list[ImageRow]]:
        known = yield from finding.load()
        running = yield from finding.builders()
        if not known and not running:
            yield Note(shown.NOBODY)
        paused = yield from ReadConfiguredPauses()
        return [
            shown.row(view, situation.local_now, paused)
            for _, view in sorted(known.items())
            if not builders.forgotten(view, running)
        ]


class ImageShow(Operation[ImageDocument], frozen=True, kw_only=True):
    """One image: its builds with their uploads, its failures, its next attempt, and its builder."""

    noun = "image"
    verb = "show"
    right = Right.VIEWER
    reads = (ReadImages, ReadBuilders, ReadConfiguredPauses)

    image: str

    def decide(self, situation: Situation) -> Steps[ImageDocument]:
        view = finding.image_of((yield from finding.load()), self.image)
        cannot = builders.why_not_built(self.image, (yield from finding.builders()))
        paused = yield from ReadConfiguredPauses()
        row = shown.row(view, situation.local_now, paused)
        return shown.document(row, view, _next_attempt(situation, view), cannot)


class UploadList(Operation[list[UploadRow]], frozen=True, kw_only=True):
    """Every upload of all images, or of one. Raises NotFound for an image that does not exist."""

    noun = "upload"
    verb = "list"
    right = Right.VIEWER
    reads = (ReadImages,)

    image: str | None = None
    provider: str | None = None
    states: tuple[str, ...] = ()  # any of them; none: all

    def decide(self, situation: Situation) -> Steps[list[UploadRow]]:  # noqa: ARG002
        known = yield from finding.load()
        name = self.image
        views = [view for _, view in sorted(known.items())] if name is None else [finding.image_of(known, name)]
        found = [shown.upload_row(view.name, upload) for view in views for upload in finding.uploads_of(view)]
        return [
            row
            for row in found
            if self.provider in (None, row.provider) and (not self.states or row.state in self.states)
        ]


def _next_attempt(situation: Situation, view: ImageView) -> float | None:
    """The time of the next attempt after failures, by the configuration of the performer's host."""
    first = situation.settings.builder.retry_seconds
    found = rules.due(view, ImagePolicy(formats=(), rebuild_age_seconds=0.0), situation.local_now, first)
    return found.at if isinstance(found, NotDue) and rules.failures(view) else None
