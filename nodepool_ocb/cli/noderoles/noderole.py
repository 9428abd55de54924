"""``nodepool-ocb noderole``: reading, changing and controlling noderoles."""

from __future__ import annotations

from typing import Final

import click

from nodepool_ocb.cli.kit.options import Noun

PLACE: Final = "nodepool_ocb.cli.noderoles"


@click.group(
    cls=Noun,
    modules={
        f"{PLACE}.acting": ("wait", "commit", "propose", "refresh", "retry", "cancel"),
        f"{PLACE}.attributes": ("attributes",),
        f"{PLACE}.causes": ("causes",),
        f"{PLACE}.checking": ("check", "drift"),
        f"{PLACE}.destroying": ("redeploy", "unbind"),
        f"{PLACE}.explain": ("explain",),
        f"{PLACE}.log": ("log",),
        f"{PLACE}.reading": ("list", "show"),
        f"{PLACE}.setting": ("set", "unset"),
    },
)
def command() -> None:
    """Roles on nodes, written ROLE@FQDN: states, explanations, logs, retries."""
