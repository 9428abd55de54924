"""``nodepool-ocb acl``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import click

from nodepool_ocb.cli.kit import output, session
from nodepool_ocb.cli.kit.options import Noun, dry_run_option
from nodepool_ocb.cli.kit.performing import performer
from nodepool_ocb.documents.counting import counted
from nodepool_ocb.errors import Denied
from nodepool_ocb.views.cluster import RightsRow

if TYPE_CHECKING:
    from nodepool_ocb.store.acls import Difference, Walk

COLUMNS = ("path", "found", "expected")


@click.group(cls=Noun)
def command() -> None:
    """Who may do what in ZooKeeper: compare it with the configuration, set it.

    With zookeeper.users each kind of daemon has a user of its own, with the rights that docs/security.md lists; without, all
    znodes have the same. Looked at are the chroot, /ocb, /nodepool, and below that image, daemons and clock: the rest may be
    Nodepool's own.
    """


@command.command(writes=True)
@dry_run_option
def init(dry_run: bool) -> None:
    """Give every znode its rights, and make those that daemons need and may not make; says what was changed.

    For people's user alone. It may be stopped and repeated at any time; daemons may go on.
    """
    from nodepool_ocb.store import acls, clusters
    from nodepool_ocb.store.client import access

    zookeeper = session.settings().zookeeper
    access.refuse_all_but_people(zookeeper)
    with session.session() as opened:
        walk = acls.Walk(opened, access.Acls(zookeeper))
        if dry_run:
            _report_dry(walk, [path for path in clusters.PARENTS if opened.get(path) is None])
            return
        changed = list(walk.mended())
        _tell(changed)
        if changed:
            performer().journal.done(opened, "change", "rights", [each.path for each in changed])
        _refuse_unseen(walk)
        clusters.parents(opened)
    output.say(f"{counted(len(changed), 'znode has', 'znodes have')} other rights now" if changed else "nothing to do")


@command.command()
def check() -> None:
    """Name every znode whose rights are not those of the configuration, and end with 1 where there is any."""
    from nodepool_ocb.store import acls
    from nodepool_ocb.store.client import access

    with session.session() as opened:
        walk = acls.Walk(opened, access.Acls(session.settings().zookeeper))
        found = list(walk.differing())
    _tell(found)
    _refuse_unseen(walk)
    if found:
        output.say(
            f"{counted(len(found), 'znode has', 'znodes have')} other rights; to set them: nodepool-ocb acl init"
        )
        raise click.exceptions.Exit(1)


def _report_dry(walk: Walk, absent: Sequence[str]) -> None:
    """What would be set and made; exits with 10 where there is any."""
    would = list(walk.differing())
    _tell(would)
    _refuse_unseen(walk)
    for path in absent:
        output.say(f"{path} would be made")
    if not would and not absent:
        output.say("nothing to do")
        return
    output.say(f"{counted(len(would), 'znode')} would be given other rights")
    raise click.exceptions.Exit(10)


def _tell(differences: Iterable[Difference]) -> None:
    from nodepool_ocb.store.client.access import words

    rows = [
        RightsRow(path=each.path, found=tuple(words(each.found)), expected=tuple(words(each.expected)))
        for each in differences
    ]
    output.things(rows, COLUMNS, key="path")


def _refuse_unseen(walk: Walk) -> None:
    """Raises Denied where not all was seen or set."""
    if walk.denied:
        first, *others = walk.denied.values()
        raise Denied(f"{first}; so it is with {counted(len(others), 'other znode')}" if others else str(first))
