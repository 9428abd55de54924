"""``nodepool-ocb barclamp``."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import click

from nodepool_ocb.catalogue import importing
from nodepool_ocb.cli.kit import output, session
from nodepool_ocb.cli.kit.options import Noun, dry_run_option, yes_option
from nodepool_ocb.cli.kit.performing import perform
from nodepool_ocb.cli.noderoles import outdated, owners
from nodepool_ocb.documents.counting import some
from nodepool_ocb.engine import structure, unreadable
from nodepool_ocb.engine.inputs import templates
from nodepool_ocb.engine.world import World
from nodepool_ocb.errors import Invalid, bounded
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Change, Role
from nodepool_ocb.operations.barclamps.deleting import BarclampDelete
from nodepool_ocb.views import cluster
from nodepool_ocb.views import roles as shown

if TYPE_CHECKING:
    from nodepool_ocb.catalogue.barclamp import Imported
    from nodepool_ocb.store.client.session import Session

files_argument = click.argument("files", nargs=-1, required=True, type=click.Path(), metavar="FILE|DIR...")


@click.group(cls=Noun)
def command() -> None:
    """Check, import and delete barclamps: the documents that define roles."""


@command.command()
@files_argument
def check(files: Sequence[str]) -> None:
    """Say everything that is wrong in documents, with file, line and key; ZooKeeper is not asked."""
    from nodepool_ocb.catalogue import barclamp

    found = barclamp.load(files)
    document = shown.checked(found)
    _complain(found.warnings)
    if output.chosen() == "name":
        output.things(document.roles, ("name",))
    elif document.roles or output.chosen() != "table":
        output.thing(document, "", output.table(document.roles, ("name", "barclamp", "jig", "flags")))
    elif not found.problems:
        output.say("no role is in these documents")
    if found.problems:
        raise Invalid(found.problems)


@command.command("import", writes=True)
@files_argument
@click.option("--whole", is_flag=True, help="Import nothing if any role has a problem.")
@dry_run_option
def import_(files: Sequence[str], whole: bool, dry_run: bool) -> None:
    """Import the roles of documents. A role with a problem is left out, and the command then ends with exit code 1."""
    from nodepool_ocb.catalogue import barclamp

    outcome: list[Imported] = []
    worlds: list[World] = []

    def decide(_: object, world: World) -> Iterator[Sequence[Change]]:
        worlds[:] = [world]
        unreadable.refuse_import(world)
        found = barclamp.load(files, {name: stored.record for name, stored in world.roles.items()})
        outcome[:] = [found]
        if found.problems and whole:
            raise Invalid(found.problems)
        yield from structure.in_parts(world, ([each] for each in importing.changes(world, found.roles)))

    with session.session() as opened:
        try:
            changes = session.change(opened, decide, dry_run)
        finally:
            _complain(outcome[0].warnings if outcome else ())
        said = [] if dry_run else _outdated(opened, worlds[-1], {change.path for change in changes})
        plain = _in_plain_text(opened, worlds[-1], outcome[0].roles)
    for problem in bounded(outcome[0].problems):
        output.say(f"left out: {problem}")
    session.report(changes, dry_run, warnings=tuple(outcome[0].warnings), problems=tuple(outcome[0].problems))
    for sentence in (*said, *plain):
        output.say(sentence)
    if outcome[0].problems:
        rest = "everything else is imported" if outcome[0].roles else "nothing else is there"
        raise Invalid(f"what has a problem was left out, and {rest}; mend it, and import again")


@command.command(operation=BarclampDelete)
@click.argument("name")
@yes_option
@dry_run_option
def delete(name: str, yes: bool, dry_run: bool) -> None:
    """Delete all roles of a barclamp at once: refused while one is bound, is in a deployment, or is required by another."""
    session.report_performed(perform(BarclampDelete(barclamp=name), dry_run=dry_run, yes=yes))


def _outdated(opened: Session, before: World, changed: Collection[str]) -> list[str]:
    """What is outdated by other roles; where nothing that rests on these is bound, nothing is read for that."""
    from nodepool_ocb.engine import inputs

    catalogue = {name: stored.record for name, stored in before.roles.items()}
    concerned = inputs.resting_on(catalogue, [name for name in catalogue if paths.role(name) in changed])
    if not any(vertex.role in concerned for vertex in before.vertices()):
        return []
    return outdated.sentences(opened, session.load(opened), lambda vertex: vertex.role in concerned)


def _in_plain_text(opened: Session, before: World, imported: Mapping[str, Role]) -> list[str]:
    """The places that hold plain text of values that these roles declare as secret now, and did not before."""
    known = _of(before) | dict(imported)
    younger = [
        name
        for name in before.roles
        if set(templates.secret(known, name)).difference(templates.secret(_of(before), name))
    ]
    if not younger:
        return []
    found = [f"{row.name}: {row.attribute}" for row in cluster.in_plain_text(owners.of(opened, before, younger), known)]
    if not found:
        return []
    return [
        f"warning: declared as secret now, and stored in plain text: {some(found)}; nodepool-ocb secret rotate encrypts"
        " it. Change the secret itself, too: ZooKeeper's logs and the journal keep what stood there"
    ]


def _of(world: World) -> dict[str, Role]:
    return {name: stored.record for name, stored in world.roles.items()}


def _complain(warnings: Sequence[str]) -> None:
    for warning in bounded(warnings, "warnings"):
        output.say(f"warning: {warning}")
