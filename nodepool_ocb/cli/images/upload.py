"""``nodepool-ocb upload``: builds at providers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import click

from nodepool_ocb.cli.images import forgetting, imaging, leaking
from nodepool_ocb.cli.kit import completion, output, session
from nodepool_ocb.cli.kit.options import Noun, confirm, dry_run_option, yes_option
from nodepool_ocb.cli.kit.performing import perform
from nodepool_ocb.errors import Conflict
from nodepool_ocb.images.rules import ImageView, UploadView
from nodepool_ocb.images.states import UploadEvent, upload_after
from nodepool_ocb.model import paths
from nodepool_ocb.model.images import UploadState
from nodepool_ocb.model.records import Change, Check, Set
from nodepool_ocb.operations.images.reading import UploadList
from nodepool_ocb.views import images


@click.group(cls=Noun)
def command() -> None:
    """Builds at providers."""


@command.command("list", operation=UploadList)
@click.option("--image", "name", shell_complete=completion.images)
@click.option("--provider", shell_complete=completion.providers)
@click.option("--state", "states", multiple=True, type=click.Choice([*map(str, UploadState)], case_sensitive=False))
def list_(name: str | None, provider: str | None, states: Sequence[str]) -> None:
    """Every upload; `-o name` gives what `upload delete` takes."""
    rows = perform(UploadList(image=name, provider=provider, states=tuple(states))).answer
    columns = ("image", "build", "provider", "upload", "state", "since", "format", "external_id", "attempt", "reason")
    output.things(rows, columns)


@command.command(writes=True)
@click.argument("name", metavar="IMAGE", shell_complete=completion.images)
@click.argument("build", metavar="BUILD", shell_complete=completion.builds)
@click.argument("provider", metavar="PROVIDER", shell_complete=completion.providers)
@click.argument("id", metavar="[UPLOAD]", required=False)
@click.option("--force", is_flag=True, help="Also where the provider is left without a ready upload.")
@click.option(
    "--forget", is_flag=True, help="Delete the records, and ask nothing of the provider: what is there stays."
)
@yes_option
@dry_run_option
def delete(
    name: str, build: str, provider: str, id: str | None, force: bool, forget: bool, yes: bool, dry_run: bool
) -> None:
    """Ask for the deletion of a build's uploads at a provider: there first, then the records.

    Refused without --force where the provider would be left without a ready upload of the image. The newest ready build
    is sent again, unless the configuration pauses the image there.

    --forget is for a provider that no builder has any more. What is there must then be deleted by hand.
    """
    with session.session() as opened:
        if forget:
            forgetting.forget(opened, name, build, provider, id, force=force, yes=yes, dry_run=dry_run)
            return
        going = _deletable(imaging.image_of(imaging.load(opened), name), build, provider, id, force)
        if going and not dry_run:
            confirm(f"delete {', '.join(map(imaging.called, going))}", yes)
        chosen = {each.id for each in going}

        def decide(known: imaging.Images) -> Iterator[Sequence[Change]]:
            view = imaging.image_of(known, name)
            now = [each for each in _deletable(view, build, provider, id, force) if each.id in chosen]
            spared = [Check(_path(name, each), each.version) for each in _ready(view, provider) if each not in now]
            for part in session.parts([_deletion(name, each, opened.now()) for each in now]):
                yield [*spared[:1], *part]  # what must be left is left, whoever else deletes now

        session.report(imaging.change(opened, decide, dry_run), dry_run)


@command.command(writes=True)
@click.argument("provider", metavar="[PROVIDER]", required=False, shell_complete=completion.providers)
@click.option("--delete", "external_id", metavar="EXTERNAL-ID", help="Delete this one at PROVIDER.")
@click.option("--cluster", help="The cluster that its stamp must name, by id; the default is this one.")
@yes_option
@dry_run_option
def leaks(provider: str | None, external_id: str | None, cluster: str | None, yes: bool, dry_run: bool) -> None:
    """What providers have with a stamp and no record names: of this cluster, or of another one with a provider of this name.

    This host asks them, as its nodepool.yaml says. Builders delete those of this cluster, but for those that may still be
    sent; those of others stay, until somebody deletes them by hand: --delete, with --cluster.
    """
    with session.session() as opened:
        if external_id is not None and provider is None:
            raise click.UsageError("--delete needs PROVIDER")
        if external_id is not None and provider is not None:
            leaking.delete(opened, provider, external_id, cluster, yes=yes, dry_run=dry_run)
            return
        rows = [row for _, row in leaking.found(opened, provider)]
    output.things(rows, ("provider", "external_id", "since", "whose", "cluster", "image", "build"))


def _deletable(view: ImageView, build: str, provider: str, id: str | None, force: bool) -> list[UploadView]:
    """The uploads that are to go; raises Conflict, or NotFound."""
    chosen = imaging.uploads_named(view, build, provider, id)
    for upload in chosen:
        if images.upload_stands(upload) is UploadState.UPLOADING:
            raise Conflict(f"{upload.record.builder} sends {imaging.called(upload)} now; wait until that has ended")
    going = [upload for upload in chosen if upload.record.state is not UploadState.DELETE]
    ready = _ready(view, provider)
    if not force and ready and all(upload in going for upload in ready):
        raise Conflict(
            f"{provider} would be left without {view.name}: nothing could be launched from it there;"
            " give --force if you mean it"
        )
    return going


def _ready(view: ImageView, provider: str) -> list[UploadView]:
    """What could be launched from there."""
    there = [upload for upload in imaging.uploads_of(view) if upload.provider == provider]
    return [upload for upload in there if upload.record.state is UploadState.READY]


def _deletion(name: str, upload: UploadView, now: float) -> Change:
    reason = f"{session.me()} asked for its deletion"
    record = upload_after(upload.record, UploadEvent.DELETE, now, reason=reason)
    return Set(_path(name, upload), record, upload.version)


def _path(name: str, upload: UploadView) -> str:
    return paths.upload(name, upload.build, upload.provider, upload.id)
