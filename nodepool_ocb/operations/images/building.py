"""``image build``: the request for a build, outside the schedule."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from nodepool_ocb.images.builders import why_not_built
from nodepool_ocb.images.rules import ImageView
from nodepool_ocb.model import paths
from nodepool_ocb.model.images import BuildRequest
from nodepool_ocb.model.records import Create, Daemon, Set
from nodepool_ocb.operations.images import finding
from nodepool_ocb.operations.operation import Explained, Note, Operation, Right, Situation, Steps
from nodepool_ocb.operations.reads.builders import ReadBuilders
from nodepool_ocb.operations.reads.images import ReadConfiguredPauses, ReadImages, RequestNumber
from nodepool_ocb.views import images as shown


class BuildAsked(Explained, frozen=True, kw_only=True):
    """The answer of a request. ``after`` says why no build begins now, so far as that is known."""

    request: int | None = None  # its number; None in a dry run
    builders: bool = False  # a builder with a readable record is running; False in a dry run


class ImageBuild(Operation[BuildAsked], frozen=True, kw_only=True):
    """Ask for a build that begins after this; a request that exists is replaced. Raises NotFound."""

    noun = "image"
    verb = "build"
    right = Right.OPERATOR
    reads = (ReadImages, RequestNumber, ReadBuilders, ReadConfiguredPauses)
    writes = ("build request",)

    image: str
    reason: str | None = None

    def decide(self, situation: Situation) -> Steps[BuildAsked]:
        name = self.image
        view = finding.image_of((yield from finding.load()), name)
        record, path = BuildRequest(by=situation.by, reason=self.reason, at=situation.now), paths.request_build(name)
        yield [Create(path, record) if view.request is None else Set(path, record, view.request.version)]
        if situation.call.dry_run:
            return BuildAsked()
        request = yield from RequestNumber()
        running = yield from finding.builders()
        file = (yield from ReadConfiguredPauses()).get(name)
        if file is not None:
            yield Note(
                f"{name} is paused in {file}: builders that read the same begin nothing; take `pause` away there"
            )
        if not running:
            yield Note(shown.NOBODY)
        after = tuple(_hindrances(view, running, situation.local_now))
        return BuildAsked(request=request, builders=bool(running), after=after)


def _hindrances(view: ImageView, running: Mapping[str, Daemon], now: float) -> Iterator[str]:
    if cannot := why_not_built(view.name, running):
        yield shown.cannot_build(view.name, cannot)
    if view.pause is not None and view.pause.on(now):
        yield f"{view.name} is paused: nothing is built before: nodepool-ocb image unpause {view.name}"
