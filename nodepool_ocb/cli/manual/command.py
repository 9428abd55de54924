"""``nodepool-ocb man``: the manual pages, written where `man` looks for them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.metadata import distribution
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nodepool_ocb.cli.kit import output
from nodepool_ocb.cli.kit.options import Verb
from nodepool_ocb.errors import Invalid
from nodepool_ocb.views.view import View

if TYPE_CHECKING:
    from nodepool_ocb.cli.manual.pages import Page


class Written(View, frozen=True):
    """The folder of written pages, and their names."""

    directory: str
    pages: tuple[str, ...]


@click.command(cls=Verb, local="It writes manual pages on this host.")
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path), default="/usr/local/share/man/man1")
def command(directory: Path) -> None:
    """Write the manual pages: of all commands, and of the daemons that are installed here.

    DIRECTORY is made where it is missing; without one it is /usr/local/share/man/man1. Then `man nodepool-ocb` shows the
    first, and `man nodepool-ocb-node-bind` that of `node bind`.
    """
    made = list(_pages())
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for page in made:
            (directory / page.file).write_text(page.text)
    except OSError as error:
        raise Invalid(f"{error.filename} cannot be written: {error.strerror}; give another DIRECTORY") from error
    document = Written(str(directory), tuple(page.name for page in made))
    output.text(document, f"{len(made)} pages in {directory}; man nodepool-ocb shows the first")


def _pages() -> Iterator[Page]:
    from nodepool_ocb.cli.main import cli
    from nodepool_ocb.cli.manual.pages import pages

    installed = distribution("nodepool-ocb")
    version = f"nodepool-ocb {installed.version}"
    seconds = os.environ.get("SOURCE_DATE_EPOCH")
    date = f"{datetime.fromtimestamp(float(seconds), UTC) if seconds else datetime.now(UTC):%Y-%m-%d}"
    yield from pages(cli, "nodepool-ocb", version, date)
    for script in sorted(installed.entry_points.select(group="console_scripts"), key=lambda each: each.name):
        daemon = script.load() if script.name != "nodepool-ocb" else None
        if isinstance(daemon, click.Command):
            yield from pages(daemon, script.name, version, date)
