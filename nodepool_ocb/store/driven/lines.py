"""One rollout in a line of deployments: while one is under way, none of a deployment above or below it begins or
resumes.

Two such rollouts would commit and cancel the same noderoles. No znode of the one that begins tells whether another is
under way. So each transaction by which a rollout begins or resumes raises the version of the structure, as it was read
before the check. If two check at the same time, one is refused and checks again. No deployment can be created or
deleted meanwhile. The end of a rollout needs no such check.
"""

from __future__ import annotations

import contextlib
from typing import NamedTuple

from nodepool_ocb.engine import deployments
from nodepool_ocb.errors import Conflict, Invalid, NotFound
from nodepool_ocb.model import paths
from nodepool_ocb.model.executions import ROLLOUT, Key
from nodepool_ocb.model.records import Change, Deployment, RolloutPointer, Set, Structure
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.client.session import Session


def refuse_deleting(session: Session, deployment: str) -> None:
    """Raises Conflict where a deletion of the deployment has begun; nothing where it is gone or cannot be read."""
    znode = session.get(paths.deployment(deployment))
    with contextlib.suppress(Invalid):
        if znode is not None:
            deployments.refuse_deleting(deployment, codec.decode(Deployment, znode))


class _Line(NamedTuple):
    """A deployment and all above it, as far as that is known."""

    names: list[str]
    torn: str | None  # the last of them, where its record cannot be read


def entered(session: Session, deployment: str) -> list[Change]:
    """The changes that join the transaction by which a rollout of this deployment begins or resumes.

    Raises Conflict while a rollout of a deployment above or below is under way, also if that relation is not known.
    Raises Conflict if the deployment's own record cannot be read, NotFound if the deployment does not exist.
    """
    session.sync()
    znode = session.get(paths.STRUCTURE)  # read first, so that the records read after it are no older
    lines = _lines(session)
    if znode is None or deployment not in lines:
        raise NotFound(f"deployment {deployment} does not exist; see: nodepool-ocb deployment list")
    own = lines[deployment]
    if own.torn == deployment:
        raise Conflict(f"{_unread(deployment)}; see: nodepool-ocb record show {paths.deployment(deployment)}")
    refuse_deleting(session, deployment)
    for name, identity in under_way(session, [name for name, line in lines.items() if _related(own, line)]):
        torn = own.torn or lines[name].torn
        why = f"may have to do with the nodes of this one: {_unread(torn)}" if torn else "has to do with the same nodes"
        raise Conflict(ROLLOUT.under_way(Key(name, identity), f", and deployment {name} {why}"))
    return [Set(paths.STRUCTURE, codec.decode(Structure, znode), znode.version)]


def _unread(deployment: str) -> str:
    return f"the record {paths.deployment(deployment)} cannot be read, so its parent is not known"


def _lines(session: Session) -> dict[str, _Line]:
    """The line of every deployment."""
    names = session.children(paths.DEPLOYMENTS) or []
    parents: dict[str, str | None] = {}
    unread: set[str] = set()
    for name, znode in zip(names, session.get_many([paths.deployment(each) for each in names]), strict=True):
        if znode is None:
            continue
        parents[name] = None
        try:
            parents[name] = codec.decode(Deployment, znode).parent
        except Invalid:
            unread.add(name)
    return {name: _line(parents, unread, name) for name in parents}


def _line(parents: dict[str, str | None], unread: set[str], name: str) -> _Line:
    found = [name]
    while (above := parents.get(found[-1])) is not None and above not in found:
        found.append(above)
    return _Line(found, found[-1] if found[-1] in unread else None)


def _related(one: _Line, other: _Line) -> bool:
    """Whether of two different deployments one is above the other, or may be."""
    below, above = one.names[0], other.names[0]
    return below != above and (bool(one.torn or other.torn) or above in one.names or below in other.names)


def under_way(session: Session, deployments: list[str]) -> list[tuple[str, str]]:
    """The deployments with a rollout under way, with its id; raises Invalid if a pointer cannot
    be read.
    """
    znodes = session.get_many([paths.rollouts(name) for name in deployments])
    known = [(name, codec.decode(RolloutPointer, each)) for name, each in zip(deployments, znodes, strict=True) if each]
    open_ = [(name, record.newest) for name, record in known if record.newest is not None and not record.over]
    heads = session.get_many([paths.rollout(name, identity) for name, identity in open_])
    return [each for each, head in zip(open_, heads, strict=True) if head is not None and head.data]
