"""``tasks check``: everything that is wrong in a list, before it is stored."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from nodepool_ocb.cli.kit import output
from nodepool_ocb.cli.kit.options import Verb
from nodepool_ocb.cli.tasks import lists
from nodepool_ocb.errors import Invalid
from nodepool_ocb.tasks.tasklist import TaskList
from nodepool_ocb.views.tasks import lists as shown


@click.command(cls=Verb)
@click.argument("files", nargs=-1, required=True, type=click.Path(), metavar="DIR|FILE...")
@lists.lenient_option
@lists.compat_option
def check(files: Sequence[str], lenient: bool, compat_prefix: bool) -> None:
    """Say everything that is wrong in a task list, with file, line and key; of a directory every tasks.yaml below it.

    ZooKeeper is not asked.
    """
    from nodepool_ocb.tasks import reading

    found, problems = reading.Reading(TaskList()), tuple[str, ...]()
    try:
        found = reading.read_files([*map(Path, files)], lenient=lenient, compat_prefix=compat_prefix)
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
