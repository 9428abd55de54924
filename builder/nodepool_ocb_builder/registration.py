"""A builder's own znode below ``/nodepool/daemons/builder``: ephemeral, and named by the id of its directory.

It says who is there; and as there can be only one of a name, it keeps the copy of a builder out.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from nodepool_ocb.errors import Invalid, Stale, Taken, Unavailable
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Create, Daemon, Delete, Set
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.client.frames import Znode
from nodepool_ocb.store.client.session import Session
from nodepool_ocb_builder.image_directory import ImageDirectory

SESSIONS: Final = (
    3  # time-outs that a builder which died may stay registered: one is the rule, and its own may be longer
)


def register(session: Session, directory: ImageDirectory, daemon: Daemon) -> None:
    """See that our znode is there and says this.

    One of our id and another process's session is never touched: its builder lives, or it goes with the session. Raises
    Taken while it is there, and Unavailable.
    """
    path = paths.daemon("builder", directory.builder_id)
    session.ensure(paths.daemons("builder"))
    znode = session.get(path)
    try:
        if znode is None:
            session.commit([Create(path, daemon, ephemeral=True)])
        elif not session.had(znode.ephemeral_owner):
            raise Taken(_taken(znode, directory), SESSIONS * session.timeout_seconds)
        elif znode.ephemeral_owner != session.id:
            session.commit([Delete(path, znode.version), Create(path, daemon, ephemeral=True)])
        elif znode.data != codec.encode(daemon):
            session.commit([Set(path, daemon, znode.version)])
    except Stale:
        raise Unavailable(f"{path} was changed while we wrote it") from None


def _taken(znode: Znode, directory: ImageDirectory) -> str:
    """That somebody has our name, and what to do."""
    who = "another builder"
    with suppress(Invalid):
        other = codec.decode(Daemon, znode)
        who = f"the builder on {other.host}, process {other.pid},"
    return (
        f"{who} is registered with id {directory.builder_id}, which {directory.id_file} says too: if that builder has just"
        f" died, its session ends soon, and this one goes on; if it lives, one directory is a copy of the other:"
        f" remove {directory.id_file} where the copy is, and start again"
    )
