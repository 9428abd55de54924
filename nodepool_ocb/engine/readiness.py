"""The reasons that keep a noderole from starting: one function, for the annealer before a claim and for ``explain``.

They are OpenCrowbar's four conditions (seed 000, "The NodeRole state machine") and the further ones of this product. The annealer
asks only whether there is one. A person sees all of them, the most important first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import chain
from typing import Final

from nodepool_ocb.engine import drift, installing, maintenance, marks, structure, unreadable
from nodepool_ocb.engine.acting import extensions
from nodepool_ocb.engine.acting.annealers import START, unable
from nodepool_ocb.engine.acting.backoff import backoff_left
from nodepool_ocb.engine.acting.overdue import overdue
from nodepool_ocb.engine.acting.reasons import NOTHING_TO_HOLD as NOTHING_TO_HOLD
from nodepool_ocb.engine.acting.reasons import Code as Code
from nodepool_ocb.engine.acting.reasons import Reason as Reason
from nodepool_ocb.engine.hooks import code as hookcode
from nodepool_ocb.engine.hooks import deployment as deploymentroles
from nodepool_ocb.engine.noderole import claimable, placed, renewing, satisfied
from nodepool_ocb.engine.world import Vertex, World, ordered_with
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import DeploymentState, Node, NodeRole, Role, State

#: The states in which ``standing`` looks at other records.
WAITING_STATES: Final = frozenset({State.BLOCKED, State.TODO})

ON_TRANSITION: Final = "on_transition"  # which a run begins with


def runnable(
    world: World, vertex: Vertex, now: float, jigs: Collection[str], moved: Mapping[Vertex, NodeRole] | None = None
) -> bool:
    """Whether an annealer that has these jigs may claim the noderole now.

    ``moved``: the records in a transaction that is about to be written and that frees the node.
    """
    return next(blockers(world, vertex, now, jigs, moved), None) is None


def why_not(world: World, vertex: Vertex, now: float) -> list[Reason]:
    """Every reason in order, with the jigs of all living annealers; empty when it may start at any moment."""
    jigs = {jig for daemon in world.annealers.values() for jig in daemon.jigs}
    late = overdue(world, vertex, now)
    rest = ([late] if late else [], _of_suspicion(vertex), _of_code(world, vertex), _of_annealers(world, vertex))
    return [*blockers(world, vertex, now, jigs), *chain.from_iterable(rest)]


def blockers(
    world: World, vertex: Vertex, now: float, jigs: Collection[str], moved: Mapping[Vertex, NodeRole] | None = None
) -> Iterator[Reason]:
    """The reasons, the nearest to the noderole first; lazily, so that asking for any costs little."""
    planned = moved is not None
    moved = moved or {}
    record = moved.get(vertex, vertex.record)
    rare, node = record.rare, vertex.node.record
    goes_on = rare.cancel_reason is None
    own = _of_state(vertex, record, now)
    if own is not None and own.code in NOTHING_TO_HOLD:
        yield own
    aside = goes_on and (bool(world.paused) or (node is not None and node.hold is not None))
    if aside and installing.of_vertex(vertex) is None:  # an installation goes on, also where nothing begins
        yield from _of_aside(world, vertex, record, now)
    if own is not None and own.code not in NOTHING_TO_HOLD:
        yield own
    for path in unreadable.holding(world, vertex, record) if world.unreadable else ():
        yield Reason(Code.UNREADABLE, path, 0.0, f"the record {path} cannot be read", unreadable.ADVICE)
    if goes_on:  # a run is ended in any state of its parents
        for path in unreadable.spoiled(world, vertex) if world.spoiled else ():
            yield Reason(Code.UNREADABLE, path, 0.0, f"the attributes {world.spoiled[path]}", unreadable.SPOILED_ADVICE)
        if vertex.waiting and record.state is not State.PROPOSED and vertex not in moved:  # those are settled
            yield from _of_parents(vertex, moved)
        if record.state is State.ACTIVE and renewing(record) and (first := _goes_before(vertex, moved)):
            yield _of_refresh(first)
        if record.state is State.TODO and (child := unsettled_child(vertex, moved)):
            yield _of_child(child)
        if uncommitted := _of_deployment(world, record):
            yield uncommitted
    yield from _of_node(vertex, record, planned, now)
    if vertex.node.failed and rare.task_run is not None and goes_on:
        yield from _of_failed(vertex, record)
    if guarded := _of_guard(vertex, record):
        yield guarded
    if lacking := _of_role(world, vertex, jigs):
        yield lacking
    if rare.hooks and goes_on:
        yield _of_hook(world, vertex, record, rare.hooks[0])
    if goes_on and (refusal := _of_deployment_role(world, vertex, record)):
        yield refusal
    if rare.not_before and (backs_off := backoff_left(record, now)):
        yield Reason(
            Code.BACKOFF,
            vertex.name,
            record.since,
            f"runs again in {backs_off:.0f} s, after attempt {record.attempt}: {record.reason or 'it failed'}",
            "wait for the next attempt; or mend the cause that the reason names, which needs no command",
        )
    if not world.annealers:
        yield Reason(Code.NO_ANNEALER, "annealer", 0.0, "no annealer is running", START)


def _of_state(vertex: Vertex, record: NodeRole, now: float) -> Reason | None:
    state, name, since = record.state, vertex.name, record.since
    if state is State.TODO or state is State.BLOCKED:
        return None
    if record.task_run is not None and state in (State.PROPOSED, State.ERROR, State.ACTIVE):
        return _of_task(vertex, record)
    if state is State.PROPOSED:
        advice = f"nodepool-ocb noderole commit {name}"
        return Reason(Code.PROPOSED, name, since, "it is bound and not committed", advice)
    if state is State.ERROR:
        text = f"its run failed: {record.reason or 'no reason was recorded'}"
        return Reason(Code.FAILED, name, since, text, f"mend the cause, then: nodepool-ocb noderole retry {name}")
    if state is State.ACTIVE and not record.refresh:
        if record.once == "done":
            text, advice = "it is destructive and was done once", f"nodepool-ocb noderole redeploy {name}"
            return Reason(Code.DESTRUCTIVE_DONE, name, since, text, advice)
        again = f"nodepool-ocb noderole refresh {name} runs it again"
        return Reason(Code.DONE, name, since, f"it is ACTIVE{drift.sentence(record)}", again)
    if state is State.ACTIVE and record.check is None and vertex.destructive:
        text = "it was to run again, and its role is destructive now: only a redeployment runs it again"
        return Reason(Code.DESTRUCTIVE_DONE, name, since, text, f"nodepool-ocb noderole redeploy {name}")
    if state is State.TRANSITION and vertex.node.claim is not None and not _ghost(vertex):
        text = f"annealer {vertex.node.claim.annealer} works on it"
        text += f": {installing.sentence(found.record, now)}" if (found := installing.of_vertex(vertex)) else ""
        text += f", and is to cancel it: {record.cancel_reason}" if record.cancel_reason else ""
        return Reason(Code.RUNNING, name, since, text, f"nodepool-ocb noderole log -f {name}")
    return None


def _of_aside(world: World, vertex: Vertex, record: NodeRole, now: float) -> Iterator[Reason]:
    node, fqdn = vertex.node.record, vertex.node.name
    if node is not None and maintenance.holds(node.hold, now):
        text, advice = f"node {fqdn} is held {maintenance.sentence(node.hold)}", maintenance.releasing(fqdn)
        yield Reason(Code.NODE_HELD, fqdn, node.hold.since, text, advice)
    for name, pause in maintenance.pauses(world, record.deployment, now).items() if world.paused else ():
        text, advice = (
            f"{maintenance.deployment(name)} is paused {maintenance.sentence(pause)}",
            maintenance.resuming(name),
        )
        yield Reason(Code.PAUSED, name, pause.since, text, advice)


def _of_task(vertex: Vertex, record: NodeRole) -> Reason:
    """Of a task that does not run by itself: only its run, or another, moves it."""
    name, since, of = vertex.name, record.since, f"tasks run {record.deployment}/{record.task_run}"
    run = f"nodepool-ocb tasks run --deployment {record.deployment}"
    if record.state is State.ERROR:
        text = f"its run failed: {record.reason or 'no reason was recorded'}"
        return Reason(Code.FAILED, name, since, text, f"mend the cause, then: {run} --retry")
    if record.state is State.ACTIVE:
        return Reason(Code.DONE, name, since, f"it is ACTIVE: {of} did it", f"{run} does it again")
    text = f"{of} has not committed it" + (f": {record.reason}" if record.reason else "")
    return Reason(Code.PROPOSED, name, since, text, f"{run} --retry" if record.reason else f"wait for {of}")


def _retry(vertex: Vertex) -> str:
    if vertex.record.task_run is not None:
        return f"nodepool-ocb tasks run --deployment {vertex.record.deployment} --retry"
    return f"nodepool-ocb noderole retry {vertex.name}"


def standing(vertex: Vertex) -> str | None:
    """Why a noderole is in its state, in short, for a row: a reason is not shown when its cause is over.

    BLOCKED: the first parent that it waits for, as in ``explain``; its record may have the reason of an earlier state. TODO:
    not the reason of a death, if the node is alive since then.
    """
    record = vertex.record
    if record.state is State.BLOCKED:
        return next((reason.text for reason in _of_parents(vertex, {})), None)
    if record.state is State.TODO and not record.not_before:
        node = vertex.node.record
        if node is not None and node.alive and node.since > record.since:
            return None
    return record.reason


def _of_parents(vertex: Vertex, moved: Mapping[Vertex, NodeRole]) -> Iterator[Reason]:
    known = [parent for parent in vertex.parents if not parent.unreadable]
    waited_for = [parent for parent in known if not satisfied(moved.get(parent, parent.record))]
    for parent in sorted(waited_for, key=lambda v: (v.record.state is not State.ERROR, v.name)):
        record = moved.get(parent, parent.record)
        if record.state is State.ERROR:
            text = f"its parent {parent.name} failed: {record.reason or 'no reason was recorded'}"
            advice = f"mend the cause, then: {_retry(parent)}"
            yield Reason(Code.PARENT_ERROR, parent.name, record.since, text, advice)
        else:
            text = f"its parent {parent.name} is {record.state}"
            advice = f"nodepool-ocb noderole explain {parent.name}"
            yield Reason(Code.PARENT_WAITING, parent.name, record.since, text, advice)
    present = {parent.name for parent in vertex.above}
    for name in vertex.record.parents:
        if name not in present and not vertex.node.world.hidden(name):
            text = f"its parent {name} does not exist"
            if cluster := paths.split_cluster(name):
                text = f"its parents are every {cluster[0]} of deployment {cluster[1]}, and there is none"
            yield Reason(Code.PARENT_WAITING, name, 0.0, text, "bind it again, or unbind")


def unsettled_child(vertex: Vertex, moved: Mapping[Vertex, NodeRole]) -> Vertex | None:
    """A child that must be BLOCKED and is not yet, because the transaction that moved its parent had no room for it.

    If the parent ran before that, it would be ACTIVE again and the child would never run after it.
    """
    for child in vertex.children:
        record = moved.get(child, child.record)
        if record.state is not State.BLOCKED and placed(child, record, 0, record.since) is not record:
            return child
    return None


def _goes_before(vertex: Vertex, moved: Mapping[Vertex, NodeRole]) -> Vertex | None:
    """An ancestor that is also to be run again in place, and must be run first."""
    done = {each for each, record in moved.items() if renewing(each.record) and not renewing(record)}
    return vertex.node.world.edges.refreshing.before(vertex, done)


def _of_refresh(first: Vertex) -> Reason:
    text = f"{first.name} above it must run again first"
    advice = f"nodepool-ocb noderole explain {first.name}"
    return Reason(Code.PARENT_WAITING, first.name, first.record.since, text, advice)


def _of_child(child: Vertex) -> Reason:
    text = f"its child {child.name} is still {child.record.state}, and has to be BLOCKED first"
    advice = "wait: an annealer does that in a moment"
    return Reason(Code.CHILD_UNSETTLED, child.name, child.record.since, text, advice)


def _of_deployment(world: World, record: NodeRole) -> Reason | None:
    stored = world.deployments.get(record.deployment)
    if stored is not None and stored.record.state is DeploymentState.COMMITTED:
        return None
    if stored is None and paths.deployment(record.deployment) in world.unreadable:
        return None
    since = stored.record.since if stored else 0.0
    text = f"deployment {record.deployment} is {'PROPOSED' if stored else 'gone'}"
    advice = f"nodepool-ocb deployment commit {record.deployment}"
    return Reason(Code.DEPLOYMENT_PROPOSED, record.deployment, since, text, advice)


def _of_node(vertex: Vertex, record: NodeRole, planned: bool, now: float) -> Iterator[Reason]:
    node, view = vertex.node.record, vertex.node
    down = node is None or node.dying or not (node.alive or node.virtual)
    if node is not None and node.decommissioned is not None:
        text, advice = f"node {view.name} was decommissioned", f"nodepool-ocb node recommission {view.name}"
        yield Reason(Code.NODE_DECOMMISSIONED, view.name, node.decommissioned, text, advice)
    elif down and not _excused(vertex, now):
        why = marks.why(node) if node else None
        text = f"node {view.name} is not alive" + (f": {why}" if why else "")
        advice = _of_dead(view.name, node, now)
        yield Reason(Code.NODE_NOT_ALIVE, view.name, node.since if node else 0.0, text, advice)
    if node is not None and not node.available:
        text, advice = f"node {view.name} is not available", f"nodepool-ocb node available {view.name}"
        yield Reason(Code.NODE_NOT_AVAILABLE, view.name, node.since, text, advice)
    if node is not None and node.deleting:
        text, advice = f"node {view.name} is being deleted", f"wait, or: nodepool-ocb node show {view.name}"
        yield Reason(Code.NODE_DELETING, view.name, node.since, text, advice)
    if not planned:
        yield from _of_claim(vertex, record)
    busy = None if planned or record.state is State.TRANSITION else view.busy
    if busy is not None and busy is not vertex:
        text = f"{busy.name} is in TRANSITION on the same node"
        yield Reason(Code.NODE_BUSY, busy.name, busy.record.since, text, f"nodepool-ocb noderole log -f {busy.name}")


def _excused(vertex: Vertex, now: float) -> bool:
    """Whether it counts for nothing that its node is not alive: that is not known, or the noderole needs no system there.

    An installation under way goes on while a mark holds, too.
    """
    node = vertex.node.record
    if node is None:
        return paths.node(vertex.node.name) in vertex.node.world.unreadable
    goes_on = installing.of_vertex(vertex) is not None
    return not node.dying and (goes_on or (not marks.holds(node, now) and installing.needs_no_system(vertex)))


def _of_guard(vertex: Vertex, record: NodeRole) -> Reason | None:
    """An installation on a node that does not allow it; one that has begun goes on."""
    node, fqdn = vertex.node.record, vertex.node.name
    if record.state is State.TRANSITION or node is None or node.allow_install or not installing.erases(vertex):
        return None
    text = f"it would erase a disk of node {fqdn}, and allow_install of the node is not set"
    return Reason(Code.INSTALL_NOT_ALLOWED, fqdn, 0.0, text, f"nodepool-ocb node set {fqdn} allow_install=true")


def _of_dead(name: str, node: Node | None, now: float) -> str:
    """The next step for a node that is not alive."""
    if node and node.reason and node.reason.startswith("host key: "):
        return f"if the machine was installed anew: nodepool-ocb node set {name} host_keys="
    if node and marks.holds(node, now):
        return f"annealers do not probe it meanwhile; to end the mark: nodepool-ocb node alive {name}"
    if node and not node.addresses:
        return f"it has no address that annealers could probe: nodepool-ocb node set {name} addresses=HOST"
    return f"check the machine; annealers probe it; see: nodepool-ocb node show {name}"


def _of_failed(vertex: Vertex, record: NodeRole) -> Iterator[Reason]:
    """A task that failed fails its node: nothing more of the run begins there."""
    for other in sorted(vertex.node.failed, key=lambda each: each.name):
        if other is not vertex and other.record.task_run == record.task_run and record.state is not State.TRANSITION:
            text = f"{other.name} failed, and with it node {vertex.node.name} in this run: {other.record.reason or ''}"
            advice = f"mend the cause, then: {_retry(other)}"
            yield Reason(Code.NODE_FAILED, other.name, other.record.since, text.rstrip(": "), advice)


def _of_claim(vertex: Vertex, record: NodeRole) -> Iterator[Reason]:
    """The znodes beside the node's record that prevent a claim: another claim, or a missing fence or gate."""
    view, claim = vertex.node, vertex.node.claim
    if claim is not None and _ghost(vertex):
        text = f"node {view.name} is claimed by {claim.annealer}, which is not running, for {claim.noderole}"
        text += "" if view.claim_owner else "; no session holds the claim, so it stays"
        advice = f"wait for the end of its session; if it stays: nodepool-ocb record delete {paths.claim(view.name)}"
        yield Reason(Code.NODE_CLAIMED, view.name, claim.since, text, advice)
    elif claim is not None and record.state is not State.TRANSITION and (view.busy in (None, vertex)):
        text = f"annealer {claim.annealer} has claimed node {view.name} for {claim.noderole}"
        yield Reason(Code.NODE_CLAIMED, view.name, claim.since, text, "wait: it gives the node back in a moment")
    for path, advice in structure.lacking(vertex):
        yield Reason(Code.INCOMPLETE, path, 0.0, f"{path} is missing, and every claim needs it", advice)


