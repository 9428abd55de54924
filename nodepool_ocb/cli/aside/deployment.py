"""``deployment pause`` and ``deployment resume``; of everything, as ``pause`` and ``resume``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import click

from nodepool_ocb.cli.aside.options import aside_options, ends, say
from nodepool_ocb.cli.kit import completion
from nodepool_ocb.cli.kit import session as connection
from nodepool_ocb.cli.kit.options import Verb, dry_run_option
from nodepool_ocb.engine import aside
from nodepool_ocb.engine.deployments import SYSTEM
from nodepool_ocb.engine.world import World
from nodepool_ocb.model.records import Change
from nodepool_ocb.operations.names import deployment_of

names_argument = click.argument(
    "names", nargs=-1, required=True, metavar="NAME...", shell_complete=completion.deployments
)


@click.command(cls=Verb, writes=True)
@names_argument
@aside_options
@dry_run_option
def pause(names: Sequence[str], reason: str, until: float | None, seconds: float | None, dry_run: bool) -> None:
    """Let nothing new begin in deployments, and all below them; what runs goes on to its end.

    Rollouts and runs of tasks there send nothing, and the time of their phases stands still.
    """
    paused(names, reason, until, seconds, dry_run)


@click.command(cls=Verb, writes=True)
@names_argument
@dry_run_option
def resume(names: Sequence[str], dry_run: bool) -> None:
    """Let annealers go on in deployments that were paused."""
    resumed(names, dry_run)


def paused(names: Sequence[str], reason: str, until: float | None, seconds: float | None, dry_run: bool) -> None:
    """Pause deployments, and print what was, or would be, changed."""
    with connection.session() as opened:
        end = ends(opened.now(), until, seconds)

        def decide(_: object, world: World) -> Iterator[Sequence[Change]]:
            for name in dict.fromkeys(names):
                deployment_of(world, name)
                if changes := aside.pause(world, name, connection.me(), reason, opened.now(), end):
                    yield changes

        connection.report(connection.change(opened, decide, dry_run), dry_run)
    for name in dict.fromkeys(names):
        where = "" if name == SYSTEM else " there"
        say(f"{aside.deployment(name)} is paused: annealers begin nothing new{where}", end, aside.resuming(name))


def resumed(names: Sequence[str], dry_run: bool) -> None:
    """Resume deployments, and print what was, or would be, changed."""

    def decide(_: object, world: World) -> Iterator[Sequence[Change]]:
        for name in dict.fromkeys(names):
            deployment_of(world, name)
            if changes := aside.resume(world, name):
                yield changes

    with connection.session() as opened:
        connection.report(connection.change(opened, decide, dry_run), dry_run)
