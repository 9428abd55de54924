"""The options of the verbs that set something aside: its reason and its end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from nodepool_ocb.cli.kit import output, times
from nodepool_ocb.views.times import shown as local

F = TypeVar("F", bound=Callable[..., Any])


def maintenance_options(command: F) -> F:
    """A decorator: ``--reason``, ``--until`` and ``--for``; the function gets ``reason``, ``until`` and ``seconds``."""
    reason = click.option("--reason", required=True, metavar="TEXT", help="Why: `status` and `explain` have it.")
    until = click.option(
        "--until", type=times.moment, metavar="TIME", help="As 2026-01-31T18:00, or with Z behind it for UTC."
    )
    seconds = click.option(
        "--for", "seconds", type=times.duration, metavar="DURATION", help="As 90m, 2h30m or 1d; then it ends by itself."
    )
    return reason(until(seconds(command)))


def say(what: str, until: float | None, lift: str) -> None:
    """Print the new state ("node n1 is held: ..."), its end, and the command that ends it."""
    end = f"until {local(until)}; to end it before" if until is not None else "until a command ends it"
    output.say(f"{what}, {end}: {lift}")


def refuse_both(until: float | None, seconds: float | None) -> None:
    """Raises UsageError for two ends of one time."""
    if until is not None and seconds is not None:
        raise click.UsageError("--until and --for contradict each other; give one of them")


def ends(now: float, until: float | None, seconds: float | None) -> float | None:
    """The time of its end; None if only a command ends it. Both options together are a wrong usage."""
    refuse_both(until, seconds)
    return now + seconds if seconds is not None else until
