"""``nodepool-ocb barclamp``."""

from __future__ import annotations

from collections.abc import Sequence

import click

from nodepool_ocb.cli.kit import output, reporting
from nodepool_ocb.cli.kit.options import Noun, dry_run_option, yes_option
from nodepool_ocb.cli.kit.performing import perform
from nodepool_ocb.errors import Invalid, bounded
from nodepool_ocb.operations.barclamps import importing
from nodepool_ocb.operations.barclamps.deleting import BarclampDelete
from nodepool_ocb.operations.barclamps.importing import BarclampImport

files_argument = click.argument("files", nargs=-1, required=True, type=click.Path(), metavar="FILE|DIR...")


@click.group(cls=Noun)
def command() -> None:
    """Check, import and delete barclamps: the documents that define roles."""


@command.command(local="It checks files of this host.")
@files_argument
def check(files: Sequence[str]) -> None:
    """Say everything that is wrong in documents, with file, line and key; ZooKeeper is not asked."""
    document, warnings = importing.check(files)
    for warning in warnings:
        output.say(warning)
    if output.chosen() == "name":
        output.things(document.roles, ("name",))
    elif document.roles or output.chosen() != "table":
        output.thing(document, "", output.table(document.roles, ("name", "barclamp", "jig", "flags")))
    elif not document.problems:
        output.say("no role is in these documents")
    if document.problems:
        raise Invalid(document.problems)


@command.command("import", operation=BarclampImport)
@files_argument
@click.option("--whole", is_flag=True, help="Import nothing if any role has a problem.")
@dry_run_option
def import_(files: Sequence[str], whole: bool, dry_run: bool) -> None:
    """Import the roles of documents. A role with a problem is left out, and the command then ends with exit code 1."""
    performed = perform(BarclampImport(files=importing.read(files), whole=whole), dry_run=dry_run)
    found = performed.answer
    for problem in bounded(found.problems):
        output.say(f"left out: {problem}")
    reporting.performed(performed, warnings=found.warnings, problems=found.problems)
    for sentence in found.after:
        output.say(sentence)
    if found.problems:
        rest = "everything else is imported" if found.roles else "nothing else is there"
        raise Invalid(f"roles with a problem were left out, and {rest}; mend them, and import again")


@command.command(operation=BarclampDelete)
@click.argument("name")
@yes_option
@dry_run_option
def delete(name: str, yes: bool, dry_run: bool) -> None:
    """Delete all roles of a barclamp at once: refused while one is bound, is in a deployment, or is required by another."""
    reporting.performed(perform(BarclampDelete(barclamp=name), dry_run=dry_run, yes=yes))
