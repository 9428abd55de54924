"""Forgetting uploads at a provider that no builder has any more: ``upload delete --forget``, ``image erase``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from nodepool_ocb.cli.images import imaging
from nodepool_ocb.cli.kit import output, session
from nodepool_ocb.cli.kit.options import confirm
from nodepool_ocb.documents.suggest import did_you_mean
from nodepool_ocb.errors import Conflict, NotFound
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
    found = imaging.uploads_named(imaging.image_of(imaging.load(opened), name), build, provider, id)
    reaching = _reaching(opened, provider)
    if reaching and not force:
        raise Conflict(
            f"the builder on {reaching} has provider {provider}: leave --forget out, and it deletes them there"
        )
    shown = _free(found)
    if not dry_run:
        confirm(f"forget {', '.join(map(imaging.called, shown))}, and leave there what is there", yes)
    asked = {upload.id: upload.version for upload in shown}

    def decide(known: imaging.Images) -> Iterator[Sequence[Change]]:
        now = _free(imaging.uploads_named(imaging.image_of(known, name), build, provider, id))
        if {upload.id: upload.version for upload in now} != asked:
            raise Conflict(f"the uploads of {name} to {provider} were changed meanwhile; look at them again")
        yield from session.parts([Delete(_path(name, upload), upload.version) for upload in now])

    session.report(imaging.change(opened, decide, dry_run), dry_run)
    if not dry_run:
        _tell_what_stays(shown)


def erase(opened: Session, provider: str, *, yes: bool, dry_run: bool) -> None:
    """Delete the records of every upload to a provider. Raises Conflict, or NotFound.

    Refused where a running builder has the provider, or works on one of them.
    """
    known = imaging.load(opened)
    shown = _at(known, provider)
    if not shown:
        carried = {upload.provider for view in known.values() for upload in imaging.uploads_of(view)}
        hint = did_you_mean(provider, carried) or "; an image's builds go by: nodepool-ocb image delete IMAGE"
        raise NotFound(f"no upload is at provider {provider}{hint}")
    _refuse_reached(opened, provider)
    if not dry_run:
        _tell_what_stays([upload for _, upload in shown])
        confirm(f"erase the records of {len(shown)} uploads to {provider}, and leave there what is there", yes)
    asked = {_path(name, upload): upload.version for name, upload in shown}

    def decide(known: imaging.Images) -> Iterator[Sequence[Change]]:
        _refuse_reached(opened, provider)
        now = {_path(name, upload): upload.version for name, upload in _at(known, provider)}
        if not now.items() <= asked.items():
            raise Conflict(f"the uploads to {provider} were changed meanwhile; look at them again")
        yield from session.parts([Delete(path, version) for path, version in now.items()])

    session.report(imaging.change(opened, decide, dry_run), dry_run)


def _at(known: imaging.Images, provider: str) -> list[tuple[str, UploadView]]:
    """Every upload to a provider, with its image. Raises Conflict where a builder works on one."""
    there = [
        (name, upload)
        for name, view in known.items()
        for upload in imaging.uploads_of(view)
        if upload.provider == provider
    ]
    _free([upload for _, upload in there])
    return there


def _refuse_reached(opened: Session, provider: str) -> None:
    if reaching := _reaching(opened, provider):
        what = "take it out of its nodepool.yaml first, or have it delete them: nodepool-ocb upload delete"
        raise Conflict(f"the builder on {reaching} has provider {provider}; {what}")


def _reaching(opened: Session, provider: str) -> str | None:
    """The host of a running builder that has the provider."""
    return next((each.host for each in imaging.builders(opened).values() if provider in each.providers), None)


def _tell_what_stays(uploads: Iterable[UploadView]) -> None:
    for upload in uploads:
        if upload.record.external_id is not None:
            output.say(f"{upload.provider} may still have {upload.record.external_id}: delete it there by hand")


def _free(uploads: list[UploadView]) -> list[UploadView]:
    for upload in uploads:
        if upload.locked:
            raise Conflict(f"a builder works on {imaging.called(upload)}; wait until that has ended")
    return uploads


def _path(name: str, upload: UploadView) -> str:
    return paths.upload(name, upload.build, upload.provider, upload.id)
