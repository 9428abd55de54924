"""``image log``: the build with the log that is asked for."""

from __future__ import annotations

from nodepool_ocb.errors import NotFound
from nodepool_ocb.operations.images import finding
from nodepool_ocb.operations.logs import BuildChosen
from nodepool_ocb.operations.operation import Operation, Right, Situation, Steps
from nodepool_ocb.operations.reads.images import ReadImages


class ImageLog(Operation[BuildChosen], frozen=True, kw_only=True):
    """The named build of an image, or its newest; ``buildlogs`` has its log. Raises NotFound."""

    noun = "image"
    verb = "log"
    right = Right.VIEWER
    reads = (ReadImages,)

    image: str
    build: str | None = None  # its id

    def decide(self, situation: Situation) -> Steps[BuildChosen]:  # noqa: ARG002
        view = finding.image_of((yield from finding.load()), self.image)
        if not view.builds:
            raise NotFound(f"{self.image} was never built; ask for it: nodepool-ocb image build {self.image}")
        return BuildChosen(self.image, finding.build_of(view, self.build) if self.build else view.builds[-1])
