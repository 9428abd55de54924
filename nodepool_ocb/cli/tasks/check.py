"""``tasks check``: everything that is wrong in a list, before it is stored."""

from __future__ import annotations

from collections.abc import Sequence

import click

from nodepool_ocb.cli.kit import completion, output
from nodepool_ocb.cli.kit.options import Verb
from nodepool_ocb.cli.tasks import lists, sources
from nodepool_ocb.errors import Invalid
from nodepool_ocb.tasks.tasklist import TaskList
from nodepool_ocb.views.tasks import lists as shown

files_argument = click.argument("files", nargs=-1, required=True, type=click.Path(), metavar="DIR|FILE...")


@click.command(cls=Verb)
@files_argument
@click.option(
    "--release",
    shell_complete=completion.releases,
    help="As entries of a deployment over this release's list, which is read from ZooKeeper.",
)
@click.option(
    "--deployment", shell_complete=completion.deployments, help="The same over the list of this deployment's release."
)
@lists.lenient_option
@lists.compat_option
def check(
    files: Sequence[str], release: str | None, deployment: str | None, lenient: bool, compat_prefix: bool
) -> None:
    """Say everything that is wrong in a task list, with file, line and key; of a directory every tasks.yaml below it.

    ZooKeeper is not asked, unless the list is checked over that of a release.
    """
    from nodepool_ocb.tasks import reading

    if release and deployment:
        raise click.UsageError("give --release or --deployment, not both")
    found, problems = reading.Reading(TaskList()), tuple[str, ...]()
    try:
        found = lists.check(files, release, deployment, lenient=lenient, compat_prefix=compat_prefix)
        found = sources.warned(found)
    except Invalid as wrong:
        problems = wrong.problems
    lists.warn(found.warnings)
    document = shown.checked(found.tasks, found.warnings, problems)
    if output.chosen() == "name":
        output.things(document.tasks, ("id",), key="id")
    elif output.chosen() != "table" or document.tasks:
        output.thing(document, "", output.table(shown.types(document), ("type", "tasks")))
    if problems:
        raise Invalid(problems)
