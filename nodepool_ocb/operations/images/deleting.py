"""``image delete``: the deletion of builds is asked for; builders carry it out."""

from __future__ import annotations

from nodepool_ocb.errors import Conflict
from nodepool_ocb.images.rules import BuildView, ImageView
from nodepool_ocb.images.states import BuildEvent, build_after
from nodepool_ocb.model import limits, paths
from nodepool_ocb.model.images import BuildState
from nodepool_ocb.model.records import Change, Check, Set
from nodepool_ocb.operations.images import finding
from nodepool_ocb.operations.operation import Explained, Operation, Right, Situation, Steps
from nodepool_ocb.operations.reads.agreement import Agreement
from nodepool_ocb.operations.reads.announcement import Announcement
from nodepool_ocb.operations.reads.images import ReadImages, ReadImagesAtFirst
from nodepool_ocb.views import images as shown


class ImageDelete(Operation[Explained], frozen=True, kw_only=True):
    """Ask for the deletion of builds that exist when the agreement is asked for. Raises Conflict, or NotFound.

    Refused without ``force`` if the image would be left without a ready build, and if the state of a build changes after
    the question.
    """

    noun = "image"
    verb = "delete"
    right = Right.OPERATOR
    reads = (ReadImagesAtFirst, Announcement, Agreement, ReadImages)
    writes = ("build",)

    image: str
    build: str | None = None  # its id; None: all
    force: bool = False

    def decide(self, situation: Situation) -> Steps[Explained]:
        name = self.image
        view = finding.image_of((yield from finding.load_at_first()), name)
        going = self._deletable(view)
        if going and not situation.call.dry_run:
            yield from Agreement(f"delete {', '.join(_going(view, build) for build in going)}")
        states = {build.id: shown.stands(view, build) for build in going}
        view = finding.image_of((yield from finding.load()), name)
        now = [build for build in self._deletable(view) if build.id in states]
        for build in now:
            if shown.stands(view, build) is not states[build.id]:
                was = f"{name}-{build.id} was {states[build.id]}, and is {shown.stands(view, build)} now"
                raise Conflict(f"{was}; see: nodepool-ocb image show {name}")
        spared = [Check(paths.build(name, build.id), build.version) for build in view.ready() if build not in now]
        for part in limits.parts(limits.singly(_deletion(name, build, situation) for build in now)):
            yield [*spared[:1], *part]  # a build that must stay stays, also if others delete now
        return Explained()

    def _deletable(self, view: ImageView) -> list[BuildView]:
        """The builds that are to go; raises Conflict, or NotFound."""
        chosen = list(view.builds) if self.build is None else [finding.build_of(view, self.build)]
        going = [build for build in chosen if build.record.state is not BuildState.DELETE]
        ready = view.ready()
        if not self.force and ready and all(build in going for build in ready):
            which = "the only ready build" if len(ready) == 1 else "every ready build"
            raise Conflict(
                f"that is {which} of {view.name}: nothing could be launched from it; give --force if you mean it"
            )
        return going


def _going(view: ImageView, build: BuildView) -> str:
    """A build in the question to a person."""
    under_way = shown.stands(view, build) is BuildState.BUILDING
    count = len(build.uploads)
    uploads = f" with {count} upload{'s' if count > 1 else ''}" if count else ""
    return f"{view.name}-{build.id}{uploads}{', which is being built' if under_way else ''}"


def _deletion(name: str, build: BuildView, situation: Situation) -> Change:
    reason = f"{situation.by} asked for its deletion"
    record = build_after(build.record, BuildEvent.DELETE, situation.now, reason=reason)
    return Set(paths.build(name, build.id), record, build.version)
