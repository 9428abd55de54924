"""``nodepool-ocb secret``: keys, the places of secrets, and their way from one key to the next."""

from __future__ import annotations

from pathlib import Path

import click

from nodepool_ocb.cli.kit import output, reporting
from nodepool_ocb.cli.kit.options import Noun, dry_run_option
from nodepool_ocb.cli.kit.performing import perform
from nodepool_ocb.documents.counting import counted
from nodepool_ocb.errors import Conflict
from nodepool_ocb.operations.keys import files
from nodepool_ocb.operations.keys.listing import SecretList
from nodepool_ocb.operations.keys.rotating import SecretRotate


@click.group(cls=Noun)
def command() -> None:
    """Secret attributes: make keys, see where which is used, go over to a new one."""


@command.command(local="It makes a key in a file of this host.")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
def keygen(file: Path) -> None:
    """Make a key and put it first in FILE, which is made with mode 0600 where it is not there.

    The first key encrypts, all decrypt. Bring FILE to every host that needs it before `secret rotate`.
    """
    made = files.generate(file)
    output.thing(made, made.key)


@command.command("list", operation=SecretList)
def list_() -> None:
    """Every secret: the record of the attribute, and the key that opens it, or its reference. Values are never shown.

    Kind `plain` is an attribute that a role declares as secret now, and that was stored before: `secret rotate` encrypts it.
    """
    output.things(perform(SecretList()).answer, ("name", "attribute", "kind", "key", "state", "reference"))


@command.command(operation=SecretRotate)
@dry_run_option
def rotate(dry_run: bool) -> None:
    """Encrypt secrets of older keys anew, by the first key of the file; then the older keys may go.

    No noderole is outdated by that. It may be stopped and repeated, and exits with 1 if a secret cannot be opened.
    Plain text that roles declare as secret now is encrypted too; a noderole that sees it is outdated by that.
    """
    performed = perform(SecretRotate(), dry_run=dry_run)
    unopened = performed.answer.unopened
    for name, why in unopened.items():
        output.say(f"{name}: {why}")
    if unopened:
        reporting.rows(performed.rows)
        raise Conflict(f"{counted(len(unopened), 'secret')} cannot be encrypted anew; keep the older keys")
    reporting.performed(performed)
