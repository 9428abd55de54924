"""All commands of the command line."""

from __future__ import annotations

from collections.abc import Iterator

import click

from nodepool_ocb.cli.kit.walking import below
from nodepool_ocb.cli.main import cli


def commands() -> Iterator[click.Context]:
    """The context of each command and group, the root first."""
    yield from _walk(click.Context(cli, info_name="nodepool-ocb", **cli.context_settings))


def _walk(context: click.Context) -> Iterator[click.Context]:
    yield context
    for each in below(context):
        if not each.command.hidden:
            yield from _walk(each)
