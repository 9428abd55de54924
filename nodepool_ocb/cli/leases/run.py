"""``nodepool-ocb lease run``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from nodepool_ocb.cli.kit import output, reporting, times
from nodepool_ocb.cli.kit.options import Verb, dry_run_flag
from nodepool_ocb.cli.kit.performing import perform
from nodepool_ocb.cli.requests.options import wanted_options
from nodepool_ocb.errors import OcbError
from nodepool_ocb.operations.leases.order import LeaseExit
from nodepool_ocb.operations.leases.running import LeaseRun


class LeaseRunVerb(Verb):
    """A verb with the exit code of another program: each failure of its own has ``LeaseExit.NO_LEASE``."""

    def make_context(self, *args: Any, **more: Any) -> click.Context:
        try:
            return super().make_context(*args, **more)
        except click.ClickException as error:
            vars(error)["exit_code"] = int(LeaseExit.NO_LEASE)
            raise

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (OcbError, click.ClickException) as error:
            vars(error)["exit_code"] = int(LeaseExit.NO_LEASE)
            raise


@click.command(cls=LeaseRunVerb, operation=LeaseRun)
@wanted_options
@click.option(
    "--timeout",
    "seconds",
    type=times.duration,
    metavar="DURATION",
    default="1h",
    help="The longest time of the lease, as 90m or 1d; a warning comes before its end. The default is 1h.",
)
@click.option(
    "--wait-timeout",
    "wait_seconds",
    type=times.duration,
    metavar="DURATION",
    help="The longest wait for the nodes; the default is no limit.",
)
@click.option(
    "--identity",
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE",
    help="A private key that the nodes know, in place of a new key for this lease.",
)
@dry_run_flag
@click.argument("command", metavar="-- COMMAND [ARGUMENT]...", nargs=-1, required=True, type=click.UNPROCESSED)
def run(
    labels: Sequence[str],
    count: int,
    priority: int,
    tenant: str | None,
    provider: str | None,
    seconds: float,
    wait_seconds: float | None,
    identity: str | None,
    dry_run: bool,
    command: Sequence[str],
) -> None:
    """Wait for nodes, run COMMAND on this host with them, and return them.

    COMMAND finds the nodes in its environment: docs/leases.md has the variables, with a configuration of ssh and an Ansible
    inventory. A new key pair is authorized on the nodes by the keys of `ssh.key_files`, until the lease ends. COMMAND is ended
    when the lease ends, or this process, or its session with ZooKeeper.

    The exit code is that of COMMAND, 128 + N if signal N ended it. 125: there was no lease. 126: COMMAND cannot be executed. 127:
    COMMAND does not exist. 193: no pool can serve the request. 194: --wait-timeout. 195: --timeout. 196: the lease was lost.
    10: --dry-run.
    """
    operation = LeaseRun(
        labels=tuple(labels),
        count=count,
        priority=priority,
        tenant=tenant,
        provider=provider,
        seconds=seconds,
        wait_seconds=wait_seconds,
        identity=identity,
        command=tuple(command),
    )
    ended = perform(operation, dry_run=dry_run).answer
    if ended.row is not None:
        reporting.rows((ended.row,), dry_run)
        return
    if ended.reason is not None:
        output.say(f"error: {ended.reason}")
    raise click.exceptions.Exit(ended.code)
