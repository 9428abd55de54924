"""``nodepool-ocb noderole``: looking at noderoles, and what is done to them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import click
from msgspec.structs import replace

from nodepool_ocb.cli.kit import completion, output, session
from nodepool_ocb.cli.kit.names import deployment_of, node_of, noderole_of, role_of
from nodepool_ocb.cli.kit.options import Noun, confirm, dry_run_option, timeout_option, wait_options, yes_option
from nodepool_ocb.cli.noderoles import outdated, runs, waiting
from nodepool_ocb.cli.noderoles.committing import Commit
from nodepool_ocb.cli.noderoles.explain import explain, log
from nodepool_ocb.cli.noderoles.setting import set_, unset
from nodepool_ocb.cli.rollouts import turns
from nodepool_ocb.engine import binding, claim, commands, structure, unreadable
from nodepool_ocb.engine.hooks import deployment as deploymentroles
from nodepool_ocb.engine.noderole import Event
from nodepool_ocb.engine.world import Vertex, World
from nodepool_ocb.errors import Conflict
from nodepool_ocb.model import limits, paths
from nodepool_ocb.model.records import Change, State
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


command.add_command(explain)
command.add_command(log)
command.add_command(set_)
command.add_command(unset)

name_argument = click.argument("name", metavar="ROLE@FQDN", shell_complete=completion.noderoles)
names_argument = click.argument(
    "names", nargs=-1, required=True, metavar="ROLE@FQDN...", shell_complete=completion.noderoles
)


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
def list_(
    states: Sequence[str], deployment: str | None, fqdn: str | None, role: str | None, only_outdated: bool, watch: bool
) -> None:
    """Noderoles and their states."""
    if watch and only_outdated:
        raise click.UsageError("--outdated and --watch contradict each other: attributes are not watched")

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
        if only_outdated:
            changed = outdated.rows(opened, world, outdated.find(opened, world, filter(wanted, world.vertices())))
            output.things(changed, ("noderole", "deployment", "different", "advice"), key="noderole")
            return
    rows = [shown.row(vertex) for vertex in sorted(world.vertices(), key=lambda each: each.name) if wanted(vertex)]
    output.things(rows, ("noderole", "state", "deployment", "since", "reason"), key="noderole")


def _watch(wanted: Callable[[Vertex], bool]) -> None:
    for world, touched in waiting.worlds(None):
        for vertex in sorted(touched.vertices, key=lambda each: each.name):
            if world.vertex(vertex.name) is None:
                output.line(shown.Gone(vertex.name))
            elif wanted(vertex):
                output.line(shown.row(vertex))


@command.command()
@name_argument
def show(name: str) -> None:
    """One noderole: its record, its neighbours, its attributes, and its runs."""
    with session.session() as opened:
        vertex = noderole_of(session.load(opened), name)
        document = shown.document(vertex, runs.attributes(opened, vertex), runs.recorded(opened, vertex))
    tables = [output.fields(document, document.attributes, but=("attributes", "runs"))]
    if document.runs:
        columns = ("run", "outcome", "generation", "exit_code", "started", "ended", "log")
        tables.append(output.table(document.runs, columns))
    output.thing(document, name, *tables)


@command.command()
@names_argument
@timeout_option
def wait(names: Sequence[str], timeout_seconds: float | None) -> None:
    """Wait until noderoles are ACTIVE; ends at once when one fails, is deleted, or cannot become ACTIVE."""
    known = session.world()
    for name in names:
        noderole_of(known, name)
    waiting.wait(lambda _: names, timeout_seconds)


# -- changing --


def _act(
    event: Event, names: Sequence[str], *, wait: bool, timeout_seconds: float | None, dry_run: bool, force: bool = True
) -> None:
    """Apply one event to noderoles that are named; refused where the state of one has no use for it."""
    committing = Commit(force, dry_run)

    def decide(opened: Session, world: World) -> Iterable[Sequence[Change]]:
        chosen = [noderole_of(world, name) for name in dict.fromkeys(names)]
        commands.refuse_tasks(chosen)
        for vertex in chosen:
            state, meant = vertex.record.state, commands.MEANT_FOR[event]
            if state not in meant and state not in DONE.get(event, ()):
                hint = f"ask: nodepool-ocb noderole explain {vertex.name}"
                raise Conflict(f"{vertex.name} is {state}; {event.lower()} is for {' or '.join(sorted(meant))}; {hint}")
        if event is Event.COMMIT:
            deploymentroles.refuse_noderoles(world, chosen)
            unreadable.refuse_commit(world, chosen)
            return committing.transactions(opened, world, chosen)
        moved = commands.apply_to(world, chosen, event, opened.now(), session.me())
        meant_for = [vertex for vertex in chosen if vertex.record.state in commands.MEANT_FOR[event]]
        return turns.kept(opened, world, meant_for, moved, force)

    awaited = (lambda _: names) if wait else None
    waiting.change_and_wait(decide, awaited, timeout_seconds, dry_run, committing.explanations)
    committing.say_what_may_be_left(waited=wait and not dry_run)


@command.command()
@names_argument
@turns.force_option
@wait_options
@dry_run_option
def commit(names: Sequence[str], **how: Any) -> None:
    """Let annealers have noderoles that are PROPOSED, and run again in place those that are ACTIVE and outdated.

    Refused without --force where a rollout under way commits them in its turn.
    """
    _act(Event.COMMIT, names, **how)


@command.command()
@names_argument
@dry_run_option
def propose(names: Sequence[str], dry_run: bool) -> None:
    """Take noderoles back, to change them; what is below them waits."""
    _act(Event.PROPOSE, names, wait=False, timeout_seconds=None, dry_run=dry_run)
    with session.session() as opened:
        world = session.load(opened)
        for deployment in sorted({noderole_of(world, name).record.deployment for name in names}):
            turns.warn(
                opened, world, deployment, "a node whose noderoles are taken back while they are sent has failed"
            )


@command.command()
@names_argument
@wait_options
@dry_run_option
def refresh(names: Sequence[str], **how: Any) -> None:
    """Run ACTIVE noderoles again in place; what is below them goes on."""
    _act(Event.REFRESH, names, **how)


@command.command()
@click.argument("names", nargs=-1, metavar="[ROLE@FQDN]...", shell_complete=completion.noderoles)
@click.option("--failed", is_flag=True, help="All that are in ERROR.")
@click.option("--deployment", shell_complete=completion.deployments, help="With --failed: only of this one.")
@turns.force_option
@wait_options
@dry_run_option
def retry(
    names: Sequence[str], failed: bool, deployment: str | None, force: bool, wait: bool, timeout_seconds: float | None,
    dry_run: bool,
) -> None:  # fmt: skip
    """Run failed noderoles again; one that waits for its next attempt runs now.

    Refused without --force where a rollout under way sends them in its turn; once it is over, `rollout retry` does.
    """
    if bool(names) == failed or (deployment and not failed):
        raise click.UsageError("give noderoles, or --failed [--deployment D]")
    retried: dict[str, None] = {}

    def decide(opened: Session, world: World) -> Iterator[Sequence[Change]]:
        if deployment is not None:
            deployment_of(world, deployment)
        chosen = [noderole_of(world, name) for name in names] if names else _failed(world, deployment)
        commands.refuse_tasks(chosen)
        retried.update(dict.fromkeys(vertex.name for vertex in chosen))
        now = opened.now()
        pausing = [vertex for vertex in chosen if vertex.record.state is State.TODO and vertex.record.not_before > now]
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


def _path(vertex: Vertex) -> str:
    return paths.noderole(vertex.role, vertex.node.name)


@command.command()
@names_argument
@click.option("--reason", default="somebody cancelled it", show_default=True, help="What their records are to say.")
@dry_run_option
def cancel(names: Sequence[str], reason: str, dry_run: bool) -> None:
    """End what runs on the machines; the noderoles are then in ERROR, and may be retried."""

    def decide(opened: Session, world: World) -> Iterable[Sequence[Change]]:
        chosen = [noderole_of(world, name) for name in dict.fromkeys(names)]
        for vertex in chosen:
            if vertex.record.state is not State.TRANSITION:
                hint = INSTEAD_OF_CANCEL[vertex.record.state].format(vertex.name)
                raise Conflict(f"{vertex.name} is {vertex.record.state}; cancel is for what runs; {hint}")
        me = session.me()
        return commands.apply_to(world, chosen, Event.CANCEL, opened.now(), me, f"{reason} ({me})")

    waiting.change_and_wait(decide, None, None, dry_run)


@command.command()
@name_argument
@yes_option
@turns.force_option
@wait_options
@dry_run_option
def redeploy(name: str, yes: bool, force: bool, wait: bool, timeout_seconds: float | None, dry_run: bool) -> None:
    """Run a noderole again from the start, even if its role is destructive and was done.

    Refused without --force where a rollout under way has to do with it.
    """
    vertex = noderole_of(session.world(), name)
    if vertex.record.once is not None and not dry_run:
        confirm(f"run {name} again, which is destructive and was {vertex.record.once}, on {vertex.node.name}", yes)

    def decide(opened: Session, world: World) -> Iterator[Sequence[Change]]:
        vertex = noderole_of(world, name)
        yield from turns.kept(opened, world, [vertex], [commands.redeploy(vertex, opened.now(), session.me())], force)

    waiting.change_and_wait(decide, (lambda _: [name]) if wait else None, timeout_seconds, dry_run)


@command.command()
@name_argument
@yes_option
@dry_run_option
def unbind(name: str, yes: bool, dry_run: bool) -> None:
    """Take a noderole away, with those below it that only it holds; what it did on the machine stays done."""
    world = session.world()
    going = [vertex.name for vertex in binding.removable(noderole_of(world, name))]
    if not dry_run:
        confirm(f"delete {', '.join(going)} with their attributes and history", yes)

    from nodepool_ocb.store.subtree import removal_as_judged

    def decide(opened: Any, world: World) -> Iterator[Sequence[Change]]:
        vertices = binding.removable(noderole_of(world, name))
        surprise = [vertex.name for vertex in vertices if vertex.name not in going]
        if surprise:
            raise Conflict(f"{', '.join(surprise)} was bound below {name} meanwhile; look again")
        yield from structure.in_parts(world, (removal_as_judged(opened, world, _path(vertex)) for vertex in vertices))

    with session.session() as opened:
        session.report(session.change(opened, decide, dry_run), dry_run)
