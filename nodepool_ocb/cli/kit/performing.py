"""How commands perform operations: the performer of this command, and the command line as its caller.

A command has one performer, which click's ``meta`` keeps, so that its parts share a journal.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

import click
from msgspec.structs import replace

from nodepool_ocb.cli.kit.options import asked, confirm, settings
from nodepool_ocb.errors import Ambiguous, Invalid
from nodepool_ocb.operations import registry
from nodepool_ocb.operations.operation import Call, Operation, Performed
from nodepool_ocb.operations.performer import AnyPerformer, Performer

if TYPE_CHECKING:
    from nodepool_ocb.operations.plans.saved import SavedPlan
    from nodepool_ocb.remote.performer import RemotePerformer

NEEDS_SESSION: Final = "It follows records or logs with a session of its own."
_META: Final = "nodepool_ocb.cli.performer"

T = TypeVar("T")


class Terminal:
    """The caller of operations, on a terminal or in a script."""

    def __init__(self, *, yes: bool = False) -> None:
        self.yes = yes  # agreement is given on the command line

    def note(self, text: str) -> None:
        """Print it on stderr."""
        from nodepool_ocb.cli.kit import output

        output.say(text)

    def agree(self, text: str, details: Sequence[str]) -> bool:
        """Ask on the terminal; raises UsageError without one, and Abort for a no."""
        if not self.yes:
            for each in details:
                self.note(each)
        confirm(text, self.yes)
        return not self.yes


class Silent(Terminal):
    """A caller that is told nothing."""

    def note(self, text: str) -> None:
        """A shell completes a word: nothing is printed."""


def me() -> str:
    """The user noted as the cause of a change; under sudo the user that called it. The environment says so: it is no proof."""
    import getpass

    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        return "unknown"
    return os.environ.get("SUDO_USER") or user if user == "root" else user


def performer(ctx: click.Context | None = None) -> AnyPerformer:
    """The performer of this command: at the server of ``--api``, or directly on ZooKeeper."""
    ctx = ctx or click.get_current_context(silent=True)
    kept: AnyPerformer | None = None if ctx is None else ctx.meta.get(_META)
    if kept is None:
        kept = _made(call_of(ctx), ctx)
        if ctx is not None:
            ctx.meta[_META] = kept
    return kept


def call_of(ctx: click.Context | None) -> Call:
    """The circumstances of this command."""
    import socket  # here as others, so that the help of a noun does not load them

    return Call(login=me(), host=socket.gethostname(), verb=_verb(), reason=asked("reason", ctx))


def _made(call: Call, ctx: click.Context | None) -> AnyPerformer:
    """At the server of ``--api``, else directly at ``--zookeeper``, else as the configuration says."""
    named = asked("api", ctx)
    if named is not None and asked("zookeeper", ctx) is not None:
        raise click.UsageError("--api and --zookeeper contradict each other; give one of them")
    if named is not None:
        _require_address(named)
        return _distant(call, named, None)
    if asked("zookeeper", ctx) is None and (url := settings(ctx).api.url) is not None:
        return _distant(call, url, settings(ctx).api.ca)
    return _direct(call, ctx)


def _require_address(url: str) -> None:
    """Raises UsageError for the text of ``--api`` that is no address."""
    from nodepool_ocb.remote.address import parse

    try:
        parse(url)
    except Invalid as wrong:
        raise click.UsageError(str(wrong)) from wrong


def _distant(call: Call, url: str, ca: str | None) -> AnyPerformer:
    from nodepool_ocb.remote.performer import logged_in

    return logged_in(call, Terminal(), url, ca)


def _direct(call: Call, ctx: click.Context | None) -> Performer:
    import logging

    for library in ("kazoo", "nodepool_ocb.store"):  # their faults come to us as exceptions
        logging.getLogger(library).setLevel(logging.CRITICAL)
    return Performer(call, Terminal(), partial(settings, ctx))


def direct(ctx: click.Context | None = None, reason: str = NEEDS_SESSION) -> Performer:
    """A performer on ZooKeeper, for a part of this command that no server of the API performs, for this reason.

    Raises UsageError with ``--api``; a server that the configuration names is passed by.
    """
    if asked("api", ctx) is not None:
        raise click.UsageError(f"this does not work with --api. {reason}")
    if asked("zookeeper", ctx) is None and settings(ctx).api.url is not None:
        return _direct(call_of(ctx), ctx)
    used = performer(ctx)
    assert isinstance(used, Performer), "no server is named"
    return used


def distant_server(used: AnyPerformer) -> RemotePerformer:
    """The performer of this command, at the server of ``--api``."""
    from nodepool_ocb.remote.performer import RemotePerformer

    assert isinstance(used, RemotePerformer), "no server is named"
    return used


def perform(
    operation: Operation[T], *, dry_run: bool = False, yes: bool = False, plan: SavedPlan | None = None
) -> Performed[T]:
    """Perform an operation as this command; raises the errors of the operation and of its session.

    ``plan``: that it must carry out. A dry run with ``--save`` is written to its file. Raises UsageError for a call that leaves
    open which record it means.
    """
    reason = registry.reason_local(type(operation))
    used = performer() if reason is None else direct(reason=reason)
    file = asked("save") if operation.writes else None
    used.call = replace(used.call, dry_run=dry_run, save=file is not None, plan=plan)
    used.caller = Terminal(yes=yes)
    if file is not None:
        return _saved(used, operation, file)
    with usage():
        return used.perform(operation)


def _saved(used: AnyPerformer, operation: Operation[T], file: str) -> Performed[T]:
    """A dry run, with its plan in a new file."""
    from nodepool_ocb.cli.kit import output, plans
    from nodepool_ocb.operations.calls import saving

    if not used.call.dry_run:
        raise click.UsageError("--save goes with --dry-run: it writes the plan of a dry run")
    plans.refuse_existing(file)
    saving.refuse(operation, used.call)
    with usage():
        performed = used.perform(operation)
    plan = saving.plan_of(used) if isinstance(used, Performer) else distant_server(used).saved
    if plan is None:
        output.say("no plan is saved")
    else:
        plans.write(plan, file)
        output.say(f"plan saved, valid for a day; to carry it out: nodepool-ocb {operation.title()} --plan {file}")
    return performed


def asked_in_haste(operation: Operation[T], ctx: click.Context, patience_seconds: float) -> T:
    """The answer of a read, without notes and without patience; raises the errors of the operation and of the way to it."""
    used = performer(ctx)
    used.caller = Silent()
    if isinstance(used, Performer):
        with used.session(patience_seconds) as opened:
            return used.ask(operation, opened)
    distant_server(used).patience_seconds = patience_seconds
    return used.perform(operation).answer


@contextmanager
def usage() -> Iterator[None]:
    """A call that leaves open which record it means is a wrong usage: Ambiguous becomes UsageError."""
    try:
        yield
    except Ambiguous as wrong:
        raise click.UsageError(str(wrong)) from wrong


def _verb() -> str:
    """As it is typed: the noun and the verb."""
    ctx = click.get_current_context(silent=True)
    typed: list[str] = []
    while ctx is not None and ctx.parent is not None:
        if isinstance(ctx.parent.command, click.Group):
            typed.insert(0, str(ctx.info_name))
        ctx = ctx.parent
    return " ".join(typed)
