"""Rollouts in ZooKeeper: begun, read, steered by people, driven by an annealer.

``rollouts/<deployment>`` (``RolloutPointer``) names the newest rollout and whether it is over; only the newest may be
under way. Its version orders all writers. A driver raises it when it takes over, people raise it with each request, and
both raise it when a rollout ends or resumes. Every transaction of a driver holds it to the version that it knows. So a
driver that lost its lock, or has not seen a request, writes nothing. While the version stands, the driver knows the
whole record without reading it.

A rollout's own znode is empty until all its parts exist: an empty one was never begun. Ids rise, also over the lives of
a deployment: if a deployment is made again, its ids are above ``id_base``, which the structure remembers.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from msgspec.structs import replace

from nodepool_ocb.errors import Conflict, Invalid, NotFound, OutcomeUnknown, Stale
from nodepool_ocb.model import executions, limits, paths
from nodepool_ocb.model.executions import ROLLOUT, Key
from nodepool_ocb.model.records import Change, Check, Create, LockOwner, Record, RolloutPointer
from nodepool_ocb.rollout import records
from nodepool_ocb.rollout.records import GroupRecord, NodesRecord, Rollout, RolloutRecord
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.driven import lines, pointers
from nodepool_ocb.store.driven.executions import ROLLOUTS, decoded_or_none
from nodepool_ocb.store.driven.pointers import ATTEMPTS, again
from nodepool_ocb.store.locks import holders

Versions: TypeAlias = executions.Versions[RolloutPointer]


class ListedRollout(NamedTuple):
    """A rollout among others."""

    deployment: str
    id: str
    record: RolloutRecord
    holder: LockOwner | None  # its driver
    groups: Mapping[str, GroupRecord]  # of one that is under way, as far as they can be decoded; else none


# -- reading --


def newest(session: Session, deployment: str) -> str | None:
    """The id of a deployment's newest rollout, which is the only one that may be under way."""
    return ROLLOUTS.pointer(session, deployment)[0].newest


def read(session: Session, deployment: str, identity: str) -> tuple[Rollout, Versions] | None:
    """A rollout as it is, None where it does not exist or was never begun.

    While a driver works on it, groups may be newer than nodes, by one write. Raises Invalid where a part of it is broken.
    """
    for _ in range(ATTEMPTS):
        rollouts, version = ROLLOUTS.pointer(session, deployment)
        found = _parts(session, deployment, identity)
        if ROLLOUTS.pointer(session, deployment)[1] != version:
            continue
        if found is None:
            return None
        head, groups, nodes, versions = found
        try:
            return records.whole(head, groups, nodes), Versions(rollouts, version, versions)
        except Invalid as wrong:
            whole = paths.rollout(deployment, identity)
            advice = f"see: nodepool-ocb record show {whole}"
            raise Invalid([f"{whole}: {each}; {advice}" for each in wrong.problems]) from None
    raise Stale(f"{paths.rollouts(deployment)} is changed on and on; read it again", paths.rollouts(deployment))


def _parts(
    session: Session, deployment: str, identity: str
) -> tuple[RolloutRecord, dict[str, GroupRecord], list[NodesRecord], dict[str, int]] | None:
    path = paths.rollout(deployment, identity)
    listed = session.children_many([f"{path}/groups", f"{path}/nodes"])
    named = [
        f"{kind}/{name}"
        for kind, names in zip(("groups", "nodes"), listed, strict=True)
        for name in sorted(names or ())
    ]
    head, *others = session.get_many([path, *(f"{path}/{part}" for part in named)])
    if head is None or not head.data or None in others:
        return None
    there = {part: znode for part, znode in zip(named, others, strict=True) if znode is not None}
    groups = {part[7:]: codec.decode(GroupRecord, there[part]) for part in named if part.startswith("groups/")}
    nodes = [codec.decode(NodesRecord, there[part]) for part in named if part.startswith("nodes/")]
    versions = {"": head.version} | {part: znode.version for part, znode in there.items()}
    record = codec.decode(RolloutRecord, head)
    if len(groups) != len(record.groups) or sum(len(each.nodes) for each in nodes) != record.nodes:
        return None  # it is being deleted
    return record, groups, nodes, versions


def list_(session: Session) -> list[ListedRollout]:
    """Every rollout, by deployment, the oldest first; records that cannot be decoded are left out."""
    found = ROLLOUTS.listed(session)
    held = holders(session, [paths.rollout_lock(deployment, identity) for deployment, identity, _ in found])
    return [
        ListedRollout(*each, holder, {} if each[-1].state in records.OVER else _groups(session, *each))
        for each, holder in zip(found, held, strict=True)
    ]


