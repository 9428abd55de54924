"""``node hold`` and ``node release``."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING, Final

import click

from nodepool_ocb.cli.aside.options import aside_options, ends, say
from nodepool_ocb.cli.kit import output
from nodepool_ocb.cli.kit import session as connection
from nodepool_ocb.cli.kit.options import Verb, dry_run_option
from nodepool_ocb.cli.kit.selecting import Nodes, nodes_argument, selector_option
from nodepool_ocb.cli.nodes.changing import change
from nodepool_ocb.engine import aside, nodes
from nodepool_ocb.engine.selection import together
from nodepool_ocb.engine.world import NodeView, World
from nodepool_ocb.model.records import Change, State

if TYPE_CHECKING:
    from nodepool_ocb.store.client.session import Session

NAMED: Final = 12  # nodes in a command


@click.command(cls=Verb, writes=True)
@nodes_argument
@selector_option
@aside_options
@click.option("--force", is_flag=True, help="Cancel what runs there; without, it goes on to its end.")
@dry_run_option
def hold(
    fqdns: Sequence[str], selector: str | None, reason: str, until: float | None, seconds: float | None, force: bool,
    dry_run: bool,
) -> None:  # fmt: skip
    """Set nodes aside: nothing new begins there, and nobody probes them, before `node release` or that time.

    Their noderoles stay as they are. Refused where somebody else holds one.
    """
    chosen = Nodes(fqdns, selector)
    with connection.session() as opened:
        now, by = opened.now(), connection.me()
        end = ends(now, until, seconds)

        def decide(opened: Session, world: World) -> Sequence[Sequence[Change]]:
            def one(view: NodeView) -> list[Change]:
                return list(chain(*nodes.hold(world, view.name, by, reason, now, end, end=force)))

            return together.decided(world, chosen.of(opened, world), one)

        connection.report(connection.change(opened, decide, dry_run), dry_run)
        held = chosen.again(connection.load(opened))
        _say_how_it_ends([view.name for view in held], end)
        _say_what_runs([] if force else held)


def _say_how_it_ends(held: Sequence[str], end: float | None) -> None:
    if held:
        what = f"node {held[0]} is held" if len(held) == 1 else f"{len(held)} nodes are held"
        lift = aside.releasing(" ".join(held) if len(held) <= NAMED else "FQDN...")
        say(f"{what}: nothing new begins there", end, lift)


def _say_what_runs(views: Sequence[NodeView]) -> None:
    for vertex in (view.busy for view in views if view.busy is not None):
        if vertex.record.state is State.TRANSITION and vertex.record.cancel_reason is None:
            output.say(f"{vertex.name} goes on to its end; to end it now: nodepool-ocb noderole cancel {vertex.name}")


@click.command(cls=Verb, writes=True)
@nodes_argument
@selector_option
@dry_run_option
def release(fqdns: Sequence[str], selector: str | None, dry_run: bool) -> None:
    """Let annealers work on nodes again that were held, and probe them."""

    change(Nodes(fqdns, selector), lambda *_: {"hold": None}, dry_run)