def _ghost(vertex: Vertex) -> bool:
    """Whether the claim on its node belongs to an annealer that is not running, or to no session."""
    claim = vertex.node.claim
    return claim is not None and (not vertex.node.world.may_run(claim.annealer) or not vertex.node.claim_owner)


def _of_role(world: World, vertex: Vertex, jigs: Collection[str]) -> Reason | None:
    stored = world.roles.get(vertex.role)
    role: Role | None = stored.record if stored else None
    if role is None and paths.role(vertex.role) in world.unreadable:
        return None
    jig = _jig(vertex, role) if role else "(unknown role)"
    if role is not None and (jig in jigs or not world.annealers):
        return None
    if role is None:
        text, advice = f"role {vertex.role} was never imported", "nodepool-ocb barclamp import FILE"
        return Reason(Code.JIG_INACTIVE, jig, 0.0, text, advice)
    text, advice = (
        f"no living annealer has the jig {jig}",
        "install the package that brings the jig, or import the barclamp",
    )
    if left_out := extensions.left_out(world, "jig", jig):
        text, advice = f"{text}: {left_out}", "mend the package of the jig, then restart the annealer"
    return Reason(Code.JIG_INACTIVE, jig, 0.0, text, advice)


def _of_code(world: World, vertex: Vertex) -> Iterator[Reason]:
    """The hook with which its run begins, if no annealer has its code: each annealer leaves it to the others."""
    record, stored = vertex.record, world.roles.get(vertex.role)
    begins = record.state is State.TODO or record.refresh
    taken_over = record.state is State.TRANSITION and vertex.node.claim is None and record.cancel_reason is None
    if record.check is not None or stored is None or ON_TRANSITION not in stored.record.hooks:
        return
    if (begins or taken_over) and hookcode.missing(world, vertex.role):
        yield _of_hook(world, vertex, record, ON_TRANSITION)


