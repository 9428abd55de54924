"""``noderole redeploy`` and ``unbind``: what is shown whole, and asked about, before it is done."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

import click

from nodepool_ocb.cli.kit import session
from nodepool_ocb.cli.kit.options import Verb, confirm, dry_run_option, wait_options, yes_option
from nodepool_ocb.cli.kit.selecting import Noderoles, noderoles_argument, selector_option
from nodepool_ocb.cli.noderoles import waiting
from nodepool_ocb.cli.rollouts import turns
from nodepool_ocb.engine import binding, commands, structure
from nodepool_ocb.engine.selection import together
from nodepool_ocb.engine.world import Vertex, World
from nodepool_ocb.errors import Conflict
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Change, State

if TYPE_CHECKING:
    from nodepool_ocb.store.client.session import Session


@click.command(cls=Verb, writes=True)
@noderoles_argument
@selector_option
@yes_option
@turns.force_option
@wait_options
@dry_run_option
def redeploy(
    names: Sequence[str], selector: str | None, yes: bool, force: bool, wait: bool, timeout_seconds: float | None,
    dry_run: bool,
) -> None:  # fmt: skip
    """Run noderoles again from the start, even if their roles are destructive and were done.

    Refused without --force where a rollout under way has to do with them.
    """

    def sure(chosen: Iterable[Vertex]) -> None:
        found = [f"{each.name}, which is destructive and was {each.record.once}" for each in chosen if each.record.once]
        if found and not dry_run:
            confirm(f"run again {'; '.join(found)}", yes)

    asked = Noderoles(names, selector, sure)

    def decide(opened: Session, world: World) -> Iterable[Sequence[Change]]:
        chosen = [each for each in asked.of(opened, world) if not asked.scope or _has_run(each)]
        now, me = opened.now(), session.me()
        commands.refuse_tasks(chosen)
        chosen.sort(key=lambda each: (world.depth(each), each.name))
        moved = together.decided(world, chosen, lambda each: commands.redeploy(each, now, me))
        return turns.kept(opened, world, chosen, moved, force)

    waiting.change_and_wait(decide, asked.names if wait else None, timeout_seconds, dry_run)


def _has_run(vertex: Vertex) -> bool:
    """Whether it may be redeployed; of what a selector means the rest is left alone."""
    return vertex.record.state not in (State.TRANSITION, State.PROPOSED)


@click.command(cls=Verb, writes=True)
@noderoles_argument
@selector_option
@yes_option
@dry_run_option
def unbind(names: Sequence[str], selector: str | None, yes: bool, dry_run: bool) -> None:
    """Take noderoles away, with those below them that only they hold; what they did on the machines stays done."""
    from nodepool_ocb.store.subtree import removal_as_judged

    going = list[str]()

    def sure(chosen: Collection[Vertex]) -> None:
        going[:] = [vertex.name for vertex in binding.removable_together(chosen)]
        if going and not dry_run:
            done = [vertex.name for vertex in binding.removable_together(chosen) if vertex.record.once]
            again = f"; destructive and done: {', '.join(done)}, which a new bind and commit do again" if done else ""
            confirm(f"delete {', '.join(going)} with their attributes and history{again}", yes)

    asked = Noderoles(names, selector, sure)

    def decide(opened: Session, world: World) -> Iterable[Sequence[Change]]:
        chosen = asked.left(world) if going else asked.of(opened, world)
        vertices = binding.removable_together(chosen)
        surprise = [vertex.name for vertex in vertices if vertex.name not in going]
        if surprise:
            raise Conflict(f"{', '.join(surprise)} was bound below them meanwhile; look again")
        places = (paths.noderole(vertex.role, vertex.node.name) for vertex in vertices)
        return structure.in_parts(world, (removal_as_judged(opened, world, place) for place in places))

    with session.session() as opened:
        session.report(session.change(opened, decide, dry_run), dry_run)
