"""The options by which nodes are asked for, of ``request create`` and ``lease run``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from nodepool_ocb.cli.kit import completion

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS = (
    click.option(
        "--label",
        "labels",
        multiple=True,
        required=True,
        metavar="LABEL",
        shell_complete=completion.pool_labels,
        help="A node of this label; give it several times for several nodes.",
    ),
    click.option(
        "--count",
        type=click.IntRange(min=1),
        default=1,
        metavar="N",
        help="The number of nodes of each label; the default is 1.",
    ),
    click.option(
        "--priority",
        type=click.IntRange(0, 999),
        default=100,
        metavar="P",
        help="From 0 to 999; requests with a lower number are served first. The default is 100.",
    ),
    click.option("--tenant", metavar="TENANT", help="The tenant; its limits apply to the nodes."),
    click.option(
        "--provider",
        metavar="PROVIDER",
        shell_complete=completion.pool_providers,
        help="The only provider that may serve it.",
    ),
)


def wanted_options(command: F) -> F:
    """A decorator: ``--label``, ``--count``, ``--priority``, ``--tenant`` and ``--provider``."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command
