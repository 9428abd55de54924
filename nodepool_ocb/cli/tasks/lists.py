"""Task lists as commands see them."""

from __future__ import annotations

from collections.abc import Iterable

import click

from nodepool_ocb.cli.kit import output

lenient_option = click.option(
    "--lenient",
    is_flag=True,
    help="As Fuel read it: of a key that is there twice the last counts, unknown keys are left out.",
)
compat_option = click.option(
    "--compat-prefix", is_flag=True, help="/patterns/ match the beginnings of names, as Fuel's did; else whole names."
)


def warn(warnings: Iterable[str]) -> None:
    """What is odd."""
    for each in warnings:
        output.say(f"warning: {each}")
