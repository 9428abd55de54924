"""``image pause`` and ``image unpause``: no build of an image begins for a while."""

from __future__ import annotations

from nodepool_ocb.errors import EndPassed, Invalid
from nodepool_ocb.model import paths
from nodepool_ocb.model.images import Pause
from nodepool_ocb.model.records import Create, Delete, Set
from nodepool_ocb.operations.images import finding
from nodepool_ocb.operations.operation import Explained, Operation, Right, Situation, Steps
from nodepool_ocb.operations.reads.images import ReadImages
from nodepool_ocb.views.times import shown


class ImageIsPaused(Explained, frozen=True, kw_only=True):
    """The answer of a pause."""

    until: float | None = None  # seconds since the epoch; None: until a person ends it


class ImagePause(Operation[ImageIsPaused], frozen=True, kw_only=True):
    """Let no build of an image begin; a pause that exists is replaced. Raises EndPassed, or NotFound.

    In Nodepool's tree a pause has no end: Nodepool would not see it. Raises Invalid there.
    A build that is under way continues, and uploads too.
    """

    noun = "image"
    verb = "pause"
    right = Right.OPERATOR
    reads = (ReadImages,)
    writes = ("pause",)

    image: str
    reason: str | None = None
    until: float | None = None  # seconds since the epoch
    seconds: float | None = None  # from now; not beside ``until``

    def decide(self, situation: Situation) -> Steps[ImageIsPaused]:
        end = situation.end(self.until, self.seconds)
        if end is not None and end <= situation.now:
            raise EndPassed(f"{shown(end)} is in the past; give a time in the future")
        if end is not None and situation.settings.layout == "nodepool":
            raise Invalid(
                "a pause in Nodepool's tree has no end; pause without an end, and end it later with:"
                f" nodepool-ocb image unpause {self.image}"
            )
        found = finding.image_of((yield from finding.load()), self.image).pause
        record = Pause(by=situation.by, reason=self.reason, at=situation.now, until=end)
        path = paths.pause(self.image)
        yield [Create(path, record) if found is None else Set(path, record, found.version)]
        return ImageIsPaused(until=end)


class ImageUnpause(Operation[Explained], frozen=True, kw_only=True):
    """Let builds of an image begin again; a pause in the configuration stays. Raises NotFound."""

    noun = "image"
    verb = "unpause"
    right = Right.OPERATOR
    reads = (ReadImages,)
    writes = ("pause",)

    image: str

    def decide(self, situation: Situation) -> Steps[Explained]:  # noqa: ARG002
        found = finding.image_of((yield from finding.load()), self.image).pause
        if found is not None:
            yield [Delete(paths.pause(self.image), found.version)]
        return Explained()
