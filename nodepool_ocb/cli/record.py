"""``nodepool-ocb record``: single records of ZooKeeper as they are, and the deletion of broken ones."""

from __future__ import annotations

import click

from nodepool_ocb.cli.kit import output, reporting
from nodepool_ocb.cli.kit.options import Noun, dry_run_option, yes_option
from nodepool_ocb.cli.kit.performing import perform
from nodepool_ocb.operations.records.deleting import RecordDelete
from nodepool_ocb.operations.records.reading import RecordList, RecordShow
from nodepool_ocb.views.changes import ChangeRow
from nodepool_ocb.views.cluster import excerpt


@click.group(cls=Noun)
def command() -> None:
    """Single records in ZooKeeper: look at one as it is, delete one that cannot be read."""


@command.command("list", operation=RecordList)
def list_() -> None:
    """Every record that cannot be read, of all kinds, attributes and runs included: it reads the whole tree."""
    output.things(perform(RecordList()).answer, ("path", "reason"), key="path")


@command.command(operation=RecordShow)
@click.argument("path")
def show(path: str) -> None:
    """The bytes at a path, with control characters as \\x1b, and the reason if the record cannot be read."""
    document = perform(RecordShow(path=path)).answer
    output.thing(document, path, output.fields(document, but=("data",)), "", output.verbatim([excerpt(document)]))


@command.command(operation=RecordDelete)
@click.argument("path")
@click.option("--force", is_flag=True, help="Also a record that can be read.")
@yes_option
@dry_run_option
def delete(path: str, force: bool, yes: bool, dry_run: bool) -> None:
    """Delete a record that cannot be read, with all below it; refused while a daemon works there or records depend on it."""
    deleted = perform(RecordDelete(path=path, force=force), dry_run=dry_run, yes=yes).answer
    if dry_run:
        reporting.rows(
            [ChangeRow(change="delete", kind="record", name=each.path, state=None) for each in deleted], dry_run
        )
    output.things(deleted, ("change", "path"), key="path")
