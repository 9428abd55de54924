"""``nodepool-ocb apply``."""

from __future__ import annotations

from collections.abc import Sequence

import click

from nodepool_ocb.cli.kit import output, reporting
from nodepool_ocb.cli.kit.options import Verb, dry_run_option, yes_option
from nodepool_ocb.cli.kit.performing import perform
from nodepool_ocb.cli.site import sources
from nodepool_ocb.operations.site.applying import ApplySite


@click.command(cls=Verb, operation=ApplySite)
@click.option(
    "-f",
    "--file",
    "files",
    multiple=True,
    required=True,
    metavar="FILE|DIR|-",
    help="A site file; as many as you like.",
)
@click.option(
    "--prune", is_flag=True, help="Also delete records that are not in the files, in the deployments of the files."
)
@yes_option
@dry_run_option
def command(files: Sequence[str], prune: bool, yes: bool, dry_run: bool) -> None:
    """Change the cluster to the state in site files; records that are not in the files stay as they are.

    The whole is planned first, and refused if any part is impossible. Then the plan is written, and nothing else. After an
    interruption the same command goes on. docs/site.md has the format.
    """
    performed = perform(ApplySite(wanted=sources.wanted(files), prune=prune), dry_run=dry_run, yes=yes)
    reporting.performed(performed)
    for sentence in performed.answer.after:
        output.say(sentence)
