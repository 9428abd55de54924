"""``nodepool-ocb upload``: builds at providers."""

from __future__ import annotations

from collections.abc import Sequence

import click

from nodepool_ocb.cli.kit import completion, output, reporting
from nodepool_ocb.cli.kit.options import Noun, dry_run_option, yes_option
from nodepool_ocb.cli.kit.performing import perform
from nodepool_ocb.model.images import UploadState
from nodepool_ocb.operations.images.deleting_uploads import UploadDelete
from nodepool_ocb.operations.images.forgetting import UploadDeleteRecords
from nodepool_ocb.operations.images.leaking import UploadLeaks, UploadLeaksDelete
from nodepool_ocb.operations.images.reading import UploadList


@click.group(cls=Noun)
def command() -> None:
    """Builds at providers."""


@command.command("list", operation=UploadList)
@click.option("--image", "name", shell_complete=completion.images)
@click.option("--provider", shell_complete=completion.providers)
@click.option("--state", "states", multiple=True, type=click.Choice([*map(str, UploadState)], case_sensitive=False))
def list_(name: str | None, provider: str | None, states: Sequence[str]) -> None:
    """Every upload; `-o name` prints the arguments of `upload delete`."""
    rows = perform(UploadList(image=name, provider=provider, states=tuple(states))).answer
    columns = ("image", "build", "provider", "upload", "state", "since", "format", "external_id", "attempt", "reason")
    output.things(rows, columns)


@command.command(operation=(UploadDelete, UploadDeleteRecords))
@click.argument("name", metavar="IMAGE", shell_complete=completion.images)
@click.argument("build", metavar="BUILD", shell_complete=completion.builds)
@click.argument("provider", metavar="PROVIDER", shell_complete=completion.providers)
@click.argument("id", metavar="[UPLOAD]", required=False)
@click.option("--force", is_flag=True, help="Also where the provider is left without a ready upload.")
@click.option("--forget", is_flag=True, help="Delete the records without a request to the provider: its objects stay.")
@yes_option
@dry_run_option
def delete(
    name: str, build: str, provider: str, id: str | None, force: bool, forget: bool, yes: bool, dry_run: bool
) -> None:
    """Ask for the deletion of a build's uploads at a provider: there first, then the records.

    Refused without --force where the provider would be left without a ready upload of the image. The newest ready build
    is sent again, unless the configuration pauses the image there.

    --forget is for a provider that no builder has any more. The objects there must then be deleted by hand.
    """
    kind = UploadDeleteRecords if forget else UploadDelete
    operation = kind(image=name, build=build, provider=provider, upload=id, force=force)
    performed = perform(operation, dry_run=dry_run, yes=yes)
    reporting.performed(performed)
    for sentence in performed.answer.after:
        output.say(sentence)


@command.command(operation=(UploadLeaks, UploadLeaksDelete))
@click.argument("provider", metavar="[PROVIDER]", required=False, shell_complete=completion.providers)
@click.option("--delete", "external_id", metavar="EXTERNAL-ID", help="Delete this one at PROVIDER.")
@click.option("--cluster", help="The cluster that its stamp must name, by id; the default is this one.")
@yes_option
@dry_run_option
def leaks(provider: str | None, external_id: str | None, cluster: str | None, yes: bool, dry_run: bool) -> None:
    """Objects at providers that have a stamp and no record: of this cluster, or of another one with a provider of this name.

    This host asks the providers in its nodepool.yaml. Builders delete the objects of this cluster, except those that may still
    be sent; those of other clusters stay until a person deletes them: --delete, with --cluster.
    """
    if external_id is None:
        rows = perform(UploadLeaks(provider=provider)).answer
        output.things(rows, ("provider", "external_id", "since", "whose", "cluster", "image", "build"))
        return
    if provider is None:
        raise click.UsageError("--delete needs PROVIDER")
    operation = UploadLeaksDelete(provider=provider, external_id=external_id, cluster=cluster)
    deleted = perform(operation, dry_run=dry_run, yes=yes).answer
    if dry_run:
        reporting.rows((deleted.row,), dry_run)
    for sentence in deleted.after:
        output.say(sentence)
