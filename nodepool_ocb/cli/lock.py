"""``nodepool-ocb lock``."""

from __future__ import annotations

import click

from nodepool_ocb.cli.kit import output
from nodepool_ocb.cli.kit.options import Noun
from nodepool_ocb.cli.kit.performing import perform
from nodepool_ocb.operations.records.locking import LockList


@click.group(cls=Noun)
def command() -> None:
    """The locks and claims that are held now."""


@command.command("list", operation=LockList)
def list_() -> None:
    """Every claim on a node, and every lock: on a rollout, a run of tasks, an image's builds, a build's uploads, the webhook."""
    output.things(perform(LockList()).answer, ("kind", "name", "owner", "host", "purpose", "since"))
