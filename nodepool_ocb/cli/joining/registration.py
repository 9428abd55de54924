"""``nodepool-ocb registration``."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Final

import click
import msgspec

from nodepool_ocb.cli.kit import completion, output, reporting
from nodepool_ocb.cli.kit.options import Noun, dry_run_option
from nodepool_ocb.cli.kit.performing import perform
from nodepool_ocb.documents import files
from nodepool_ocb.errors import Invalid
from nodepool_ocb.model.records import Json
from nodepool_ocb.operations.joining.reading import (
    RegistrationDelete,
    RegistrationList,
    RegistrationRefuse,
    RegistrationShow,
)
from nodepool_ocb.operations.joining.registering import RegistrationCreate, RegistrationPoll
from nodepool_ocb.views.provisioning.joining import RegisteredRow

MOST_BYTES: Final = 1024 * 1024
LONGEST_SECRET: Final = 128
COLUMNS = ("mac", "node", "address", "product", "serial", "memory", "disks", "since", "reason")

mac_argument = click.argument("mac", shell_complete=completion.registrations)
secret_option = click.option(
    "--secret-file", type=click.Path(), metavar="FILE", help="The secret of its registration; - for standard input."
)


@click.group(cls=Noun)
def command() -> None:
    """Machines that wait for a node: they registered with a join token."""


@command.command(operation=RegistrationCreate)
@click.argument("macs", nargs=-1, required=True, metavar="MAC...")
@click.option("--inventory", type=click.Path(), metavar="FILE", help="Facts as JSON (docs/adoption.md).")
@click.option("--host-key", "host_keys", multiple=True, metavar="'TYPE KEY'", help="Of its sshd; repeatable.")
@secret_option
@dry_run_option
def create(
    macs: Sequence[str],
    inventory: str | None,
    host_keys: Sequence[str],
    secret_file: str | None,
    dry_run: bool,
) -> None:
    """Register a machine by its MACs, that of its boot NIC first. The secret of the registration is printed one time."""
    operation = RegistrationCreate(
        macs=tuple(macs), inventory=facts_of_file(inventory), host_keys=tuple(host_keys), secret=_secret(secret_file)
    )
    performed = perform(operation, dry_run=dry_run)
    if dry_run:
        reporting.performed(performed)
    else:
        found = performed.answer
        row = RegisteredRow(
            node=found.node, secret=found.secret, token=None, reason=None, poll_seconds=found.poll_seconds
        )
        output.thing(row, found.mac)


@command.command(operation=RegistrationPoll)
@mac_argument
@secret_option
@dry_run_option
def poll(mac: str, secret_file: str | None, dry_run: bool) -> None:
    """Ask for the node of a registered machine, and for its own token after the adoption."""
    performed = perform(RegistrationPoll(mac=mac, secret=_secret(secret_file)), dry_run=dry_run)
    if dry_run:
        reporting.performed(performed)
    else:
        found = performed.answer
        row = RegisteredRow(
            node=found.node, secret=None, token=found.token, reason=found.reason, poll_seconds=found.poll_seconds
        )
        output.thing(row, mac)


@command.command("list", operation=RegistrationList)
def list_() -> None:
    """Every registered machine, with its age and the reason why it waits; those that wait come first."""
    output.things(perform(RegistrationList()).answer, COLUMNS, key="mac")


@command.command(operation=RegistrationShow)
@mac_argument
def show(mac: str) -> None:
    """One registered machine, with its facts."""
    output.thing(perform(RegistrationShow(mac=mac)).answer, mac)


@command.command(operation=RegistrationRefuse)
@mac_argument
@click.option("--reason", required=True, help="Why; `registration list` has it.")
@dry_run_option
def refuse(mac: str, reason: str, dry_run: bool) -> None:
    """Refuse a machine that waits: no rule makes it a node, and `registration delete` lets it ask again."""
    reporting.performed(perform(RegistrationRefuse(mac=mac, reason=reason), dry_run=dry_run))


@command.command(operation=RegistrationDelete)
@mac_argument
@dry_run_option
def delete(mac: str, dry_run: bool) -> None:
    """Delete a registration. A machine that waits, or was refused, registers again; the node of an adopted one stays."""
    reporting.performed(perform(RegistrationDelete(mac=mac), dry_run=dry_run))


def facts_of_file(file: str | None) -> Mapping[str, Json]:
    """Raises Invalid, with the name of the file."""
    if file is None:
        return {}
    try:
        return msgspec.json.decode(_read(file), type=dict[str, Json])
    except (msgspec.DecodeError, UnicodeError, RecursionError) as wrong:
        raise Invalid(f"{file}: this is no JSON object: {wrong}; write the keys of docs/adoption.md") from None


def _secret(file: str | None) -> str:
    return "" if file is None else _read(file).decode("ascii", "replace").strip()[:LONGEST_SECRET]


def _read(file: str) -> bytes:
    """The first MiB of a file; ``-`` is standard input. Raises Invalid for one that cannot be read."""
    if file == "-":
        return sys.stdin.buffer.read(MOST_BYTES)
    try:
        return files.text(file, MOST_BYTES).encode()
    except OSError as wrong:
        raise Invalid(f"{file}: {wrong.strerror}; name a file that you can read, or - for standard input") from None
