"""``nodepool-ocb resume``."""

from __future__ import annotations

import click

from nodepool_ocb.cli.kit import reporting
from nodepool_ocb.cli.kit.options import Verb, dry_run_option
from nodepool_ocb.cli.kit.performing import perform
from nodepool_ocb.operations.deployments.pausing import ResumeAll


@click.command(cls=Verb, operation=ResumeAll)
@dry_run_option
def command(dry_run: bool) -> None:
    """Let annealers go on after `pause`; a deployment, node or daemon that was set aside by itself stays so."""
    reporting.performed(perform(ResumeAll(), dry_run=dry_run))
