"""The command around a daemon: its options, its configuration, and an end with an exit code and a sentence."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import click
import msgspec
from msgspec.structs import replace

from nodepool_ocb import config
from nodepool_ocb.daemon import setup_logging
from nodepool_ocb.errors import OcbError
from nodepool_ocb.rights import Kind
from nodepool_ocb.store import access


class Asked(msgspec.Struct, frozen=True):
    """What a daemon was started with."""

    settings: config.Settings  # with what the command line says in its place
    file: Path | None  # of the configuration, to be read again; None: where it is found
    zookeeper: str | None  # what the command line says
    listen: str | None  # HOST:PORT of the pages


def program(kind: Kind, about: str, run: Callable[[Asked], None]) -> click.Command:
    """The console script of a kind of daemon; ``run`` returns when the daemon has ended."""
    name = f"nodepool-ocb-{kind}"

    @click.command(name, help=about, context_settings={"auto_envvar_prefix": "NODEPOOL_OCB"})
    @click.option(
        "--config",
        "file",
        envvar="NODEPOOL_OCB_CONFIG",
        type=click.Path(path_type=Path),
        help="Configuration; else /etc/nodepool-ocb/.",
    )
    @click.option("--zookeeper", help="HOST:PORT,.../CHROOT, instead of the configured one.")
    @click.option("--listen", help="HOST:PORT of the pages (/metrics, /health ...), instead of the configured one.")
    @click.version_option(version("nodepool-ocb"))
    def command(file: Path | None, zookeeper: str | None, listen: str | None) -> None:
        try:
            settings = config.load(file)
            if zookeeper:
                settings = replace(settings, zookeeper=replace(settings.zookeeper, hosts=zookeeper))
            access.refuse_another_kind(settings.zookeeper, kind)
            setup_logging(settings.log)
            run(Asked(settings, file, zookeeper, listen or settings.http.listen))
        except OcbError as error:
            click.echo(f"{name}: {error}", err=True)
            sys.exit(error.exit_code)

    return command
