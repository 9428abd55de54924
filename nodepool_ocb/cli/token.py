"""``nodepool-ocb token``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from nodepool_ocb.cli.kit import completion, output, reporting
from nodepool_ocb.cli.kit.options import Noun, dry_run_flag, dry_run_option
from nodepool_ocb.cli.kit.performing import me, perform
from nodepool_ocb.cli.kit.selecting import selector_option
from nodepool_ocb.cli.kit.times import duration
from nodepool_ocb.documents import files
from nodepool_ocb.errors import Invalid
from nodepool_ocb.model.tokens import TokenRole
from nodepool_ocb.operations.tokens.creating import TokenCreate
from nodepool_ocb.operations.tokens.reading import TokenList, TokenShow
from nodepool_ocb.operations.tokens.revoking import TokenRevoke

if TYPE_CHECKING:
    from nodepool_ocb.operations.tokens.creating import TokenCreated

MOST_BYTES = 1 << 20  # of a file with a certificate
COLUMNS = ("id", "name", "role", "deployments", "selector", "reveal", "certificate", "created", "expires", "used")


@click.group(cls=Noun)
def command() -> None:
    """Tokens of the API: create, list and revoke them."""


@command.command(operation=TokenCreate)
@click.argument("name", required=False)
@click.option(
    "--role",
    type=click.Choice([str(each) for each in TokenRole if each is not TokenRole.BOOT]),
    help="The default is viewer.",
)
@click.option("--admin", is_flag=True, help="As --role admin.")
@click.option(
    "--deployment", "deployments", multiple=True, shell_complete=completion.deployments, help="Open only these."
)
@selector_option
@click.option("--reveal", is_flag=True, help="Let the holder read secrets in plain text.")
@click.option("--expires", "seconds", metavar="DURATION", type=duration, help="Its end from now on: 12h, 30d.")
@click.option("--certificate", metavar="FILE", help="A client certificate (PEM) opens it; no secret is made.")
@dry_run_flag
def create(
    name: str | None,
    role: str | None,
    admin: bool,
    deployments: Sequence[str],
    selector: str | None,
    reveal: bool,
    seconds: float | None,
    certificate: str | None,
    dry_run: bool,
) -> None:
    """Create a token for NAME, else for the caller. The token is printed one time and cannot be read again.

    The first token of a cluster is made on a host with the credential of people: `token create --admin`.
    """
    if admin and role not in (None, "admin"):
        raise click.UsageError("--admin and --role contradict each other: leave one out")
    operation = TokenCreate(
        name=name or me(),
        role=TokenRole.ADMIN if admin else TokenRole(role or "viewer"),
        deployments=tuple(deployments),
        selector=selector,
        reveal=reveal,
        seconds=seconds,
        certificate=None if certificate is None else _pem(certificate),
    )
    performed = perform(operation, dry_run=dry_run)
    if dry_run:
        reporting.performed(performed)
    else:
        _print(performed.answer)


def _pem(name: str) -> str:
    """The text of a file. Raises Invalid."""
    try:
        return files.text(name, MOST_BYTES)
    except OSError as error:
        raise Invalid(f"--certificate: {name} cannot be read: {error.strerror}; check the path and the mode") from None


def _print(made: TokenCreated) -> None:
    """The token alone in a table, so that a script can take it; both fields in JSON and YAML."""
    from nodepool_ocb.views.tokens import MadeToken

    document = MadeToken(id=made.id or "", token=made.token or "")
    if made.token is None:
        output.text(document, document.id)
        return
    if output.chosen() == "table":
        output.say(f"token {document.id}; it is shown this one time")
    output.text(document, document.token)


@command.command("list", operation=TokenList)
def list_() -> None:
    """Every token, with its last use."""
    output.things(perform(TokenList()).answer, COLUMNS, key="id")


@command.command(operation=TokenShow)
@click.argument("token", metavar="ID", shell_complete=completion.tokens)
def show(token: str) -> None:
    """One token, without its secret."""
    output.thing(perform(TokenShow(token=token)).answer, token)


@command.command(operation=TokenRevoke)
@click.argument("tokens", nargs=-1, required=True, metavar="ID...", shell_complete=completion.tokens)
@dry_run_option
def revoke(tokens: Sequence[str], dry_run: bool) -> None:
    """Revoke tokens: the API refuses them from the next request on."""
    reporting.performed(perform(TokenRevoke(tokens=tuple(tokens)), dry_run=dry_run))