def _of_hook(world: World, vertex: Vertex, record: NodeRole, hook: str) -> Reason:
    text, advice = f"hook {hook} has not run yet", "wait; an annealer that has the code of its role runs it"
    if hookcode.missing(world, vertex.role):
        why, advice = hookcode.lack(world, vertex.role)
        text += f", and {why}"
    return Reason(Code.HOOK_PENDING, vertex.name, record.since, text, advice)


def _of_deployment_role(world: World, vertex: Vertex, record: NodeRole) -> Reason | None:
    if record.state not in (State.PROPOSED, State.BLOCKED, State.TODO) and not record.refresh:
        return None  # it has begun
    why = deploymentroles.holding(world, record.deployment, vertex.role)
    if why is None:
        return None
    text, advice = why
    pending = deploymentroles.CREATE in world.deployment_roles[record.deployment, vertex.role].record.hooks
    if pending and hookcode.missing(world, vertex.role):
        lack, advice = hookcode.lack(world, vertex.role)
        text += f", and {lack}"
    return Reason(Code.HOOK_PENDING if pending else Code.HOOK_REFUSED, record.deployment, 0.0, text, advice)


def _of_suspicion(vertex: Vertex) -> Iterator[Reason]:
    """A noderole that may begin, on a node that an annealer does not reach: that annealer and others may leave it alone."""
    node, view = vertex.node.record, vertex.node
    waits = vertex.record.state in (State.TODO, State.TRANSITION) and view.claim is None
    if node is not None and node.suspicion is not None and waits:
        text = f"node {view.name}: {marks.suspected(node)}"
        advice = (
            f"check the machine and the network to it; where it is off for long: nodepool-ocb node dead {view.name}"
        )
        yield Reason(Code.NODE_SUSPECTED, view.name, node.suspicion.since, text, advice)


def _of_annealers(world: World, vertex: Vertex) -> Iterator[Reason]:
    """A noderole that may be claimed, if no annealer claims anything."""
    stored, node, claim = world.roles.get(vertex.role), vertex.node.record, vertex.node.claim
    running = vertex.record.state is State.TRANSITION and claim is not None and not _ghost(vertex)
    settled = claimable(vertex.record) or (vertex.record.state is State.BLOCKED and not vertex.waiting)
    if stored is None or not settled or running:
        return
    for each in unable(world, _jig(vertex, stored.record), not (node is not None and node.virtual)):
        code = Code.PAUSED if each.paused else Code.NO_ANNEALER
        yield Reason(code, each.identity, 0.0, each.text, each.advice)


def _jig(vertex: Vertex, role: Role) -> str:
    """The jig that is needed: of a run that is under way, the one that it was ordered with."""
    under_way = ordered_with(vertex) if vertex.record.state is State.TRANSITION else None
    return under_way or role.jig
