"""``nodepool-ocb resume``."""

from __future__ import annotations

import click

from nodepool_ocb.cli.aside.deployment import resumed
from nodepool_ocb.cli.kit.options import Verb, dry_run_option
from nodepool_ocb.engine.deployments import SYSTEM


@click.command(cls=Verb, writes=True)
@dry_run_option
def command(dry_run: bool) -> None:
    """Let annealers go on after `pause`; a deployment, node or daemon that was set aside by itself stays so."""
    resumed([SYSTEM], dry_run)
