"""Which part of a task list is meant: the options of ``tasks plan``, ``tasks run`` and ``tasks graph``."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import click
import msgspec

from nodepool_ocb.cli.kit import completion
from nodepool_ocb.cli.kit.selecting import selector_option
from nodepool_ocb.tasks.selection import Selection

F = TypeVar("F", bound=Callable[..., Any])


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What the options say; each name as it was written: ``TASK`` or ``TASK/NODES``."""

    nodes: tuple[str, ...] = ()
    selector: str | None = None  # instead of nodes: a plan has those that it means
    tasks: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    start: tuple[str, ...] = ()
    end: tuple[str, ...] = ()
    events: tuple[str, ...] = ()
    force: bool = False
    noop: bool = False
    retry: bool = False  # what the newest run left

    @classmethod
    def again(cls, words: str) -> Asked:
        """What was asked in these words.

        >>> written = Asked(nodes=("1", "2"), tasks=("a/1,3", "b"), events=("e", "disk full"), force=True)
        >>> Asked.again(written.words) == written
        True
        >>> Asked.again(Asked(nodes=("rack 1",)).words).nodes
        ('rack 1',)
        """
        given: dict[str, Any] = {}
        option = ""
        for word in shlex.split(words):
            if word.startswith("--"):
                option = {"--event": "events"}.get(word, word[2:])
                given.setdefault(option, True if option in ("force", "noop") else [])
            else:
                given[option].append(word)
        return asked(**given)

    @property
    def selection(self) -> Selection:
        """The tasks; false where all are meant."""
        return Selection(tasks=self.tasks, skip=self.skip, start=self.start, end=self.end)

    @property
    def words(self) -> str:
        """As they may be typed again.

        >>> Asked(nodes=("1", "2"), end=("deploy",)).words
        '--nodes 1,2 --end deploy'
        """
        lists = {"nodes": self.nodes, "tasks": self.tasks, "skip": self.skip, "start": self.start, "end": self.end}
        found = [
            f"--{name} {shlex.quote(value)}" for name, values in lists.items() for value in _together(name, values)
        ]
        found += [f"--event {shlex.quote(event)}" for event in self.events]
        return " ".join([*found, *(["--noop"] if self.noop else []), *(["--force"] if self.force else [])])


def _together(name: str, values: Sequence[str]) -> list[str]:
    """Names as few options: what stands behind a slash would take in what follows it."""
    if name != "nodes" and any("/" in value for value in values):
        return list(values)
    return [",".join(values)] if values else []


def names(written: Iterable[str]) -> tuple[str, ...]:
    """Names that are divided by commas; behind a slash commas divide nodes.

    >>> names(["hiera,netconfig/1,3-5", "ntp"])
    ('hiera', 'netconfig/1,3-5', 'ntp')
    """
    found: list[str] = []
    for each in written:
        before, slash, nodes = each.partition("/")
        *whole, last = before.split(",")
        found += [*whole, f"{last}{slash}{nodes}"]
    return tuple(dict.fromkeys(name for name in found if name))


def _list(flag: str, help: str, metavar: str = "TASK,...") -> Callable[[F], F]:
    return click.option(flag, multiple=True, metavar=metavar, shell_complete=completion.tasks, help=help)


deployment_option = click.option(
    "--deployment", required=True, shell_complete=completion.deployments, help="Of this deployment."
)
nodes_option = click.option(
    "--nodes",
    multiple=True,
    metavar="UID,...",
    shell_complete=completion.nodes,
    help="On these nodes alone, by uid or FQDN; groups take them in this order.",
)


def part_options(command: F) -> F:
    """A decorator: which tasks."""
    for each in (
        _list("--end", "These tasks, and what they need."),
        _list("--start", "These tasks, and what needs them; with --end what is between."),
        _list("--skip", "All but these tasks. What is left out keeps its place in the order."),
        _list("--tasks", "These tasks alone; TASK/1,3-5 on some nodes alone."),
    ):
        command = each(command)
    return nodes_option(selector_option(command))


def run_options(command: F) -> F:
    """A decorator: in which way."""
    for each in (
        click.option(
            "--event", "events", multiple=True, help="Also tasks that run again on this event (reexecute_on)."
        ),
        click.option("--force", is_flag=True, help="Conditions on what has changed see everything as new."),
        click.option(
            "--retry",
            "--resume",
            "retry",
            is_flag=True,
            help="Go on with the newest run: what did not succeed in it, chosen as it was.",
        ),
        click.option("--noop", is_flag=True, help="Change nothing on machines: say what would be changed."),
    ):
        command = each(command)
    return part_options(command)


def asked(**given: Any) -> Asked:
    """The options, with lists taken apart."""
    lists: dict[str, Any] = {name: names(given.get(name, ())) for name in ("tasks", "skip", "start", "end")}
    nodes = tuple(part for each in given.get("nodes", ()) for part in each.split(",") if part)
    selector = given.get("selector")
    if selector is not None and (nodes or given.get("retry")):
        raise click.UsageError(f"-l EXPR goes not with {'--nodes' if nodes else '--retry'}")
    made = Asked(
        nodes=nodes,
        selector=selector,
        events=tuple(given.get("events", ())),
        force=given.get("force", False),
        noop=given.get("noop", False),
        retry=given.get("retry", False),
        **lists,
    )
    if made.retry and made.words:
        raise click.UsageError(f"--retry goes on as it was chosen then; leave {made.words} away")
    return made
