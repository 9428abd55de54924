"""``tasks check``: everything that is wrong in a list, before it is stored."""

from __future__ import annotations

from collections.abc import Sequence

import click

from nodepool_ocb.cli.kit import completion, output
from nodepool_ocb.cli.kit.options import Verb, settings
from nodepool_ocb.cli.kit.performing import perform
from nodepool_ocb.cli.tasks import options
from nodepool_ocb.errors import Invalid
from nodepool_ocb.operations.tasks import checking, files
from nodepool_ocb.operations.tasks.checking import TasksCheck
from nodepool_ocb.operations.tasks.lists import AS_FUEL
from nodepool_ocb.views.tasks import lists as shown
from nodepool_ocb.views.tasks.lists import CheckedList


@click.command(cls=Verb, operation=TasksCheck)
@click.argument("files", nargs=-1, required=True, type=click.Path(), metavar="DIR|FILE...")
@click.option(
    "--release",
    shell_complete=completion.releases,
    help="As entries of a deployment over this release's list, which is read from ZooKeeper.",
)
@click.option(
    "--deployment", shell_complete=completion.deployments, help="The same over the list of this deployment's release."
)
@options.lenient_option
@options.compat_option
def check(
    files: Sequence[str], release: str | None, deployment: str | None, lenient: bool, compat_prefix: bool
) -> None:
    """Say everything that is wrong in a task list, with file, line and key; of a directory every tasks.yaml below it.

    ZooKeeper is not asked, unless the list is checked over that of a release.
    """
    if release and deployment:
        raise click.UsageError("give --release or --deployment, not both")
    document = (
        _over(files, release, deployment, lenient=lenient, compat_prefix=compat_prefix)
        if release or deployment
        else _alone(files, lenient=lenient, compat_prefix=compat_prefix)
    )
    options.warn(document.warnings)
    if output.chosen() == "name":
        output.things(document.tasks, ("id",), key="id")
    elif output.chosen() != "table" or document.tasks:
        output.thing(document, "", output.table(shown.types(document), ("type", "tasks")))
    if document.problems:
        raise Invalid(document.problems)


def _alone(given: Sequence[str], *, lenient: bool, compat_prefix: bool) -> CheckedList:
    document, as_fuel = checking.check_files(given, settings, lenient=lenient, compat_prefix=compat_prefix)
    if as_fuel:
        output.say(AS_FUEL)
    return document


def _over(
    given: Sequence[str], release: str | None, deployment: str | None, *, lenient: bool, compat_prefix: bool
) -> CheckedList:
    """The check over the list of a release, which is read from ZooKeeper."""
    try:
        read = files.read(given)
    except Invalid as wrong:
        return shown.refused(wrong.problems)
    operation = TasksCheck(
        files=read, release=release, deployment=deployment, lenient=lenient, compat_prefix=compat_prefix
    )
    return perform(operation).answer
