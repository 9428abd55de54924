"""``nodepool-ocb noderole``: looking at noderoles, and what is done to them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import click
from msgspec.structs import replace

from nodepool_ocb.cli.kit import completion, output, sealing, session
from nodepool_ocb.cli.kit.options import Noun, dry_run_option, settled_option, timeout_option, wait_options
from nodepool_ocb.cli.kit.sealing import reveal_option
from nodepool_ocb.cli.kit.selecting import Noderoles, noderoles_argument, noderoles_meant, selector_option
from nodepool_ocb.cli.noderoles import outdated, runs, waiting
from nodepool_ocb.cli.noderoles.attributes import attributes
from nodepool_ocb.cli.noderoles.checking import check, list_drift
from nodepool_ocb.cli.noderoles.committing import Commit
from nodepool_ocb.cli.noderoles.destroying import redeploy, unbind
from nodepool_ocb.cli.noderoles.explain import explain
from nodepool_ocb.cli.noderoles.log import log
from nodepool_ocb.cli.noderoles.setting import set_, unset
from nodepool_ocb.cli.rollouts import turns
from nodepool_ocb.engine import claim, commands, selection, unreadable
from nodepool_ocb.engine.hooks import deployment as deploymentroles
from nodepool_ocb.engine.noderole import Event
from nodepool_ocb.engine.world import Vertex, World
from nodepool_ocb.errors import Conflict
from nodepool_ocb.model import limits
from nodepool_ocb.model.records import Change, State
from nodepool_ocb.operations.names import deployment_of, node_of, noderole_of, role_of
from nodepool_ocb.views import noderoles as shown

if TYPE_CHECKING:
    from nodepool_ocb.store.client.session import Session

#: What asks for nothing more where it has been done already.
DONE: Final = {Event.COMMIT: frozenset(State) - {State.PROPOSED}, Event.PROPOSE: frozenset({State.PROPOSED})}

#: What to do where nothing runs that could be cancelled.
INSTEAD_OF_CANCEL: Final = {
    State.PROPOSED: "it was not committed, and does not run before: nodepool-ocb noderole explain {}",
    State.BLOCKED: "nodepool-ocb noderole propose {} takes back what has not begun",
    State.TODO: "nodepool-ocb noderole propose {} takes back what has not begun",
    State.ACTIVE: "it is done: nodepool-ocb noderole log {}",
    State.ERROR: "it has ended, and failed: nodepool-ocb noderole explain {}",
}


@click.group(cls=Noun)
def command() -> None:
    """Roles on nodes, written ROLE@FQDN: states, explanations, logs, retries."""


command.add_command(attributes)
command.add_command(check)
command.add_command(explain)
command.add_command(list_drift)
command.add_command(log)
command.add_command(redeploy)
command.add_command(set_)
command.add_command(unbind)
command.add_command(unset)

name_argument = click.argument("name", metavar="ROLE@FQDN", shell_complete=completion.noderoles)


# -- looking --


@command.command("list")
@click.option("--state", "states", multiple=True, type=click.Choice([*map(str, State)], case_sensitive=False))
@click.option("--deployment", shell_complete=completion.deployments)
@click.option("--node", "fqdn", shell_complete=completion.nodes)
@click.option("--role", shell_complete=completion.roles)
@click.option(
    "--outdated", "only_outdated", is_flag=True, help="ACTIVE ones that would be given something else now, and what."
)
@click.option("--watch", is_flag=True, help="One JSON object a line for each, now and whenever it changes.")
@selector_option
def list_(
    states: Sequence[str], deployment: str | None, fqdn: str | None, role: str | None, only_outdated: bool, watch: bool,
    selector: str | None,
) -> None:  # fmt: skip
    """Noderoles and their states."""
    if watch and (only_outdated or selector is not None):
        raise click.UsageError("--watch goes neither with --outdated nor with -l: attributes are not watched")

    def wanted(vertex: Vertex) -> bool:
        record = vertex.record
        near = fqdn in (None, vertex.node.name) and role in (None, vertex.role)
        return near and deployment in (None, record.deployment) and (not states or record.state in states)

    if watch:
        _watch(wanted)
        return
    with session.session() as opened:
        world = session.load(opened)
        for name, find in ((deployment, deployment_of), (fqdn, node_of), (role, role_of)):
            if name is not None:
                find(world, name)
        meant = noderoles_meant(opened, world, selector)
        found = [each for each in world.vertices() if wanted(each) and (meant is None or each.name in meant)]
        among = outdated.find(opened, world, found) if only_outdated or _asks_outdated(selector) else None
        if among is not None and (only_outdated or 0 < len(found) == len(among.vertices)):
            changed = outdated.rows(opened, world, among)
            output.things(changed, ("noderole", "deployment", "different", "advice"), key="noderole")
            return
    rows = [shown.row(vertex) for vertex in sorted(found, key=lambda each: each.name)]
    output.things(rows, ("noderole", "state", "deployment", "since", "reason"), key="noderole")


def _asks_outdated(selector: str | None) -> bool:
    """Whether a table may say what differs, as all that a selector means may be outdated."""
    asks = selector is not None and selection.asks_outdated(selection.parse(selector))
    return asks and output.chosen() == "table"


def _watch(wanted: Callable[[Vertex], bool]) -> None:
    for world, touched in waiting.worlds(None):
        for vertex in sorted(touched.vertices, key=lambda each: each.name):
            if world.vertex(vertex.name) is None:
                output.line(shown.Gone(vertex.name))
            elif wanted(vertex):
                output.line(shown.row(vertex))


@command.command()
@name_argument
@reveal_option
def show(name: str, reveal: bool) -> None:
    """One noderole: its record, its neighbours, its attributes, and its runs."""
    with session.session() as opened:
        vertex = noderole_of(session.load(opened), name)
        layers, recorded = runs.attributes(opened, vertex, reveal=reveal), runs.recorded(opened, vertex)
    document = shown.document(vertex, sealing.shown(layers) if reveal else layers, recorded)
    tables = [output.fields(document, document.attributes, but=("attributes", "runs"))]
    if document.runs:
        columns = ("run", "outcome", "generation", "exit_code", "started", "ended", "log")
        tables.append(output.table(document.runs, columns))
    output.thing(document, name, *tables)


@command.command()
@noderoles_argument
@selector_option
@settled_option
@timeout_option
def wait(names: Sequence[str], selector: str | None, timeout_seconds: float | None) -> None:
    """Wait until noderoles are ACTIVE; ends at once when one fails, is deleted, or cannot become ACTIVE."""
    with session.session() as opened:
        chosen = [vertex.name for vertex in Noderoles(names, selector).of(opened, session.load(opened))]
    waiting.wait(lambda _: chosen, timeout_seconds)


# -- changing --


def _act(
    event: Event,
    names: Sequence[str],
    selector: str | None,
    *,
    wait: bool,
    timeout_seconds: float | None,
    dry_run: bool,
    force: bool = True,
) -> Noderoles:
    """Apply one event to noderoles; one that is named is refused where its state has no use for it."""
    committing, asked = Commit(force, dry_run), Noderoles(names, selector)

    def decide(opened: Session, world: World) -> Iterable[Sequence[Change]]:
        chosen = asked.of(opened, world)
        commands.refuse_tasks(chosen)
        for vertex in () if asked.scope else chosen:
            state, meant = vertex.record.state, commands.MEANT_FOR[event]
            if not commands.meant_for(vertex, event) and state not in DONE.get(event, ()):
                hint = f"ask: nodepool-ocb noderole explain {vertex.name}"
                raise Conflict(f"{vertex.name} is {state}; {event.lower()} is for {' or '.join(sorted(meant))}; {hint}")
        if event is Event.COMMIT:
            deploymentroles.refuse_noderoles(world, chosen)
            unreadable.refuse_commit(world, chosen)
            return committing.transactions(opened, world, chosen)
        moved = commands.apply_to(world, chosen, event, opened.now(), session.me())
        meant_for = [vertex for vertex in chosen if commands.meant_for(vertex, event)]
        return turns.kept(opened, world, meant_for, moved, force)

    waiting.change_and_wait(decide, asked.names if wait else None, timeout_seconds, dry_run, committing.explanations)
    committing.say_what_may_be_left(waited=wait and not dry_run)
    return asked


@command.command(writes=True)
@noderoles_argument
@selector_option
@turns.force_option
@wait_options
@dry_run_option
def commit(names: Sequence[str], selector: str | None, **how: Any) -> None:
    """Let annealers have noderoles that are PROPOSED, and run again in place those that are ACTIVE and outdated.

    Refused without --force where a rollout under way commits them in its turn.
    """
    _act(Event.COMMIT, names, selector, **how)


@command.command(writes=True)
@noderoles_argument
@selector_option
@dry_run_option
def propose(names: Sequence[str], selector: str | None, dry_run: bool) -> None:
    """Take noderoles back, to change them; what is below them waits."""
    asked = _act(Event.PROPOSE, names, selector, wait=False, timeout_seconds=None, dry_run=dry_run)
    with session.session() as opened:
        world = session.load(opened)
        for deployment in sorted({vertex.record.deployment for vertex in asked.again(world)}):
            turns.warn(
                opened, world, deployment, "a node whose noderoles are taken back while they are sent has failed"
            )


@command.command(writes=True)
@noderoles_argument
@selector_option
@wait_options
@dry_run_option
def refresh(names: Sequence[str], selector: str | None, **how: Any) -> None:
    """Run ACTIVE noderoles again in place; what is below them goes on."""
    _act(Event.REFRESH, names, selector, **how)


@command.command(writes=True)
@noderoles_argument
@selector_option
@click.option("--failed", is_flag=True, help="All that are in ERROR.")
@click.option("--deployment", shell_complete=completion.deployments, help="With --failed: only of this one.")
@turns.force_option
@wait_options
@dry_run_option
def retry(
    names: Sequence[str], selector: str | None, failed: bool, deployment: str | None, force: bool, wait: bool,
    timeout_seconds: float | None, dry_run: bool,
) -> None:  # fmt: skip
    """Run failed noderoles again; one that waits for its next attempt runs now.

    Refused without --force where a rollout under way sends them in its turn; once it is over, `rollout retry` does.
    """
    if (bool(names) or selector is not None) == failed or (deployment and not failed):
        raise click.UsageError("give noderoles, -l EXPR, or --failed [--deployment D]")
    asked = None if failed else Noderoles(names, selector)
    retried: dict[str, None] = {}

    def decide(opened: Session, world: World) -> Iterator[Sequence[Change]]:
        if deployment is not None:
            deployment_of(world, deployment)
        chosen = _failed(world, deployment) if asked is None else asked.of(opened, world)
        commands.refuse_tasks(chosen)
        retried.update(dict.fromkeys(vertex.name for vertex in chosen))
        now = opened.now()
        pausing = [vertex for vertex in chosen if vertex.record.state is State.TODO and vertex.record.not_before > now]
        if asked is not None and asked.scope:
            chosen = [vertex for vertex in chosen if vertex.record.state is State.ERROR or vertex in pausing]
        for vertex in chosen:
            if vertex.record.state is not State.ERROR and vertex not in pausing:
                hint = f"ask: nodepool-ocb noderole explain {vertex.name}"
                raise Conflict(f"{vertex.name} is {vertex.record.state}; retry is for what failed; {hint}")
        hurried = ((v, replace(v.record, not_before=0.0, by=session.me())) for v in pausing)
        yield from limits.parts(claim.writes(vertex, record) for vertex, record in hurried)
        broken = [vertex for vertex in chosen if vertex.record.state is State.ERROR]
        moved = commands.apply_to(world, chosen, Event.RETRY, now, session.me())
        yield from turns.kept(opened, world, broken, moved, force)

    waiting.change_and_wait(decide, (lambda _: retried) if wait else None, timeout_seconds, dry_run)


def _failed(world: World, deployment: str | None) -> list[Vertex]:
    failed = (v for v in world.vertices() if v.record.state is State.ERROR and v.record.task_run is None)
    return [vertex for vertex in failed if deployment in (None, vertex.record.deployment)]


@command.command(writes=True)
@noderoles_argument
@selector_option
@click.option("--reason", default="somebody cancelled it", show_default=True, help="What their records are to say.")
@dry_run_option
def cancel(names: Sequence[str], selector: str | None, reason: str, dry_run: bool) -> None:
    """End what runs on the machines; the noderoles are then in ERROR, and may be retried."""
    asked = Noderoles(names, selector)

    def decide(opened: Session, world: World) -> Iterable[Sequence[Change]]:
        chosen = asked.of(opened, world)
        for vertex in () if asked.scope else chosen:
            if vertex.record.state is not State.TRANSITION:
                hint = INSTEAD_OF_CANCEL[vertex.record.state].format(vertex.name)
                raise Conflict(f"{vertex.name} is {vertex.record.state}; cancel is for what runs; {hint}")
        me = session.me()
        return commands.apply_to(world, chosen, Event.CANCEL, opened.now(), me, f"{reason} ({me})")

    waiting.change_and_wait(decide, None, None, dry_run)
