"""The part of a task list that a call means, and the way to run it."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from nodepool_ocb.errors import Ambiguous
from nodepool_ocb.tasks.selection import Selection


class TaskChoice(msgspec.Struct, frozen=True, kw_only=True):
    """Tasks and nodes; each task is written ``TASK`` or ``TASK/NODES``. An empty field stands for all."""

    nodes: tuple[str, ...] = ()  # uids or FQDNs, in the order in which groups take them
    selector: str | None = None  # instead of nodes
    tasks: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    start: tuple[str, ...] = ()
    end: tuple[str, ...] = ()
    events: tuple[str, ...] = ()  # tasks that run again on these events, too
    force: bool = False  # conditions on changes see everything as new
    noop: bool = False  # change nothing on machines
    retry: bool = False  # the rest of the newest run, as it was chosen then

    @classmethod
    def again(cls, words: str) -> TaskChoice:
        """The choice that these words were made from.

        >>> written = TaskChoice(nodes=("1", "2"), tasks=("a/1,3", "b"), events=("e", "disk full"), force=True)
        >>> TaskChoice.again(written.words) == written
        True
        >>> TaskChoice.again(TaskChoice(nodes=("rack 1",)).words).nodes
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
        return chosen(**given)

    @property
    def selection(self) -> Selection:
        """The tasks; false if all are meant."""
        return Selection(tasks=self.tasks, skip=self.skip, start=self.start, end=self.end)

    @property
    def words(self) -> str:
        """The options that make this choice on the command line.

        >>> TaskChoice(nodes=("1", "2"), end=("deploy",)).words
        '--nodes 1,2 --end deploy'
        """
        lists = {"nodes": self.nodes, "tasks": self.tasks, "skip": self.skip, "start": self.start, "end": self.end}
        found = [
            f"--{name} {shlex.quote(value)}" for name, values in lists.items() for value in _together(name, values)
        ]
        found += [f"--event {shlex.quote(event)}" for event in self.events]
        return " ".join([*found, *(["--noop"] if self.noop else []), *(["--force"] if self.force else [])])

    @property
    def of_instances(self) -> bool:
        """True if it names nodes: then it has no meaning for a list without nodes."""
        written = (*self.tasks, *self.skip, *self.start, *self.end)
        return bool(self.nodes or self.selector or any("/" in each for each in written))

    def refuse_contradictions(self) -> None:
        """Raises Ambiguous for options that exclude one another."""
        if self.selector is not None and (self.nodes or self.retry):
            raise Ambiguous(f"-l EXPR does not go with {'--nodes' if self.nodes else '--retry'}; give one of them")
        if self.retry and self.words:
            raise Ambiguous(f"--retry goes on as it was chosen then; leave {self.words} away")


def _together(name: str, values: Sequence[str]) -> list[str]:
    """Names as few options: after a slash, a comma would divide nodes."""
    if name != "nodes" and any("/" in value for value in values):
        return list(values)
    return [",".join(values)] if values else []


def chosen(**given: Any) -> TaskChoice:
    """The choice of written options: lists are taken apart. Raises Ambiguous."""
    lists: dict[str, Any] = {name: _names(given.get(name, ())) for name in ("tasks", "skip", "start", "end")}
    made = TaskChoice(
        nodes=tuple(part for each in given.get("nodes", ()) for part in each.split(",") if part),
        selector=given.get("selector"),
        events=tuple(given.get("events", ())),
        force=given.get("force", False),
        noop=given.get("noop", False),
        retry=given.get("retry", False),
        **lists,
    )
    made.refuse_contradictions()
    return made


def _names(written: Iterable[str]) -> tuple[str, ...]:
    """Names that commas divide; after a slash, commas divide nodes.

    >>> _names(["hiera,netconfig/1,3-5", "ntp"])
    ('hiera', 'netconfig/1,3-5', 'ntp')
    """
    found: list[str] = []
    for each in written:
        before, slash, nodes = each.partition("/")
        *whole, last = before.split(",")
        found += [*whole, f"{last}{slash}{nodes}"]
    return tuple(dict.fromkeys(name for name in found if name))
