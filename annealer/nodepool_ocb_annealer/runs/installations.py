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
from nodepool_ocb.model.installation import ENDS, BootToken, Installation, InstallPurpose, InstallStep
from nodepool_ocb.model.power import PowerAction
from nodepool_ocb.model.records import Change, Check, Create, Delete, Node, NodeRole, Record, Run, Set
from nodepool_ocb.provisioning import installation as steps
from nodepool_ocb.provisioning.addressing import leases

DYING: Final = "the noderoles are being set back after the installation"


def begun(grant: claim.Grant, record: Installation, token: BootToken, now: float) -> list[Change]:
    """The first record, and where the machine must boot: the token of the boot, and the boot environment."""
    view, bootenv = grant.vertex.node, steps.BOOTENVS[record.purpose]
    changes: list[Change] = [_fenced(grant), _put(paths.installation(view.name), installing.stored(view), record)]
    if bootenv is None:
        return changes
    changes.append(_put(paths.boot_token(view.name), installing.boot_token(view), token))
    return [*changes, *liveness.changed(view.world, view, now, grant.annealer, bootenv=bootenv)]


def cleared(grant: claim.Grant, now: float) -> list[Change]:
    """The boot environment ``local``, where an older installation left another: so that its next change is noticed."""
    changes = _local(grant.vertex.node, grant, now)
    return [_fenced(grant), *changes] if changes else []


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

    At the end of a decommissioning it is switched off.

    Raises Conflict while another request for its power is under way.
    """
    found, action = powering.powers(grant.vertex.node.world).get(grant.fqdn), _switched(after)
    if action is None or found is None or found.record.driver == installing.BY_HAND:
        return written(grant, before, after)
    cycle = action is PowerAction.CYCLE
    id = after.nonce[:16] if cycle else after.nonce[16:]
    request = powering.request(id, action, grant.annealer, now, network=cycle)
    asked = Set(paths.power(grant.fqdn), powering.asked(found.record, request), found.version)
    return [*written(grant, before, replace(after, power=request.id)), asked]


def _switched(after: Installation) -> PowerAction | None:
    """The request that belongs to a step."""
    if after.step is InstallStep.REBOOTING:
        return PowerAction.CYCLE
    retires = after.purpose in (InstallPurpose.WIPE, InstallPurpose.RETIRE)
    return PowerAction.OFF if retires and after.step is InstallStep.PUBLISHED_LOCAL else None


def given_up(grant: claim.Grant, reason: str, now: float) -> list[Change]:
    """The changes beside the end of a run without success, if it was an installation: the machine boots its disk again.

    If an installer began to replace the system of the machine, the node is not alive. So no other noderole is claimed there.
    """
    view, found = grant.vertex.node, installing.stored(grant.vertex.node)
    record = found.record if found is not None else None
    if found is None or record is None or record.noderole != grant.vertex.name or record.step in ENDS:
        return []
    if record.generation != grant.record.generation:
        return []
    changes: list[Change] = []
    if record.reason is None:
        changes.append(Set(paths.installation(view.name), steps.failed(record, reason), found.version))
    if view.record is not None and record.token_used is not None and record.purpose not in installing.KEEPING:
        node = liveness.replaced(view, now, _without_ours(view.record))
        return [*changes, *_token_gone(view), Set(paths.node(view.name), node, view.version)]
    return [*changes, *_token_gone(view), *_local(view, grant, now)]


def succeeded(grant: claim.Grant, now: float) -> tuple[dict[Vertex, NodeRole], Node]:
    """The noderoles that move, and the node: alive, with the host key of its new disk; or decommissioned; or rescued."""
    view, found = grant.vertex.node, installing.stored(grant.vertex.node)
    assert found is not None, "it was found to be under way"
    others = _set_back(grant, found.record)
    moved = apply({grant.vertex: Event.SUCCEED, **dict.fromkeys(others, Event.NODE_DIED)}, now, by=grant.annealer)
    match found.record.purpose:
        case InstallPurpose.RESCUE:
            return moved, liveness.rescued(view, now)
        case InstallPurpose.WIPE | InstallPurpose.RETIRE as purpose:
            return moved, liveness.retired(view, now, erased=purpose is InstallPurpose.WIPE)
    addresses = leases.lasting(view.world, view.record) if view.record is not None else ()
    return moved, liveness.installed(view, found.record.host_key, addresses, now)


def _set_back(grant: claim.Grant, record: Installation) -> list[Vertex]:
    """The other noderoles of the node, unless the machine has the system that it had."""
    if record.purpose is InstallPurpose.RESCUE:
        return []
    return [each for each in liveness.to_set_back(grant.vertex.node) if each is not grant.vertex]


def finishing(grant: claim.Grant, moved: Mapping[Vertex, NodeRole], run: Run, node: Node, now: float) -> list[Change]:
    """The transaction that ends a successful installation.

    If it has no room for all noderoles of the node, the node is not alive until they are set back.
    """
    view, found = grant.vertex.node, installing.stored(grant.vertex.node)
    assert found is not None, "it was found to be under way"
    record = steps.advanced(found.record, steps.PATHS[found.record.purpose][-1], now)

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
    left = [each for each in _set_back(grant, found.record) if each not in there]
    return made(replace(node, alive=False, dying=True, reason=DYING)) if left else changes


def subject(record: Installation) -> str:
    """The object of the work, for the log."""
    return f"image {record.image}-{record.build} on {record.disk}" if record.image else record.disk or record.noderole


def tail(record: Installation, text: str) -> str:
    """The last words of the log of a run that succeeded."""
    if record.purpose is InstallPurpose.INSTALL:
        return f"image {record.image}-{record.build} is on {record.disk}"
    lines = [f"{each.disk}: {'erased' if each.done else each.reason} ({each.method})" for each in record.wiped]
    return "\n".join([*lines, *([text] if text else [])]) or f"step {record.step} is done"


def _fenced(grant: claim.Grant) -> Check:
    return Check(paths.fence(grant.fqdn), grant.fence)


def _put(path: str, before: Stored[Record] | None, record: Record) -> Change:
    return Create(path, record) if before is None else Set(path, record, before.version)


def _token_gone(view: NodeView) -> list[Change]:
    token = installing.boot_token(view)
    return [Delete(paths.boot_token(view.name), token.version)] if token is not None else []


def _local(view: NodeView, grant: claim.Grant, now: float) -> list[Change]:
    if view.record is None:
        return []
    return liveness.changed(view.world, view, now, grant.annealer, bootenv=_without_ours(view.record))


def _without_ours(node: Node) -> str:
    """The boot environment of a node without an installation: that of a person stays."""
    return steps.LOCAL if node.bootenv in steps.OURS else node.bootenv
