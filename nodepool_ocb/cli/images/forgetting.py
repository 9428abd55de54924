"""Forgetting uploads at a provider that no builder has any more: ``upload delete --forget``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from nodepool_ocb.cli.images import imaging
from nodepool_ocb.cli.kit import output, session
from nodepool_ocb.cli.kit.options import confirm
from nodepool_ocb.errors import Conflict
from nodepool_ocb.images.rules import UploadView
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Change, Delete

if TYPE_CHECKING:
    from nodepool_ocb.store.client.session import Session


def forget(
    opened: Session, name: str, build: str, provider: str, id: str | None, *, force: bool, yes: bool, dry_run: bool
) -> None:
    """Delete the records that were shown when it was asked, as they were then. Raises Conflict, or NotFound.

    Refused where somebody works on one, and without ``force`` where a running builder can delete it properly.
    """
    reaching = [each.host for each in imaging.builders(opened).values() if provider in each.providers]
    if reaching and not force:
        raise Conflict(
            f"the builder on {reaching[0]} has provider {provider}: leave --forget out, and it deletes them there"
        )
    shown = _free(imaging.uploads_named(imaging.image_of(imaging.load(opened), name), build, provider, id))
    if not dry_run:
        confirm(f"forget {', '.join(map(imaging.called, shown))}, and leave there what is there", yes)
    asked = {upload.id: upload.version for upload in shown}

    def decide(known: imaging.Images) -> Iterator[Sequence[Change]]:
        now = _free(imaging.uploads_named(imaging.image_of(known, name), build, provider, id))
        if {upload.id: upload.version for upload in now} != asked:
            raise Conflict(f"the uploads of {name} to {provider} were changed meanwhile; look at them again")
        yield from session.parts([Delete(_path(name, upload), upload.version) for upload in now])

    session.report(imaging.change(opened, decide, dry_run), dry_run)
    for upload in shown if not dry_run else ():
        if upload.record.external_id is not None:
            output.say(f"{provider} may still have {upload.record.external_id}: delete it there by hand")


def _free(uploads: list[UploadView]) -> list[UploadView]:
    for upload in uploads:
        if upload.locked:
            raise Conflict(f"a builder works on {imaging.called(upload)}; wait until that has ended")
    return uploads


def _path(name: str, upload: UploadView) -> str:
    return paths.upload(name, upload.build, upload.provider, upload.id)
