"""The options that several commands on task lists share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from nodepool_ocb.cli.kit import completion, output
from nodepool_ocb.cli.kit.performing import usage
from nodepool_ocb.cli.kit.selecting import node_selector_option
from nodepool_ocb.errors import bounded

if TYPE_CHECKING:
    from nodepool_ocb.operations.tasks.choosing import TaskChoice

F = TypeVar("F", bound=Callable[..., Any])

FACTS_FILE: Final = "/etc/astute.yaml"

release_option = click.option(
    "--release", metavar="NAME", shell_complete=completion.releases, help="The list of this release."
)
deployment_option = click.option(
    "--deployment", shell_complete=completion.deployments, help="The own list of this deployment."
)
one_deployment_option = click.option(
    "--deployment", required=True, shell_complete=completion.deployments, help="Of this deployment."
)
lenient_option = click.option(
    "--lenient",
    is_flag=True,
    help="As Fuel read it: of a key that is there twice the last counts, unknown keys are left out, a setting that is not there"
    " is null in conditions.",
)
compat_option = click.option(
    "--compat-prefix", is_flag=True, help="/patterns/ match the beginnings of names, as Fuel's did; else whole names."
)
nodes_option = click.option(
    "--nodes",
    multiple=True,
    metavar="UID,...",
    shell_complete=completion.nodes,
    help="On these nodes alone, by uid or FQDN; groups take them in this order.",
)
facts_file_option = click.option(
    "--facts-file", metavar="PATH", show_default=f"{FACTS_FILE}; with --retry as then",
    help="Where each node gets the file of its facts before anything else; `none` writes no file.",
)  # fmt: skip


def warn(warnings: Iterable[str]) -> None:
    """Print warnings on stderr."""
    for each in bounded(tuple(warnings), "warnings"):
        output.say(f"warning: {each}")


def _list(flag: str, help: str, metavar: str = "TASK,...") -> Callable[[F], F]:
    return click.option(flag, multiple=True, metavar=metavar, shell_complete=completion.tasks, help=help)


def part_options(command: F) -> F:
    """A decorator: which tasks."""
    for each in (
        _list("--end", "These tasks, and the tasks that they need."),
        _list("--start", "These tasks, and the tasks that need them; with --end the tasks between."),
        _list("--skip", "All but these tasks. Tasks that are left out keep their place in the order."),
        _list("--tasks", "These tasks alone; TASK/1,3-5 on some nodes alone."),
    ):
        command = each(command)
    return nodes_option(node_selector_option(command))


def run_options(command: F) -> F:
    """A decorator: in which way."""
    for each in (
        click.option(
            "--event", "events", multiple=True, help="Also tasks that run again on this event (reexecute_on)."
        ),
        click.option("--force", is_flag=True, help="Conditions on changes see everything as new."),
        click.option(
            "--retry",
            "--resume",
            "retry",
            is_flag=True,
            help="Go on with the newest run: its tasks that did not succeed, with its choice.",
        ),
        click.option("--noop", is_flag=True, help="Change nothing on machines: print the changes."),
    ):
        command = each(command)
    return part_options(command)


def choice(**given: Any) -> TaskChoice:
    """The choice that the options make; raises UsageError if they exclude one another."""
    from nodepool_ocb.operations.tasks import choosing

    with usage():
        return choosing.chosen(**given)
