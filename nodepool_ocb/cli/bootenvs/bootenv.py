"""``nodepool-ocb bootenv``."""

from __future__ import annotations

from collections.abc import Sequence

import click

from nodepool_ocb.cli.kit import completion, output, reporting
from nodepool_ocb.cli.kit.options import Noun, dry_run_option
from nodepool_ocb.cli.kit.performing import perform
from nodepool_ocb.operations.bootenvs.changing import BootenvCreate, BootenvDelete, BootenvSet
from nodepool_ocb.operations.bootenvs.reading import BootenvList, BootenvShow

COLUMNS = ("name", "kind", "image", "nodes", "origin", "description")

bootenv_argument = click.argument("bootenv", shell_complete=completion.bootenvs)
words_argument = click.argument(
    "words", nargs=-1, required=True, metavar="KEY=VALUE...", shell_complete=completion.bootenv_fields
)


@click.group(cls=Noun)
def command() -> None:
    """Boot environments: the systems that machines boot from the network."""


@command.command(operation=BootenvCreate)
@click.argument("name")
@words_argument
@dry_run_option
def create(name: str, words: Sequence[str], dry_run: bool) -> None:
    """Create a boot environment from KEY=VALUE: kind= (discovery, install, rescue, local), image=, arguments=, script=, secure=,
    description=. In arguments and script, names in braces stand for values of the node: {node}, {mac}, {labels.NAME}.
    """
    reporting.performed(perform(BootenvCreate(name=name, assignments=tuple(words)), dry_run=dry_run))


@command.command("set", operation=BootenvSet)
@bootenv_argument
@words_argument
@dry_run_option
def set_(bootenv: str, words: Sequence[str], dry_run: bool) -> None:
    """Change a boot environment: KEY=VALUE as for `bootenv create`. Servers write the files of its nodes again."""
    reporting.performed(perform(BootenvSet(bootenv=bootenv, assignments=tuple(words)), dry_run=dry_run))


@command.command(operation=BootenvDelete)
@bootenv_argument
@dry_run_option
def delete(bootenv: str, dry_run: bool) -> None:
    """Delete a boot environment that no node has. A shipped one returns to its shipped form."""
    reporting.performed(perform(BootenvDelete(bootenv=bootenv), dry_run=dry_run))


@command.command("list", operation=BootenvList)
def list_() -> None:
    """Every boot environment, with the number of its nodes."""
    output.things(perform(BootenvList()).answer, COLUMNS)


@command.command(operation=BootenvShow)
@bootenv_argument
def show(bootenv: str) -> None:
    """One boot environment, with its nodes, and the servers that have not published their files yet."""
    output.thing(perform(BootenvShow(bootenv=bootenv)).answer, bootenv)
