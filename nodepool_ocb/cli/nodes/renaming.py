"""``node rename``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click
import msgspec

from nodepool_ocb.cli.kit import completion, output
from nodepool_ocb.cli.kit import session as connection
from nodepool_ocb.cli.kit.options import Verb, dry_run_option
from nodepool_ocb.engine import renaming
from nodepool_ocb.engine.world import World
from nodepool_ocb.errors import Conflict
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Change, Json
from nodepool_ocb.operations.names import node_of

if TYPE_CHECKING:
    from nodepool_ocb.store.client.frames import Znode
    from nodepool_ocb.store.client.session import Session


@click.command(cls=Verb, writes=True)
@click.argument("fqdn", shell_complete=completion.nodes)
@click.argument("name")
@dry_run_option
def rename(fqdn: str, name: str, dry_run: bool) -> None:
    """Give a node another name, with all that is bound to it: nothing runs again for that.

    An address that is the old name becomes the new one. Refused while something works on the node, or while a rollout or a run
    of tasks is under way that may.
    """

    def decide(opened: Session, world: World) -> Iterator[Sequence[Change]]:
        from nodepool_ocb.store.subtree import judged, subtree

        node_of(world, fqdn)
        znodes = subtree(opened, paths.node(fqdn))
        contents = {znode.path: _content(znode) for znode in znodes}
        domain = connection.settings().admin_domain or (world.cluster.record.admin_domain if world.cluster else None)
        yield renaming.rename(world, fqdn, name, judged(world, znodes), contents, admin_domain=domain)

    with connection.session() as opened:
        changes = connection.change(opened, decide, dry_run)
        if changes and not dry_run:
            output.say(f"{fqdn} is {name} now; rollouts and logs of before name it as it was")
        connection.report(changes, dry_run)


def _content(znode: Znode) -> Json:
    from nodepool_ocb.store.client import codec

    try:
        return msgspec.json.decode(codec.unsigned(znode.data)) if znode.data else None
    except msgspec.DecodeError as wrong:
        raise Conflict(f"{znode.path} cannot be read, and would not get along: {wrong}") from wrong
