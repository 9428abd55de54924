"""``nodepool-ocb deployment``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from nodepool_ocb.cli.kit import completion, output, reporting, sealing
from nodepool_ocb.cli.kit.options import (
    Noun,
    dry_run_option,
    settled_option,
    timeout_option,
    wait_options,
    yes_option,
)
from nodepool_ocb.cli.kit.performing import perform
from nodepool_ocb.cli.maintenance import deployment as maintenance
from nodepool_ocb.cli.noderoles import waiting
from nodepool_ocb.cli.noderoles.force import force_option
from nodepool_ocb.cli.schedule import checks
from nodepool_ocb.operations.deployments.changing import (
    DeploymentCommit,
    DeploymentCreate,
    DeploymentPropose,
    DeploymentWait,
)
from nodepool_ocb.operations.deployments.configuring import DeploymentSet, DeploymentUnset, DeploymentUnsetRole
from nodepool_ocb.operations.deployments.deleting import DeploymentDelete
from nodepool_ocb.operations.deployments.reading import DeploymentList, DeploymentShow
from nodepool_ocb.operations.operation import Explained, Operation
from nodepool_ocb.views.deployments import DeploymentBranch

if TYPE_CHECKING:
    from rich.tree import Tree

name_argument = click.argument("name", shell_complete=completion.deployments)


@click.group(cls=Noun)
def command() -> None:
    """Deployments: create, configure, propose, commit, wait."""


command.add_command(checks)
command.add_command(maintenance.pause)
command.add_command(maintenance.resume)


def _perform(operation: Operation[Explained], dry_run: bool, *, yes: bool = False) -> None:
    """Print the changes, and the sentences after them."""
    performed = perform(operation, dry_run=dry_run, yes=yes)
    reporting.performed(performed)
    for sentence in performed.answer.after:
        output.say(sentence)


@command.command(operation=DeploymentCreate)
@click.argument("name")
@click.option("--parent", default="system", show_default=True, shell_complete=completion.deployments)
@dry_run_option
def create(name: str, parent: str, dry_run: bool) -> None:
    """Make a deployment, PROPOSED."""

    _perform(DeploymentCreate(name=name, parent=parent), dry_run)


@command.command("list", operation=DeploymentList)
def list_() -> None:
    """Every deployment, with the states of its noderoles."""
    columns = ("name", "parent", "state", "paused", "noderoles", "since")
    output.things(perform(DeploymentList()).answer, columns)


@command.command(operation=DeploymentShow)
@name_argument
def show(name: str) -> None:
    """One deployment: its place in the tree, its roles with their attributes, and its noderoles."""
    found = perform(DeploymentShow(name=name)).answer
    document = found.document
    about = output.fields(document, but=("roles", "noderoles", "pause"))
    roles = output.table(document.roles, ("role", "user", "system", "hooks", "refused"))
    bound = output.table(document.noderoles, ("noderole", "state", "since"))
    output.thing(document, name, about, _tree(found.tree), roles, bound)


def _tree(branch: DeploymentBranch) -> Tree:
    from rich.tree import Tree

    made = Tree(branch.name)
    made.children += map(_tree, branch.below)
    return made


@command.command("set", operation=DeploymentSet)
@name_argument
@click.argument("role", shell_complete=completion.roles)
@click.argument(
    "assignments", nargs=-1, required=True, metavar="PATH/TO=JSON...", shell_complete=completion.assignments
)
@dry_run_option
def set_(name: str, role: str, assignments: Sequence[str], dry_run: bool) -> None:
    """Set attributes of a role for the whole deployment, while it is PROPOSED (`system`, which never is: at any time).

    PATH=-, PATH=@FILE and PATH=secret:REFERENCE are as for `noderole set`.
    """
    given = tuple(sealing.read(assignments))
    _perform(DeploymentSet(name=name, role=role, assignments=given), dry_run)


@command.command(operation=(DeploymentUnset, DeploymentUnsetRole))
@name_argument
@click.argument("role", shell_complete=completion.roles)
@click.argument("keys", nargs=-1, metavar="[PATH/TO...]", shell_complete=completion.settings)
@click.option("--force", is_flag=True, help="Without PATH: do not run its on_deployment_delete, which may refuse.")
@yes_option
@dry_run_option
def unset(name: str, role: str, keys: Sequence[str], force: bool, yes: bool, dry_run: bool) -> None:
    """Remove attributes that `deployment set` gave, by name or path; prints the values that then count.

    Without PATH the role leaves the deployment, with all its attributes there: refused while noderoles of it are bound there.
    """
    if keys:
        _perform(DeploymentUnset(name=name, role=role, keys=tuple(keys)), dry_run)
    else:
        _perform(DeploymentUnsetRole(name=name, role=role, force=force), dry_run, yes=yes)


@command.command(operation=DeploymentPropose)
@name_argument
@dry_run_option
def propose(name: str, dry_run: bool) -> None:
    """Keep annealers out of the deployment, so that people can change it."""
    _perform(DeploymentPropose(name=name), dry_run)


@command.command(operation=DeploymentCommit)
@name_argument
@click.option("--no-noderoles", "alone", is_flag=True, help="Leave its noderoles, PROPOSED or outdated, to a rollout.")
@force_option
@wait_options
@dry_run_option
def commit(name: str, alone: bool, force: bool, wait: bool, timeout_seconds: float | None, dry_run: bool) -> None:
    """Commit the PROPOSED noderoles of the deployment, run outdated ones again, and let annealers work in it.

    A noderole is outdated if it is ACTIVE and its inputs changed since its newest run; --dry-run names the changes. It runs
    in place, parents first. Refused without --force if a rollout under way commits any of these noderoles in its turn;
    --no-noderoles leaves them to the rollout.
    """
    if alone and wait:
        raise click.UsageError(
            "--no-noderoles and --wait contradict each other: nothing would become ACTIVE; leave one of them out"
        )
    operation = DeploymentCommit(name=name, alone=alone, force=force)
    waiting.commit_and_wait(operation, wait, timeout_seconds, dry_run)


@command.command(operation=DeploymentWait)
@name_argument
@settled_option
@timeout_option
def wait(name: str, timeout_seconds: float | None) -> None:
    """Wait until everything in the deployment is ACTIVE; ends at once when that cannot happen any more."""
    waiting.wait(DeploymentWait(name=name).awaited(), timeout_seconds, again=f"deployment wait {name}")


@command.command(operation=DeploymentDelete)
@name_argument
@yes_option
@dry_run_option
def delete(name: str, yes: bool, dry_run: bool) -> None:
    """Delete an empty deployment: its attributes and task list, and the records of its rollouts and runs of tasks.

    If that takes several transactions, the first one marks the deployment, and from then on nothing can enter it. If the
    command stops half-way, repeat it.
    """
    _perform(DeploymentDelete(name=name), dry_run, yes=yes)
