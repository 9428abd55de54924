"""``nodepool-ocb logout``: the token of this user is deleted from this host."""

from __future__ import annotations

import click

from nodepool_ocb.cli.kit import output
from nodepool_ocb.cli.kit.options import Verb


@click.command(cls=Verb, local="It deletes the token of this user from this host.")
@click.argument("url", metavar="URL")
def command(url: str) -> None:
    """Delete the stored token of the server at URL. The token itself stays valid: `token revoke` ends it."""
    from nodepool_ocb.remote import logins

    output.say(logins.log_out(url))
