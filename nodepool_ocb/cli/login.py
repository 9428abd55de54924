"""``nodepool-ocb login``: the token of this user for a server of the API."""

from __future__ import annotations

import sys

import click

from nodepool_ocb.cli.kit import output
from nodepool_ocb.cli.kit.options import Verb
from nodepool_ocb.errors import Invalid

LETTERS = 1000  # of a token, at most


@click.command(cls=Verb, local="It stores a token of this user on this host.")
@click.argument("url", metavar="URL")
@click.option(
    "--ca",
    type=click.Path(exists=True, dir_okay=False, resolve_path=True),
    metavar="FILE",
    help="Certificates, as PEM, that identify the server; the default is those of this system.",
)
def command(url: str, ca: str | None) -> None:
    """Ask for a token of the server at URL, check it there, and store it for --api.

    Without a terminal the token is read from stdin. The file of the tokens is ~/.config/nodepool-ocb/tokens.json, which other
    users cannot read. NODEPOOL_OCB_TOKEN goes before it. An admin makes a token with `token create`.
    """
    from nodepool_ocb.cli.kit.performing import Terminal, call_of
    from nodepool_ocb.remote import logins

    document = logins.log_in(call_of(None), Terminal(), url, _asked(), ca)
    output.thing(document, document.id)


def _asked() -> str:
    if sys.stdin.isatty():
        return str(click.prompt("Token", hide_input=True, err=True)).strip()
    given = sys.stdin.read(LETTERS + 1).strip()
    if not given or len(given) > LETTERS:
        raise Invalid("stdin holds no token; give it in one line")
    return given
