"""``tools/walk``: takes the walks, and prints a table of their figures."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import click
import msgspec

from walks.scene import Walk, report, walks

OWN: Path = Path(__file__).parents[2]


@click.command()
@click.option(
    "--tree", type=click.Path(path_type=Path, file_okay=False, exists=True), help="Measure that tree in place of this."
)
@click.option("--json", "file", type=click.Path(path_type=Path, dir_okay=False), help="Write the figures there, too.")
@click.option(
    "--show", multiple=True, metavar="WALK", help="Print the modules and the pairs of this walk, too; repeatable."
)
def main(tree: Path | None, file: Path | None, show: tuple[str, ...]) -> None:
    """Count the modules, the folders and the two-way pairs that eight tasks of a user run through."""
    measured = (tree or OWN).resolve()
    if tree is not None and Path(sys.prefix) != measured / ".venv":
        python = str(measured / ".venv/bin/python")
        environment = os.environ | {"PYTHONSAFEPATH": "1"}  # or the packages of the working directory come first
        os.execve(python, [python, "-m", "walks", *sys.argv[1:]], environment)
    with tempfile.TemporaryDirectory(prefix="ocb-walk-") as folder:
        walked = list(walks(measured, Path(folder)))
    click.echo("\n".join(report(walked)))
    for walk in walked:
        if walk.name in show:
            _details(walk)
    if file is not None:
        file.write_bytes(msgspec.json.encode(walked))


def _details(walk: Walk) -> None:
    click.echo(f"\n{walk.name}: {walk.program}")
    for name in walk.figures.modules:
        click.echo(f"  {name}")
    for one, other in walk.figures.two_way:
        click.echo(f"  {one} <-> {other}")


main()
