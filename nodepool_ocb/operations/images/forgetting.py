"""``upload delete --forget`` and ``image erase``: the records of uploads go, and the provider is asked nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from nodepool_ocb.documents.counting import counted
from nodepool_ocb.documents.suggest import did_you_mean
from nodepool_ocb.errors import Conflict, NotFound
from nodepool_ocb.images.rules import UploadView
from nodepool_ocb.model import limits
from nodepool_ocb.model.records import Delete
from nodepool_ocb.operations.images import finding
from nodepool_ocb.operations.images.finding import Images
from nodepool_ocb.operations.operation import Explained, Operation, Right, Situation, Steps
from nodepool_ocb.operations.reads.agreement import Agreement
from nodepool_ocb.operations.reads.announcement import Announcement
from nodepool_ocb.operations.reads.builders import ReadBuilders
from nodepool_ocb.operations.reads.images import ReadImages, ReadImagesAtFirst


class UploadDeleteRecords(Operation[Explained], frozen=True, kw_only=True):
    """Delete the records of a build's uploads at a provider, as they were when the agreement was asked for.

    Refused while a builder works on one of them, and without ``force`` if a running builder has the provider: that builder
    can delete the uploads there. Raises Conflict, or NotFound.
    """

    noun = "upload"
    verb = "delete"
    right = Right.ADMIN
    reads = (ReadImagesAtFirst, Announcement, ReadBuilders, Agreement, ReadImages)
    writes = ("upload",)

    image: str
    build: str
    provider: str
    upload: str | None = None  # its id; None: all of the build at the provider
    force: bool = False

    def decide(self, situation: Situation) -> Steps[Explained]:
        found = self._named((yield from finding.load_at_first()))
        reaching = yield from _reaching(self.provider)
        if reaching and not self.force:
            raise Conflict(
                f"the builder on {reaching} has provider {self.provider}; leave --forget out, and it deletes them there"
            )
        _refuse_locked(found)
        if not situation.call.dry_run:
            yield from Agreement(
                f"forget {', '.join(map(finding.called, found))}, and leave the objects at the provider"
            )
        now = self._named((yield from finding.load()))
        _refuse_locked(now)
        if _versions(now) != _versions(found):
            raise Conflict(
                f"the uploads of {self.image} to {self.provider} were changed meanwhile; see: nodepool-ocb upload list"
            )
        goes = [Delete(finding.path_of(self.image, upload), upload.version) for upload in now]
        yield from limits.parts(limits.singly(goes))
        return Explained(after=tuple(_stays(found)))

    def _named(self, known: Images) -> list[UploadView]:
        return finding.uploads_named(finding.image_of(known, self.image), self.build, self.provider, self.upload)


class ImageErase(Operation[Explained], frozen=True, kw_only=True):
    """Delete the records of every upload to a provider, as they were when the agreement was asked for.

    Refused if a running builder has the provider, or works on one of the uploads. Raises Conflict, or NotFound.
    """

    noun = "image"
    verb = "erase"
    right = Right.ADMIN
    reads = (ReadImagesAtFirst, ReadBuilders, Announcement, Agreement, ReadImages)
    writes = ("upload",)

    provider: str

    def decide(self, situation: Situation) -> Steps[Explained]:
        known = yield from finding.load_at_first()
        found = self._at(known)
        if not found:
            carried = {upload.provider for view in known.values() for upload in finding.uploads_of(view)}
            hint = did_you_mean(self.provider, carried) or "; an image's builds go by: nodepool-ocb image delete IMAGE"
            raise NotFound(f"no upload is at provider {self.provider}{hint}")
        yield from self._refuse_reached()
        if not situation.call.dry_run:
            yield from Announcement(tuple(_stays(found.values())))
            uploads = counted(len(found), "upload")
            yield from Agreement(
                f"erase the records of {uploads} to {self.provider}, and leave the objects at the provider"
            )
        now = self._at((yield from finding.load()))
        yield from self._refuse_reached()
        asked = {path: upload.version for path, upload in found.items()}
        left = {path: upload.version for path, upload in now.items()}
        if not left.items() <= asked.items():
            raise Conflict(f"the uploads to {self.provider} were changed meanwhile; see: nodepool-ocb upload list")
        yield from limits.parts(limits.singly(Delete(path, version) for path, version in left.items()))
        return Explained()

    def _at(self, known: Images) -> dict[str, UploadView]:
        """Every upload to the provider, by its path. Raises Conflict if a builder works on one."""
        there = {
            finding.path_of(name, upload): upload
            for name, view in known.items()
            for upload in finding.uploads_of(view)
            if upload.provider == self.provider
        }
        _refuse_locked(there.values())
        return there

    def _refuse_reached(self) -> Steps[None]:
        if reaching := (yield from _reaching(self.provider)):
            advice = "take it out of its nodepool.yaml first, or have it delete them: nodepool-ocb upload delete"
            raise Conflict(f"the builder on {reaching} has provider {self.provider}; {advice}")


def _reaching(provider: str) -> Steps[str | None]:
    """The host of a running builder that has the provider."""
    running = yield from finding.builders()
    return next((each.host for each in running.values() if provider in each.providers), None)


def _refuse_locked(uploads: Iterable[UploadView]) -> None:
    for upload in uploads:
        if upload.locked:
            raise Conflict(
                f"a builder works on {finding.called(upload)}; wait until that has ended; see: nodepool-ocb lock list"
            )


def _versions(uploads: Iterable[UploadView]) -> dict[str, int]:
    return {upload.id: upload.version for upload in uploads}


def _stays(uploads: Iterable[UploadView]) -> Iterator[str]:
    """A sentence for each external object that stays at its provider."""
    for upload in uploads:
        if upload.record.external_id is not None:
            yield f"{upload.provider} may still have {upload.record.external_id}: delete it there by hand"
