"""``nodepool-ocb``: the root of the command line.

One noun, then one verb. A noun's module is imported when it is used, so ``--help`` costs little; its line for a noun
stands in ``NOUNS``. An OcbError ends the command with its sentence on stderr and its exit code (errors.py). Any other error
ends it with one line. A traceback is printed only with ``NODEPOOL_OCB_DEBUG=1``.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from typing import Any, Final, NoReturn

import click

from nodepool_ocb.cli.kit import terminal
from nodepool_ocb.cli.kit.options import common_options
from nodepool_ocb.cli.printing import streams
from nodepool_ocb.documents.suggest import did_you_mean
from nodepool_ocb.errors import OcbError, Unreadable
from nodepool_ocb.process import leave
from nodepool_ocb.telemetry.terminal_escape import visible

#: noun → (the module with its ``command``, its text in --help)
NOUNS: Final[Mapping[str, tuple[str, str]]] = {
    "init": ("nodepool_ocb.cli.init", "Make a new cluster in ZooKeeper, once."),
    "status": ("nodepool_ocb.cli.status", "Everything at a glance, errors first."),
    "history": ("nodepool_ocb.cli.history.history", "The changes of the cluster: user, time, command and reason."),
    "events": ("nodepool_ocb.cli.history.events", "Changes and states as they happen."),
    "pause": ("nodepool_ocb.cli.maintenance.pause", "Let nothing new begin anywhere, for a while."),
    "resume": ("nodepool_ocb.cli.maintenance.resume", "Let annealers go on after `pause`."),
    "restored": (
        "nodepool_ocb.cli.maintenance.restored",
        "Begin anew after ZooKeeper was restored from an older copy.",
    ),
    "barclamp": ("nodepool_ocb.cli.barclamp", "Check and import the documents that define roles."),
    "role": ("nodepool_ocb.cli.role", "The roles that can be bound to nodes."),
    "deployment": ("nodepool_ocb.cli.deployment", "Deployments: create, configure, propose, commit, wait."),
    "node": ("nodepool_ocb.cli.nodes.node", "Machines: create, bind roles to them, commit, take out of service."),
    "noderole": ("nodepool_ocb.cli.noderoles.noderole", "Roles on nodes: states, explanations, logs, retries."),
    "apply": ("nodepool_ocb.cli.site.apply", "Make the cluster as site files say."),
    "export": ("nodepool_ocb.cli.site.export", "Print the cluster as a site file."),
    "rollout": (
        "nodepool_ocb.cli.rollouts.rollout",
        "Deployment strategies: check them, plan, carry them out, look on.",
    ),
    "tasks": (
        "nodepool_ocb.cli.tasks.tasks",
        "Task lists, as Fuel has them: check and store them, plan, run, look on.",
    ),
    "graph": ("nodepool_ocb.cli.graph", "Draw which noderole waits for which."),
    "image": ("nodepool_ocb.cli.images.image", "Images: their builds, asking for builds, logs, pauses."),
    "upload": ("nodepool_ocb.cli.images.upload", "Builds at providers."),
    "request": ("nodepool_ocb.cli.requests.request", "Requests for nodes: ask for nodes, and why a request waits."),
    "lease": ("nodepool_ocb.cli.leases.lease", "Nodes of pools: take them, run a command on them, return them."),
    "pool": ("nodepool_ocb.cli.pools.pool", "Pools of providers: their launchers, labels and nodes."),
    "daemon": ("nodepool_ocb.cli.daemon", "The daemons that are running."),
    "installation": ("nodepool_ocb.cli.installations.installation", "Installations of machines: their progress."),
    "lock": ("nodepool_ocb.cli.lock", "The locks and claims that are held now."),
    "adoption": ("nodepool_ocb.cli.joining.adoption", "Rules that make nodes of machines that wait."),
    "registration": ("nodepool_ocb.cli.joining.registration", "Machines that wait for a node."),
    "network": ("nodepool_ocb.cli.networks.network", "Networks: subnets, ranges, and the addresses of nodes."),
    "bootenv": (
        "nodepool_ocb.cli.bootenvs.bootenv",
        "Boot environments: the systems that machines boot from the network.",
    ),
    "power": ("nodepool_ocb.cli.power.power", "The power of machines: switch them on and off by their BMCs."),
    "token": ("nodepool_ocb.cli.token", "Tokens of the API: create, list, revoke."),
    "acl": ("nodepool_ocb.cli.acl", "Rights in ZooKeeper: compare them with the configuration, set them."),
    "record": ("nodepool_ocb.cli.record", "Single records in ZooKeeper: look at one, delete one that cannot be read."),
    "secret": ("nodepool_ocb.cli.secret", "Secret attributes: keys, where they are used, going over to new ones."),
    "config": ("nodepool_ocb.cli.config", "Check the configuration."),
    "login": ("nodepool_ocb.cli.login", "Store a token of a server of the API, for --api."),
    "logout": ("nodepool_ocb.cli.logout", "Delete the stored token of a server of the API."),
    "completion": ("nodepool_ocb.cli.shells.command", "Print the completion script of a shell."),
    "man": ("nodepool_ocb.cli.manual.command", "Write the manual pages."),
}


#: A command makes up to millions of objects, and few of them are garbage in circles: it looks for those seldom.
COLLECTIONS: Final = (50_000, 20, 100)
INTERRUPTED: Final = 128 + 2  # as shells tell SIGINT
READER_LEFT: Final = 128 + 13  # as shells tell SIGPIPE


class Root(click.Group):
    """The group of all nouns: imports a noun when it is used, and turns errors into exit codes."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(NOUNS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in NOUNS:
            return None
        command = import_module(NOUNS[cmd_name][0]).command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        if args and args[0] not in NOUNS and not args[0].startswith("-"):
            ctx.fail(f"there is no command {args[0]!r}{did_you_mean(args[0], NOUNS)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """From the table alone: nothing is imported."""
        with formatter.section("Commands"):
            formatter.write_dl([(noun, text) for noun, (_, text) in NOUNS.items()])

    def make_context(self, *args: Any, **more: Any) -> click.Context:
        try:
            return super().make_context(*args, **more)
        except click.ClickException as error:
            raise _shown(error) from error.__cause__
        except BrokenPipeError:  # of --help and --version, which click would end with 1
            _reader_left()

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except OcbError as error:
            if isinstance(error, streams.Unwritable):
                streams.discard()
            _fail(_advised(error), error.exit_code)
        except click.ClickException as error:
            raise _shown(error) from error.__cause__
        except (click.Abort, click.exceptions.Exit):
            raise
        except BrokenPipeError:
            _reader_left()
        except KeyboardInterrupt:
            raise click.exceptions.Exit(INTERRUPTED) from None
        except Exception as error:
            if isinstance(error, OSError) and error.filename is None and error.errno in streams.FULL:  # of rich
                streams.discard()
                _fail(f"cannot write the output: {error.strerror}; {streams.ELSEWHERE}")
            if os.environ.get("NODEPOOL_OCB_DEBUG"):
                raise
            _fail(f"unexpected {type(error).__name__}: {error}; NODEPOOL_OCB_DEBUG=1 shows where")


def _advised(error: OcbError) -> str:
    """The message; that of data which cannot be read is also quoted by warnings and pages, so the next step is added here."""
    return f"{error}; see: nodepool-ocb record show {error.path}" if isinstance(error, Unreadable) else str(error)


def _shown(error: click.ClickException) -> click.ClickException:
    """Click prints its message, which has words from the command line or a file."""
    vars(error)["message"] = visible(error.message)
    return error


def _reader_left() -> NoReturn:
    streams.discard()  # head or less has all that it wants
    raise click.exceptions.Exit(READER_LEFT) from None


def _fail(message: str, exit_code: int = 1) -> NoReturn:
    for line in message.splitlines() or ["failed"]:
        terminal.text(f"error: {line}", err=True)
    raise click.exceptions.Exit(exit_code)


@click.group(cls=Root, context_settings={"auto_envvar_prefix": "NODEPOOL_OCB", "help_option_names": ["-h", "--help"]})
@click.version_option(package_name="nodepool-ocb", message="%(prog)s %(version)s")
@common_options
def cli() -> None:
    """Take machines from nothing to ready, and keep them there.

    A noderole is a role on a node, written ROLE@FQDN. Start with `status`; ask `noderole explain ROLE@FQDN` why
    something does not move. Exit codes: 0 done, 1 failed, 2 usage, 3 not found, 4 conflict, 5 timed out, 6 in error,
    7 no ZooKeeper or API, 8 denied, 9 no cluster there. 10: a dry run found changes; 141: the reader of a pipe has left.
    """


def main() -> None:
    """The console script. Ends the process."""
    try:
        _run()
    except SystemExit as end:
        if isinstance(end.code, str):
            raise  # Python prints it
        with suppress(OSError):  # Python says so
            leave(int(end.code or 0))
        raise


def _run() -> None:
    gc.set_threshold(*COLLECTIONS)
    if "_NODEPOOL_OCB_COMPLETE" in os.environ:
        import_module("nodepool_ocb.cli.shells.completing").use()
    try:
        streams.prepare()
    except streams.Unwritable as closed:
        sys.exit(f"error: {closed}")
    try:
        cli(prog_name="nodepool-ocb")
    except OSError as full:  # of click's own printing
        streams.discard()
        sys.exit(f"error: cannot write the output: {full.strerror}; {streams.ELSEWHERE}")
