"""``nodepool-ocb pause``."""

from __future__ import annotations

import click

from nodepool_ocb.cli.aside.deployment import paused
from nodepool_ocb.cli.aside.options import aside_options
from nodepool_ocb.cli.kit.options import Verb, dry_run_option
from nodepool_ocb.engine.deployments import SYSTEM


@click.command(cls=Verb, writes=True)
@aside_options
@dry_run_option
def command(reason: str, until: float | None, seconds: float | None, dry_run: bool) -> None:
    """Let annealers begin nothing new anywhere: `deployment pause system`, which is above all others.

    What runs goes on to its end. Builders go on: `daemon pause`, `image pause`.
    """
    paused([SYSTEM], reason, until, seconds, dry_run)
