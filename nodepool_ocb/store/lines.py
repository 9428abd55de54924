"""One rollout in a line of deployments: while one is under way, none of a deployment above or below it begins or goes on.

Both would commit and end the same noderoles. Whether another is under way is said by no znode of the one that begins, so
each transaction by which a rollout begins or goes on raises the version of the structure, as it was read before looking: of two
that looked at the same time, one looks again. Nor can a deployment come or go meanwhile. A rollout that ends needs no leave.
"""

from __future__ import annotations

from contextlib import suppress

from nodepool_ocb.errors import Conflict, Invalid, NotFound
from nodepool_ocb.model import Change, Deployment, Rollouts, Set, Structure
from nodepool_ocb.store import codec, paths
from nodepool_ocb.store.session import Session


def entered(session: Session, deployment: str) -> list[Change]:
    """What goes into the transaction by which a rollout of this deployment begins or goes on.

    Raises Conflict while one of a deployment above or below is under way, NotFound where there is no such deployment.
    """
    session.sync()
    znode = session.get(paths.STRUCTURE)  # first: what is read after it is no older
    parents = _parents(session)
    if znode is None or deployment not in parents:
        raise NotFound(f"deployment {deployment} does not exist; see: nodepool-ocb deployment list")
    kin = [name for name in parents if name != deployment and _related(parents, name, deployment)]
    for name, identity in _under_way(session, kin):
        raise Conflict(
            f"rollout {name}/{identity} is under way, which has to do with the same nodes as one of deployment {deployment};"
            f" wait for it: nodepool-ocb rollout wait {name}/{identity}, or end it: nodepool-ocb rollout cancel"
            f" {name}/{identity}"
        )
    return [Set(paths.STRUCTURE, codec.decode(Structure, znode), znode.version)]


def _parents(session: Session) -> dict[str, str | None]:
    """Every deployment with the one above it."""
    names = session.children(paths.DEPLOYMENTS) or []
    found: dict[str, str | None] = {}
    for name, znode in zip(names, session.get_many([paths.deployment(each) for each in names]), strict=True):
        with suppress(Invalid):  # one that cannot be read is nobody's kin
            found |= {name: codec.decode(Deployment, znode).parent} if znode is not None else {}
    return found


def _related(parents: dict[str, str | None], one: str, other: str) -> bool:
    return other in _line(parents, one) or one in _line(parents, other)


def _line(parents: dict[str, str | None], name: str) -> list[str]:
    """A deployment and all above it."""
    found = [name]
    while (above := parents.get(found[-1])) is not None and above not in found:
        found.append(above)
    return found


def _under_way(session: Session, deployments: list[str]) -> list[tuple[str, str]]:
    """Those of the deployments whose newest rollout is under way, with its id; raises Invalid for what cannot be read."""
    znodes = session.get_many([paths.rollouts(name) for name in deployments])
    known = [(name, codec.decode(Rollouts, each)) for name, each in zip(deployments, znodes, strict=True) if each]
    open_ = [(name, record.newest) for name, record in known if record.newest is not None and not record.over]
    heads = session.get_many([paths.rollout(name, identity) for name, identity in open_])
    return [each for each, head in zip(open_, heads, strict=True) if head is not None and head.data]
