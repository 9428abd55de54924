"""The options that commands share: ``--config``, ``--zookeeper``, ``--api`` and ``-o`` before or after the verb, and ``--reason``
of verbs that write.

The values are kept in click's ``meta``, which a command and its groups share: the nearest to the end of the line wins.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click
from click.core import iter_params_for_processing

from nodepool_ocb.documents.suggest import did_you_mean
from nodepool_ocb.errors import Invalid
from nodepool_ocb.telemetry.terminal_escape import visible

if TYPE_CHECKING:
    from nodepool_ocb.config import Settings
    from nodepool_ocb.operations.operation import Operation  # it takes longer to import than --help may

F = TypeVar("F", bound=Callable[..., Any])

PLAN: Final = "--plan"
#: The parameters that go with it.
BESIDE_PLAN: Final = frozenset({"plan", "dry_run", "yes", "reason", "output", "config", "zookeeper", "api", "help"})
FORMATS: Final = ("table", "json", "yaml", "name")
_META: Final = "nodepool_ocb.cli."
_SETTINGS: Final = "nodepool_ocb.cli.settings"


def _keep(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
    if value is not None:
        ctx.meta[_META + str(param.name)] = value
    return value


def _keep_servers(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """The same for a connection string, if it is one."""
    from nodepool_ocb.model import ensemble

    try:
        if value is not None:
            ensemble.parse(value)
    except Invalid as odd:
        raise click.BadParameter(str(odd), ctx, param) from odd
    kept: str | None = _keep(ctx, param, value)
    return kept


def _common() -> list[click.Option]:
    return [
        click.Option(
            ["-o", "--output"],
            type=click.Choice(FORMATS),
            callback=_keep,
            expose_value=False,
            help="How the answer is written; the default is table.",
        ),
        click.Option(
            ["--config"],
            type=click.Path(exists=True, path_type=str),
            callback=_keep,
            expose_value=False,
            help="The configuration; else /etc/nodepool-ocb/ and ~/.config/nodepool-ocb/ are looked into.",
        ),
        click.Option(
            ["--zookeeper"],
            metavar="HOSTS",
            callback=_keep_servers,
            expose_value=False,
            help="HOST:PORT,.../CHROOT instead of that of the configuration.",
        ),
        click.Option(
            ["--api"],
            metavar="URL",
            callback=_keep,
            expose_value=False,
            help="Perform it at this server of the API, not on ZooKeeper: https://HOST[:PORT].",
        ),
    ]


def common_options(command: F) -> F:
    """A decorator: the options of all commands, on the root, each also from NODEPOOL_OCB_NAME."""
    params: list[click.Parameter] = command.__dict__.setdefault("__click_params__", [])
    params.extend(reversed(_common()))
    return command


def _reason() -> click.Option:
    return click.Option(
        ["--reason"], metavar="TEXT", callback=_keep, expose_value=False, help="Why; `nodepool-ocb history` has it."
    )


class Verb(click.Command):
    """A command that takes the common options too, and ``--reason`` if it ``writes``: others write nothing.

    ``operation``: the operation that it performs, or several of which it performs one. A command without one is ``local``: it
    concerns this host, and the text says how.
    """

    def __init__(
        self,
        *args: Any,
        operation: type[Operation[Any]] | tuple[type[Operation[Any]], ...] = (),
        local: str = "",
        writes: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.operations = operation if isinstance(operation, tuple) else (operation,)
        self.local = local
        self.writes = writes = writes or any(each.writes for each in self.operations)
        if writes and "reason" not in {param.name for param in self.params}:
            self.params.append(_reason())
        self.params.extend(_common())

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """An example, after the options."""
        from nodepool_ocb.cli.kit.examples import example

        program, _, title = ctx.command_path.partition(" ")
        if (line := example(program, title)) is not None:
            with formatter.section("Example"):
                formatter.write(f"{'':{formatter.current_indent}}{line}\n")

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """An option's variable has the name that people write (``--tag``), not that of the code (``tags``).

        A verb's own ``--reason`` is kept as the common one is.
        """
        for option in self.params:
            if isinstance(option, click.Option) and option.envvar is None:
                option.envvar = variable(ctx, option)
        plan = next((option for option in self.params if option.opts == [PLAN]), None)
        if plan is not None and not ctx.resilient_parsing and _has_plan(plan, args):
            return self._parse_plan(ctx, args)
        left = super().parse_args(ctx, args)
        if ctx.params.get("reason") is not None:
            ctx.meta[_META + "reason"] = ctx.params["reason"]
        return left

    def _parse_plan(self, ctx: click.Context, args: list[str]) -> list[str]:
        """The words beside ``--plan``: the plan has the arguments of its operation."""
        given, left, order = self.make_parser(ctx).parse_args(args=list(args))
        beside = [each for each in self.params if each.name not in BESIDE_PLAN and _is_given(given.get(str(each.name)))]
        if beside or left:
            names = ", ".join(
                [
                    *(
                        each.human_readable_name if isinstance(each, click.Argument) else each.opts[0]
                        for each in beside
                    ),
                    *left,
                ]
            )
            ctx.fail(f"{PLAN} takes its arguments from the file; leave out: {names}")
        allowed = (each for each in self.params if each.name in BESIDE_PLAN)
        processed = [each for each in allowed if not each.required or _is_given(given.get(str(each.name)))]
        for each in iter_params_for_processing(order, processed):
            each.handle_parse_result(ctx, given, [])
        return []

    def invoke(self, ctx: click.Context) -> Any:
        """With ``--plan``, the plan in place of the command."""
        if (file := asked("plan", ctx)) is None:
            return super().invoke(ctx)
        carrying = import_module("nodepool_ocb.cli.kit.carrying")  # it performs, and so rests on this module
        dry_run, yes = (bool(ctx.params.get(name)) for name in ("dry_run", "yes"))
        return carrying.carry_out(self.operations, file, dry_run=dry_run, yes=yes)


def _has_plan(plan: click.Parameter, args: list[str]) -> bool:
    """Whether the line or its variable names the file of a plan."""
    return any(each.partition("=")[0] == PLAN for each in args) or bool(os.environ.get(str(plan.envvar)))


def _is_given(value: Any) -> bool:
    """Whether a value stands on the line: the parser has others for parameters that do not."""
    return isinstance(value, bool | int | str | tuple | list) and bool(value)


def variable(ctx: click.Context, option: click.Option) -> str | None:
    """The environment's variable that an option is taken from where the line does not give it; None for --help and --version.

    ``ctx``: of its command. The name is that of the program, the command and the option as they are written.
    """
    if option.is_eager or not option.allow_from_autoenv or ctx.auto_envvar_prefix is None:
        return None
    if isinstance(option.envvar, str):
        return option.envvar
    written = max(option.opts, key=len).lstrip("-").replace("-", "_").upper()
    return f"{ctx.auto_envvar_prefix}_{written}"


class Noun(click.Group):
    """A noun: its commands are verbs.

    ``modules``: the verbs that other modules define, by module. A module is imported when one of its verbs is used, since all
    verbs of a noun take longer to import than most commands take to run.
    """

    command_class = Verb

    def __init__(self, *args: Any, modules: Mapping[str, Sequence[str]] = MappingProxyType({}), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._module_of = {verb: module for module, verbs in modules.items() for verb in verbs}

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return sorted({*self.commands, *self._module_of})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if (module := self._module_of.get(cmd_name)) is not None:
            self.add_command(next(each for each in vars(import_module(module)).values() if _is_verb(each, cmd_name)))
        return super().get_command(ctx, cmd_name)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        verbs = self.list_commands(ctx)
        if args and args[0] not in verbs and not args[0].startswith("-"):
            ctx.fail(f"{ctx.info_name} has no verb {args[0]!r}{did_you_mean(args[0], verbs)}")
        return super().resolve_command(ctx, args)


def _is_verb(found: object, name: str) -> bool:
    return isinstance(found, click.Command) and found.name == name


def asked(name: str, ctx: click.Context | None = None) -> Any:
    """The value of ``output``, ``config``, ``zookeeper``, ``api`` or ``reason``; None if it was not given."""
    ctx = ctx or click.get_current_context(silent=True)
    return ctx.meta.get(_META + name) if ctx else None


def settings(ctx: click.Context | None = None) -> Settings:
    """The configuration, with ``--zookeeper`` in its place, read one time in a command; raises Invalid."""
    from msgspec.structs import replace

    from nodepool_ocb import config

    ctx = ctx or click.get_current_context(silent=True)
    kept: Settings | None = ctx.meta.get(_SETTINGS) if ctx else None
    if kept is None:
        loaded, hosts = config.load(asked("config", ctx)), asked("zookeeper", ctx)
        kept = replace(loaded, zookeeper=replace(loaded.zookeeper, hosts=hosts)) if hosts else loaded
        if ctx is not None:
            ctx.meta[_SETTINGS] = kept
    return kept


def confirm(what: str, yes: bool) -> None:
    """Ask before something is destroyed; ``what`` names it. Without a terminal only ``--yes`` will do (exit 2)."""
    if yes:
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise click.UsageError(f"this would {what}; there is no terminal to ask on: give --yes if you mean it")
    click.confirm(f"This will {visible(what)}. Go on?", abort=True, err=True)


yes_option = click.option("--yes", is_flag=True, help="Do not ask.")
#: Without plans: of verbs that concern this host, or answer with a secret.
dry_run_flag = click.option(
    "--dry-run", is_flag=True, help="Print the changes and write nothing; exit 10 if there are any."
)


def plan_options(command: F) -> F:
    """A decorator: ``--save`` and ``--plan``, which stand beside ``--dry-run``."""
    save = click.option(
        "--save", metavar="FILE", type=click.Path(), callback=_keep, expose_value=False,
        help="With --dry-run: write the plan to this new file.",
    )  # fmt: skip
    plan = click.option(
        PLAN, metavar="FILE", type=click.Path(), callback=_keep, expose_value=False,
        help="Carry out a saved plan, or refuse if a record has moved; with --dry-run show it.",
    )  # fmt: skip
    return save(plan(command))


def dry_run_option(command: F) -> F:
    """A decorator: ``--dry-run``, ``--save`` and ``--plan``."""
    return dry_run_flag(plan_options(command))


timeout_option = click.option(
    "--timeout", "timeout_seconds", type=click.FloatRange(min=0), metavar="SECONDS", help="Wait no longer than this."
)


settled_option = click.option(
    "--settled",
    is_flag=True,
    expose_value=False,
    callback=_keep,
    help="Wait until nothing moves any more, instead of until the first failure.",
)


def wait_options(command: F) -> F:
    """A decorator: ``--wait``, ``--settled`` and ``--timeout``."""
    wait = click.option("--wait", is_flag=True, help="Wait until all concerned are ACTIVE, or cannot become so.")
    return wait(settled_option(timeout_option(command)))