def _groups(session: Session, deployment: str, identity: str, head: RolloutRecord) -> dict[str, GroupRecord]:
    znodes = session.get_many([paths.rollout(deployment, identity, f"groups/{name}") for name in head.groups])
    found = {name: decoded_or_none(GroupRecord, znode) for name, znode in zip(head.groups, znodes, strict=True)}
    return {name: record for name, record in found.items() if record is not None}


# -- beginning --

#: By the id of the rollout.
Joined = Callable[[str], Sequence[Change]]


def _nothing(_: str) -> Sequence[Change]:
    return ()


def begin(
    session: Session, deployment: str, rollout: Rollout, judged: Sequence[Check] = (), joined: Joined = _nothing
) -> str:
    """Write a rollout that ``plan.begin`` made; gives its id. An annealer will drive it.

    ``joined`` gives, for the id, the changes that join the transaction in which it begins; its exceptions are raised.
    Raises Conflict while another rollout of the deployment, or of one above or below it, is under way. Raises NotFound
    if the deployment does not exist, Stale if a check of ``judged`` fails.
    """
    pointers.opened(session, paths.rollouts(deployment), RolloutPointer)
    _refuse_another(session, deployment, ROLLOUTS.pointer(session, deployment)[0])
    lines.entered(session, deployment)  # nothing is written for one that cannot begin
    identity = _next(session, deployment)
    path = paths.rollout(deployment, identity)
    parts, head = records.parts(rollout), rollout.head
    del parts[""]
    try:
        made = [Create(f"{path}/groups"), Create(f"{path}/nodes"), *_made(path, parts)]
        for changes in limits.parts(limits.singly(made)):
            session.commit(changes)
        _enter(session, deployment, identity, head, judged, joined)
    except (Stale, Conflict, NotFound):  # else it may have begun
        with contextlib.suppress(Stale, OutcomeUnknown):  # another that has begun removes it, too
            pointers.remove(session, path)
        _refuse_another(session, deployment, ROLLOUTS.pointer(session, deployment)[0])
        raise
    pointers.forget(session, paths.rollouts(deployment), identity)
    return identity


def _next(session: Session, deployment: str) -> str:
    """Take the next id, with an empty znode; raises Stale where the deployment's own record is gone."""

    def take() -> str:
        known, _ = ROLLOUTS.pointer(session, deployment)
        identity = pointers.next_id(session, paths.rollouts(deployment), known)
        session.commit([Create(paths.rollout(deployment, identity))])
        return identity

    return again(take, (Stale, OutcomeUnknown))  # another took it, or may have: an empty znode does not name its owner


def _enter(
    session: Session,
    deployment: str,
    identity: str,
    head: RolloutRecord,
    judged: Sequence[Check],
    joined: Joined,
) -> None:
    """Let a rollout be under way that is written but for its own record; again where others write meanwhile."""

    def enter() -> None:
        known, version = ROLLOUTS.pointer(session, deployment)
        _refuse_another(session, deployment, known)
        alone = lines.entered(session, deployment)
        counts = replace(known, newest=identity, over=False, driver=None, since=head.started)
        begun = Versions(known, version, {"": 0})
        own = ROLLOUT.asked(deployment, identity, {"": head}, counts, begun)
        session.commit([*judged, *own, *alone, *joined(identity)])

    again(enter, final=pointers.among(judged))


def _refuse_another(session: Session, deployment: str, rollouts: RolloutPointer) -> None:
    if rollouts.over or rollouts.newest is None:
        return
    head = session.get(paths.rollout(deployment, rollouts.newest))
    if head is not None and head.data:  # an absent one is not under way
        raise Conflict(ROLLOUT.under_way(Key(deployment, rollouts.newest)))


def _made(path: str, parts: Mapping[str, Record]) -> Iterator[Change]:
    return (Create(f"{path}/{part}", record) for part, record in parts.items())


# -- the writes of a driver --


def changes(
    deployment: str, identity: str, before: Rollout, after: Rollout, versions: Versions, now: float
) -> list[Change]:
    """The transaction of a driver's decisions. It is refused if another annealer drives, or if a person changed the
    rollout meanwhile.
    """
    return ROLLOUT.driven(deployment, identity, records.changed(before, after), after.over, versions, now)
