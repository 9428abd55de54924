"""``upload delete`` without ``--forget``: the deletion of uploads is asked for; builders carry it out."""

from __future__ import annotations

from nodepool_ocb.errors import Conflict
from nodepool_ocb.images.rules import ImageView, UploadView
from nodepool_ocb.images.states import UploadEvent, upload_after
from nodepool_ocb.model import limits
from nodepool_ocb.model.images import UploadState
from nodepool_ocb.model.records import Change, Check, Set
from nodepool_ocb.operations.images import finding
from nodepool_ocb.operations.operation import Explained, Operation, Right, Situation, Steps
from nodepool_ocb.operations.reads.agreement import Agreement
from nodepool_ocb.operations.reads.announcement import Announcement
from nodepool_ocb.operations.reads.images import ReadImages, ReadImagesAtFirst
from nodepool_ocb.views import images as shown


class UploadDelete(Operation[Explained], frozen=True, kw_only=True):
    """Ask for the deletion of a build's uploads at a provider that exist when the agreement is asked for.

    Refused without ``force`` if the provider would be left without a ready upload. Raises Conflict, or NotFound.
    """

    noun = "upload"
    verb = "delete"
    right = Right.OPERATOR
    reads = (ReadImagesAtFirst, Announcement, Agreement, ReadImages)
    writes = ("upload",)

    image: str
    build: str
    provider: str
    upload: str | None = None  # its id; None: all of the build at the provider
    force: bool = False

    def decide(self, situation: Situation) -> Steps[Explained]:
        name = self.image
        going = self._deletable(finding.image_of((yield from finding.load_at_first()), name))
        if going and not situation.call.dry_run:
            yield from Agreement(f"delete {', '.join(map(finding.called, going))}")
        chosen = {each.id for each in going}
        view = finding.image_of((yield from finding.load()), name)
        now = [each for each in self._deletable(view) if each.id in chosen]
        ready = _ready(view, self.provider)
        spared = [Check(finding.path_of(name, each), each.version) for each in ready if each not in now]
        for part in limits.parts(limits.singly(_deletion(name, each, situation) for each in now)):
            yield [*spared[:1], *part]  # an upload that must stay stays, also if others delete now
        return Explained()

    def _deletable(self, view: ImageView) -> list[UploadView]:
        """The uploads that are to go; raises Conflict, or NotFound."""
        chosen = finding.uploads_named(view, self.build, self.provider, self.upload)
        for upload in chosen:
            if shown.upload_stands(upload) is UploadState.UPLOADING:
                raise Conflict(
                    f"{upload.record.builder} sends {finding.called(upload)} now; wait until that has ended;"
                    " see: nodepool-ocb lock list"
                )
        going = [upload for upload in chosen if upload.record.state is not UploadState.DELETE]
        ready = _ready(view, self.provider)
        if not self.force and ready and all(upload in going for upload in ready):
            raise Conflict(
                f"{self.provider} would be left without {view.name}: nothing could be launched from it there;"
                " give --force if you mean it"
            )
        return going


def _ready(view: ImageView, provider: str) -> list[UploadView]:
    """The uploads from which machines could be launched there."""
    there = [upload for upload in finding.uploads_of(view) if upload.provider == provider]
    return [upload for upload in there if upload.record.state is UploadState.READY]


def _deletion(name: str, upload: UploadView, situation: Situation) -> Change:
    reason = f"{situation.by} asked for its deletion"
    record = upload_after(upload.record, UploadEvent.DELETE, situation.now, reason=reason)
    return Set(finding.path_of(name, upload), record, upload.version)
