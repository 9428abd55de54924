"""The command around a daemon: its options, its configuration, and an end with an exit code and a sentence."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import click
import msgspec
from msgspec.structs import replace

from nodepool_ocb import config
from nodepool_ocb.daemon import preflight, systemd
from nodepool_ocb.daemon.loop import setup_logging
from nodepool_ocb.errors import Invalid, OcbError
from nodepool_ocb.http import server
from nodepool_ocb.model import ensemble
from nodepool_ocb.model.rights import ClientKind
from nodepool_ocb.store.client import access
from nodepool_ocb.telemetry.terminal_escape import visible


class CommandOptions(msgspec.Struct, frozen=True):
    """The options with which a daemon was started: the command line has priority over the configuration."""

    file: Path | None  # of the configuration; None: where it is found
    zookeeper: str | None  # HOST:PORT,.../CHROOT
    listen: str | None  # HOST:PORT of the pages

    def read(self) -> config.Settings:
        """The configuration as the file has it now, overridden by the command line. Raises Invalid."""
        settings = config.load(self.file)
        if self.zookeeper:
            settings = replace(settings, zookeeper=replace(settings.zookeeper, hosts=self.zookeeper))
        return settings


def _servers(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """A connection string as it is, if it is one."""
    try:
        if value is not None:
            ensemble.parse(value)
    except Invalid as odd:
        raise click.BadParameter(visible(str(odd)), ctx, param) from odd
    return value


def _place(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Where pages are served, as it is, if it is HOST:PORT."""
    try:
        if value:
            server.host_and_port(value)
    except Invalid as odd:
        raise click.BadParameter(visible(str(odd)), ctx, param) from odd
    return value


def _lacking(error: BaseException) -> str | None:
    """The sentence for an error that says that this host gives the process too little; None for any other."""
    from nodepool_ocb.jigs.ssh.faults import NO_THREAD

    if isinstance(error, MemoryError):
        return (
            "there is not enough memory to work: look at MemoryMax of the service, ulimit -v, and free memory (free -m)"
        )
    if str(error) == NO_THREAD:
        return "no thread can be started: look at TasksMax of the service, ulimit -u, and free memory (free -m)"
    return None


def program(
    kind: ClientKind,
    about: str,
    run: Callable[[CommandOptions, config.Settings], None],
    check: Callable[[config.Settings], object],
) -> click.Command:
    """The console script of a kind of daemon; ``run`` returns when it has ended, ``check`` raises the faults."""
    name = f"nodepool-ocb-{kind}"
    mask = 0o077 if kind is ClientKind.ANNEALER else 0o022  # outputs of runs are for the annealer's user alone

    names = ["-h", "--help"]

    @click.command(
        name, help=about, context_settings={"auto_envvar_prefix": "NODEPOOL_OCB", "help_option_names": names}
    )
    @click.option(
        "--config",
        "file",
        envvar="NODEPOOL_OCB_CONFIG",
        type=click.Path(path_type=Path),
        help="Configuration; else /etc/nodepool-ocb/.",
    )
    @click.option("--zookeeper", callback=_servers, help="HOST:PORT,.../CHROOT, instead of the configured one.")
    @click.option(
        "--listen",
        callback=_place,
        help="HOST:PORT of the pages (/metrics, /health ...), instead of the configured one.",
    )
    @click.option(
        "--check",
        "only_check",
        is_flag=True,
        allow_from_autoenv=False,
        help="Read the configuration, report faults of this host, and end.",
    )
    @click.version_option(version("nodepool-ocb"))
    def command(file: Path | None, zookeeper: str | None, listen: str | None, only_check: bool) -> None:
        asked = CommandOptions(file, zookeeper, listen)
        try:
            settings = asked.read()
            if only_check and (problems := preflight.wrong(settings, kind)):
                raise Invalid([f"{file or config.find() or 'defaults'}: {each}" for each in problems])
            access.refuse_plain_text(settings.zookeeper)
            access.refuse_another_kind(settings.zookeeper, kind)
            setup_logging(settings.log)
            if only_check:
                check(settings)
                for each in preflight.doubtful(settings, file or config.find(), kind):
                    sys.stderr.write(f"{name}: warning: {visible(each)}\n")
            else:
                systemd.notify(systemd.status(f"connecting to ZooKeeper at {settings.zookeeper.hosts}"))
                os.umask(os.umask(mask) | mask)
                run(asked, settings)
        except OcbError as error:
            systemd.notify(systemd.status(str(error)))
            sys.stderr.write(f"{name}: {visible(str(error))}\n")
            sys.exit(error.exit_code)
        except (MemoryError, RuntimeError) as error:
            if (lacking := _lacking(error)) is None:
                raise
            systemd.notify(systemd.status(lacking))
            sys.stderr.write(f"{name}: {lacking}\n")
            sys.exit(1)

    return command
