"""The work of daemons now: claims on nodes, and locks."""

from __future__ import annotations

from collections.abc import Mapping

from nodepool_ocb.engine.world import World
from nodepool_ocb.model.records import LockOwner
from nodepool_ocb.views.view import View


class ClaimRow(View, frozen=True, kw_only=True, tag="claim"):
    """The claim of an annealer on a node."""

    kind: str  # "node"
    name: str  # the node
    node: str  # the same
    owner: str
    host: str | None  # None where the annealer is not registered
    session: str  # of ZooKeeper: "0x100..."
    noderole: str
    purpose: str  # the same
    run: str
    epoch: int
    since: float


class LockRow(View, frozen=True, kw_only=True, tag="lock"):
    """A lock that is held."""

    kind: str
    name: str
    owner: str
    host: str
    pid: int
    purpose: str
    since: float


def claims(world: World) -> list[ClaimRow]:
    """The claims, by node."""
    found: list[ClaimRow] = []
    for fqdn, view in sorted(world.nodes.items()):
        if view.claim is None:
            continue
        owner = world.annealers.get(view.claim.annealer)
        found.append(
            ClaimRow(
                kind="node",
                name=fqdn,
                node=fqdn,
                owner=view.claim.annealer,
                host=owner.host if owner else None,
                session=f"0x{view.claim_owner:x}",
                noderole=view.claim.noderole,
                purpose=view.claim.noderole,
                run=view.claim.run,
                epoch=view.claim.epoch,
                since=view.claim.since,
            )
        )
    return found


def locks(holders: Mapping[tuple[str, str], LockOwner | None]) -> list[LockRow]:
    """The locks that are held, in the order given. The argument is (kind, name) → holder; None: the lock is free."""
    return [
        LockRow(
            kind=kind,
            name=name,
            owner=holder.daemon,
            host=holder.host,
            pid=holder.pid,
            purpose=holder.purpose,
            since=holder.since,
        )
        for (kind, name), holder in holders.items()
        if holder is not None
    ]
