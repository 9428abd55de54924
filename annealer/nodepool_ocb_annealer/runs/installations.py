"""The transactions of an installation: its first record, its steps, its end. Pure.

Each carries the fence of the claim and the version of the record. So an annealer that lost its claim writes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec.structs import replace

from nodepool_ocb.engine import claim, installing, liveness, powering
from nodepool_ocb.engine.noderole import Event, apply
from nodepool_ocb.engine.world import NodeView, Stored, Vertex
from nodepool_ocb.model import paths
from nodepool_ocb.model.installation import BootToken, Installation, InstallStep
from nodepool_ocb.model.power import PowerAction, PowerRequest
from nodepool_ocb.model.records import Change, Check, Create, Delete, Node, NodeRole, Record, Run, Set
from nodepool_ocb.provisioning import installation as steps
from nodepool_ocb.provisioning import leases

DYING: Final = "the noderoles are being set back after the installation"


def begun(grant: claim.Grant, record: Installation, token: BootToken, now: float) -> list[Change]:
    """The first record, the token of the boot, and the boot environment ``install``."""
    view = grant.vertex.node
    return [
        _fenced(grant),
        _put(paths.installation(view.name), installing.stored(view), record),
        _put(paths.boot_token(view.name), installing.boot_token(view), token),
        *liveness.changed(view.world, view, now, grant.annealer, bootenv=steps.INSTALL),
    ]


def cleared(grant: claim.Grant, now: float) -> list[Change]:
    """The boot environment ``local``, where an older installation left ``install``: so that its next change is noticed."""
    view = grant.vertex.node
    if view.record is None or view.record.bootenv != steps.INSTALL:
        return []
    return [_fenced(grant), *liveness.changed(view.world, view, now, grant.annealer, bootenv=steps.LOCAL)]


def written(grant: claim.Grant, before: Stored[Installation], record: Installation) -> list[Change]:
    """Another record of the installation."""
    return [_fenced(grant), Set(paths.installation(grant.fqdn), record, before.version)]


def power(grant: claim.Grant, record: Installation) -> dict[str, Any]:
    """The facts of ``StepFacts`` about the power of the machine."""
    found = powering.powers(grant.vertex.node.world).get(grant.fqdn)
    if found is None or found.record.driver == installing.BY_HAND:
        return {}
    result = found.record.result
    if not record.power or result is None or result.id != record.power:
        return {"power": True}
    return {
        "power": True,
        "switched": result.done,
        "power_fault": None if result.done else result.reason or "no reason",
    }


def advancing(grant: claim.Grant, before: Stored[Installation], after: Installation, now: float) -> list[Change]:
    """The next step. With it a machine that has a power record is switched off and on, once, to boot from the network.

    Raises Conflict while another request for its power is under way.
    """
    found = powering.powers(grant.vertex.node.world).get(grant.fqdn)
    if after.step is not InstallStep.REBOOTING or found is None or found.record.driver == installing.BY_HAND:
        return written(grant, before, after)
    request = PowerRequest(
        id=after.nonce[:16],
        action=PowerAction.CYCLE,
        network=True,
        by=grant.annealer,
        since=now,
        until=now + powering.REQUEST_SECONDS,
    )
    asked = Set(paths.power(grant.fqdn), powering.asked(found.record, request), found.version)
    return [*written(grant, before, replace(after, power=request.id)), asked]


def given_up(grant: claim.Grant, reason: str, now: float) -> list[Change]:
    """The changes beside the end of a run without success, if it was an installation: the machine boots its disk again."""
    view, found = grant.vertex.node, installing.stored(grant.vertex.node)
    record = found.record if found is not None else None
    if found is None or record is None or record.noderole != grant.vertex.name or record.step is InstallStep.ALIVE:
        return []
    if record.generation != grant.record.generation:
        return []
    changes: list[Change] = []
    if record.reason is None:
        changes.append(Set(paths.installation(view.name), steps.failed(record, reason), found.version))
    return [*changes, *_token_gone(view), *_local(view, grant, now)]


def succeeded(grant: claim.Grant, now: float) -> tuple[dict[Vertex, NodeRole], Node]:
    """The noderoles that move, and the node: alive, with the host key of its new disk."""
    view, found = grant.vertex.node, installing.stored(grant.vertex.node)
    assert found is not None, "it was found to be under way"
    others = [each for each in liveness.to_set_back(view) if each is not grant.vertex]
    moved = apply({grant.vertex: Event.SUCCEED, **dict.fromkeys(others, Event.NODE_DIED)}, now, by=grant.annealer)
    addresses = leases.lasting(view.world, view.record) if view.record is not None else ()
    return moved, liveness.installed(view, found.record.host_key, addresses, now)


def finishing(grant: claim.Grant, moved: Mapping[Vertex, NodeRole], run: Run, node: Node, now: float) -> list[Change]:
    """The transaction that ends a successful installation.

    If it has no room for all noderoles of the node, the node is not alive until they are set back.
    """
    view, found = grant.vertex.node, installing.stored(grant.vertex.node)
    assert found is not None, "it was found to be under way"
    record = steps.advanced(found.record, InstallStep.ALIVE, now)

    def made(after: Node) -> list[Change]:
        together = [
            Set(paths.node(view.name), after, view.version),
            Set(paths.installation(view.name), record, found.version),
            *_token_gone(view),
            _fenced(grant),
            *claim.outcome(grant, run),
            Delete(paths.claim(view.name), grant.claim_version),
        ]
        return claim.settling(moved, (grant.vertex,), together)

    changes = made(node)
    there = claim.written(moved, changes)
    left = [each for each in liveness.to_set_back(view) if each is not grant.vertex and each not in there]
    return made(replace(node, alive=False, dying=True, reason=DYING)) if left else changes


def _fenced(grant: claim.Grant) -> Check:
    return Check(paths.fence(grant.fqdn), grant.fence)


def _put(path: str, before: Stored[Record] | None, record: Record) -> Change:
    return Create(path, record) if before is None else Set(path, record, before.version)


def _token_gone(view: NodeView) -> list[Change]:
    token = installing.boot_token(view)
    return [Delete(paths.boot_token(view.name), token.version)] if token is not None else []


def _local(view: NodeView, grant: claim.Grant, now: float) -> list[Change]:
    if view.record is None or view.record.bootenv != steps.INSTALL:
        return []
    return liveness.changed(view.world, view, now, grant.annealer, bootenv=steps.LOCAL)
