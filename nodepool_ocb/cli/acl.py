"""``nodepool-ocb acl``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import click

from nodepool_ocb.cli.kit import output
from nodepool_ocb.cli.kit.options import Noun, dry_run_flag
from nodepool_ocb.cli.kit.performing import perform
from nodepool_ocb.documents.counting import counted
from nodepool_ocb.errors import Denied
from nodepool_ocb.operations.cluster.rights import AclCheck, AclInit

COLUMNS: Final = ("path", "found", "expected")


@click.group(cls=Noun)
def command() -> None:
    """Rights in ZooKeeper: compare them with the configuration, set them.

    With zookeeper.users each kind of daemon has a user of its own, with the rights that docs/security.md lists; without, all
    znodes have the same rights. These commands cover the chroot, /ocb and /nodepool; below /nodepool they cover image, daemons
    and clock, since the rest may belong to Nodepool.
    """


@command.command(operation=AclInit)
@dry_run_flag
def init(dry_run: bool) -> None:
    """Give every znode its rights, and create those that daemons need and may not create; names the changes.

    For people's user alone. It may be stopped and repeated at any time; daemons may go on.
    """
    done = perform(AclInit(), dry_run=dry_run).answer
    output.things(done.rows, COLUMNS, key="path")
    _refuse_unseen(done.denied)
    for path in done.absent:
        output.say(f"{path} would be made")
    if not done.rows and not done.absent:
        output.say("nothing to do")
    elif not dry_run:
        output.say(f"{counted(len(done.rows), 'znode has', 'znodes have')} other rights now")
    else:
        output.say(f"{counted(len(done.rows), 'znode')} would be given other rights")
        raise click.exceptions.Exit(10)


@command.command(operation=AclCheck)
def check() -> None:
    """Name every znode with other rights than those of the configuration, and exit with 1 if there is any."""
    found = perform(AclCheck()).answer
    output.things(found.rows, COLUMNS, key="path")
    _refuse_unseen(found.denied)
    if found.rows:
        output.say(
            f"{counted(len(found.rows), 'znode has', 'znodes have')} other rights; to set them: nodepool-ocb acl init"
        )
        raise click.exceptions.Exit(1)


def _refuse_unseen(denied: Sequence[str]) -> None:
    """Raises Denied where not all was seen or set."""
    if denied:
        first, *others = denied
        raise Denied(f"{first}; so it is with {counted(len(others), 'other znode')}" if others else first)
