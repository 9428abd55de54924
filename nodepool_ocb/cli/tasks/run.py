"""``tasks run``: a task list is planned, and carried out from now on."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from nodepool_ocb.cli.kit import output, session
from nodepool_ocb.cli.kit.options import Verb, timeout_option
from nodepool_ocb.cli.tasks import planning, remembering, running, selecting, waiting
from nodepool_ocb.cli.tasks.plan import show
from nodepool_ocb.cli.tasks.planning import Prepared
from nodepool_ocb.engine.world import World
from nodepool_ocb.model.records import Json, LockOwner
from nodepool_ocb.views.tasks import runs as shown
from nodepool_ocb.views.tasks.runs import Key

if TYPE_CHECKING:
    from nodepool_ocb.store.client.session import Session
    from nodepool_ocb.store.tasks.beginning import Wanted
    from nodepool_ocb.tasks.runs.records import Tolerance

FACTS_FILE: Final = "/etc/astute.yaml"
NO_FILE: Final = "none"


facts_file_option = click.option(
    "--facts-file", metavar="PATH", show_default=f"{FACTS_FILE}; with --retry as then",
    help="Where each node gets the file of its facts before anything else; `none` writes no file.",
)  # fmt: skip


@click.command(cls=Verb, writes=True)
@selecting.deployment_option
@selecting.run_options
@facts_file_option
@click.option(
    "--plan",
    "--dry-run",
    "only_plan",
    is_flag=True,
    help="Show what would run, and begin nothing; exit 10 if anything would.",
)
@click.option("--all", "everything", is_flag=True, help="With --plan: groups, stages and barriers, too.")
@click.option("--wait", is_flag=True, help="Wait until it is over; then print how it ended.")
@timeout_option
def run(
    deployment: str, facts_file: str | None, only_plan: bool, everything: bool, wait: bool, timeout_seconds: float | None,
    **options: Any,
) -> None:  # fmt: skip
    """Run the task list of a deployment on its nodes, or a part of it.

    Refused while another run of the deployment is under way, and where nothing would run.
    """
    asked = selecting.asked(**options)
    with session.session() as opened:
        world = session.load(opened)
        prepared = planning.prepare(opened, world, deployment, asked)
        if only_plan:
            raise click.exceptions.Exit(10 if show(prepared, world, everything=everything) else 0)
        for warning in prepared.warnings(world):
            output.say(f"note: {warning}")
        key = begin(opened, world, prepared, facts_file)
        running.warn_of_nobody(opened)
        begun = running.load(opened, key)
    if wait:
        output.say(f"tasks run {key} begins")
        waiting.wait(key, timeout_seconds)
    else:
        output.thing(begun.row, str(key), output.fields(shown.words(begun.row), but=("started",)))
        output.say(f"to look on: nodepool-ocb tasks wait {key}, or: nodepool-ocb tasks history {key}")


def _facts_file(opened: Session, prepared: Prepared, written: str | None) -> str | None:
    """Where it is to be; a retry has it where the run had it that it goes on with, unless somebody says otherwise."""
    if written is None and prepared.again is not None:
        return remembering.facts_file(opened, prepared.deployment, prepared.again)
    return None if written == NO_FILE else written or FACTS_FILE


def begin(
    opened: Session,
    world: World,
    prepared: Prepared,
    facts_file: str | None,
    tolerances: Sequence[Tolerance] | None = None,
) -> Key:
    """Write and bind it. ``tolerances``: those of a rollout, which is to send it; None: no rollout does."""
    from nodepool_ocb.store.tasks import beginning

    me = LockOwner(
        daemon=f"nodepool-ocb of {session.me()}",
        host=socket.gethostname(),
        pid=os.getpid(),
        purpose="begins a run of tasks",
        since=opened.now(),
    )
    file = _facts_file(opened, prepared, facts_file)
    wanted = _wanted(world, prepared, file, tolerances)
    return Key(prepared.deployment, beginning.begin(opened, wanted, me))


def _wanted(world: World, prepared: Prepared, facts_file: str | None, of_rollout: Sequence[Tolerance] | None) -> Wanted:
    """The run that is to begin; raises Invalid where nothing would run."""
    from nodepool_ocb.store.tasks.beginning import Wanted
    from nodepool_ocb.tasks.runs import making, naming, uniting

    deployment, asked = prepared.deployment, prepared.asked
    taken = {name for name, view in world.nodes.items() if view.record and _of_others(world, name, deployment)}
    run, roles = making.run(
        deployment,
        uniting.listed(prepared.tasks, prepared.parts),
        prepared.plan,
        virtual=naming.virtual(deployment, taken),
        facts=making.facts_task(facts_file) if facts_file else None,
        tolerances=list(making.tolerances(prepared.tasks, prepared.plan)) if of_rollout is None else of_rollout,
        held=of_rollout is not None,
        by=session.me(),
        noop=asked.noop,
        what=asked.words or None,
        again=prepared.again,
    )
    texts = [(f"{layer.origin}/{name}", text) for layer in prepared.stored.layers for name, text in layer.texts.items()]
    return Wanted(running=run, roles=roles, facts=_facts(prepared, facts_file), texts=texts)


def _of_others(world: World, name: str, deployment: str) -> bool:
    node = world.nodes[name].record
    return node is not None and not (node.virtual and node.deployment == deployment)


def _facts(prepared: Prepared, facts_file: str | None) -> Mapping[str, Mapping[str, Json]]:
    """What jigs see of a run, beside what its nodes are given."""
    shared = {"deployment": prepared.deployment, "noop": prepared.asked.noop, "facts_file": facts_file}
    return {**prepared.facts, "common": {**prepared.facts["common"], "tasks": shared}}
