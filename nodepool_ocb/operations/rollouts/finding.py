"""The rollout that a call means: by ``DEPLOYMENT``, ``DEPLOYMENT/ID``, an id, or nothing. Pure: each function yields its reads.

A rollout is written ``DEPLOYMENT/ID``; the deployment alone means its newest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from nodepool_ocb.documents.suggest import did_you_mean
from nodepool_ocb.errors import Ambiguous, NotFound
from nodepool_ocb.model.executions import Key
from nodepool_ocb.operations.names import unknown
from nodepool_ocb.operations.operation import Steps
from nodepool_ocb.operations.reads.rollouts import (
    ReadNewestRollout,
    ReadRollout,
    ReadRolloutDeployments,
    ReadRolloutIdentities,
)
from nodepool_ocb.rollout.records import Rollout

FINDS: Final = (ReadRolloutDeployments, ReadNewestRollout)
READS: Final = (*FINDS, ReadRollout, ReadRolloutIdentities)


def find(written: str | None, deployment: str | None) -> Steps[Key]:
    """The key of the rollout; leading zeros of an id may be left out.

    Raises NotFound, and Ambiguous if several deployments have rollouts and none is named.
    """
    known = yield from ReadRolloutDeployments()
    first, slash, identity = (written or "").partition("/")
    if first and not slash and (deployment or first.isdecimal()) and first not in known:
        first, identity = "", first
    found = _deployment(known, first or deployment)
    newest = identity.zfill(10) if identity else (yield from ReadNewestRollout(found))
    if newest is None:
        raise NotFound(f"deployment {found} has no rollout; to start one: nodepool-ocb rollout start")
    return Key(found, newest)


def _deployment(known: Sequence[str], wanted: str | None) -> str:
    if wanted is not None:
        if wanted not in known:
            raise unknown("rollout of deployment", wanted, known)
        return wanted
    if not known:
        raise NotFound("there is no rollout; to start one: nodepool-ocb rollout start")
    if len(known) > 1:
        raise Ambiguous(f"several deployments have rollouts: {', '.join(known)}; name one of them")
    return known[0]


def load(key: Key) -> Steps[Rollout]:
    """The whole rollout as it is; raises NotFound."""
    found = yield from ReadRollout(*key)
    if found is None:
        known = yield from ReadRolloutIdentities(key.deployment)
        raise unknown("rollout", str(key), [str(Key(key.deployment, each)) for each in known])
    return found


def group_of(rollout: Rollout, group: str) -> str:
    """The name of a group of the rollout; raises NotFound."""
    if group not in rollout.groups:
        near = did_you_mean(group, rollout.groups)
        raise NotFound(f"group {group} does not exist{near or '; see: nodepool-ocb rollout show'}")
    return group
