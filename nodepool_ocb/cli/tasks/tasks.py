"""``nodepool-ocb tasks``: task lists, as Fuel has them."""

from __future__ import annotations

import click

from nodepool_ocb.cli.kit.options import Noun
from nodepool_ocb.cli.tasks.check import check


@click.group(cls=Noun)
def command() -> None:
    """Task lists: check them."""


for verb in (check,):
    command.add_command(verb)
