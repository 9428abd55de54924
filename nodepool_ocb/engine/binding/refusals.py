"""Refusals of a bind: abstract roles, roles without a jig, roles that conflict or stand in for each other, circles.

Each function raises Conflict, with the next step. Pure. Sources: seed 000, "How the noderole graph is built"; seed 001.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from nodepool_ocb.documents.cycles import components
from nodepool_ocb.engine.acting import extensions
from nodepool_ocb.engine.binding.parents import BindDraft
from nodepool_ocb.errors import Conflict
from nodepool_ocb.model import limits, paths

TASK: Final = "task"  # the flag of a role that a run of a task list made; only runs bind it

#: The jigs that touch no machine: a virtual node can have these.
MACHINELESS: Final = frozenset({"noop", "test", "role-provided"})
#: A claim checks every parent that is named by itself, in one transaction with some ten other changes.
MOST_PARENTS: Final = limits.MOST_CHANGES - 30


def refuse_role(draft: BindDraft, role: str, because: str | None, jigs: Collection[str] | None) -> None:
    """Raises Conflict if the role may not be bound to the node; ``jigs`` are the active ones (None: do not ask)."""
    definition = draft.role(role, because)
    wanted_by = f" (required by {because})" if because else ""
    if TASK in definition.flags:
        raise Conflict(f"role {role}{wanted_by} is a task of a task list; nodepool-ocb tasks run binds it to its nodes")
    if "abstract" in definition.flags:
        able = sorted(name for name, each in draft.world.roles.items() if role in each.record.provides)
        hint = f"bind one that provides it first: {', '.join(able)}" if able else "no imported role provides it"
        raise Conflict(f"role {role} is abstract{wanted_by} and cannot be bound; {hint}")
    if jigs is not None and definition.jig not in jigs:
        advice = "install the package that brings it on the host of an annealer, and restart that annealer"
        if left_out := extensions.left_out(draft.world, "jig", definition.jig):
            advice = f"{left_out}; mend the package of the jig, then restart the annealer"
        raise Conflict(f"role {role}{wanted_by} needs jig {definition.jig}, which no annealer has; {advice}")
    assert draft.view.record is not None, "a node that is bound to exists, or is about to"
    if draft.view.record.virtual and definition.jig not in MACHINELESS:
        raise Conflict(
            f"role {role}{wanted_by} acts on a machine with jig {definition.jig}, and {draft.view.name} is virtual;"
            " bind it to a node that has an address"
        )
    for other in (*draft.view.noderoles, *draft.parents):
        fault = _beside(draft, role, other)
        if fault is not None:
            where, advice = _where(draft, other), _advice(draft, role, because, other)
            raise Conflict(f"role {role}{wanted_by} {fault.format(other=f'{other}, {where},')}; {advice}")
    shared = draft.world.deployment_roles.get((draft.deployment, role))
    if shared is not None and shared.record.deleting:
        raise Conflict(
            f"role {role}{wanted_by} is leaving deployment {draft.deployment}, and cannot be bound there; wait until it"
            f" has left, or: nodepool-ocb deployment unset {draft.deployment} {role} --force"
        )


def _beside(draft: BindDraft, role: str, other: str) -> str | None:
    """Why two roles cannot share a node: they conflict, one provides the other, or both provide a third (seed 001)."""
    own, stored = draft.role(role), draft.world.roles.get(other)
    conflicts, provides = (stored.record.conflicts, stored.record.provides) if stored else ((), ())
    if other in own.conflicts or role in conflicts:
        return "conflicts with {other} and cannot share the node with it"
    if other in own.provides or role in provides:
        return "and {other} stand in for each other; one of them is enough"
    alike = sorted(set(own.provides).intersection(provides))
    return f"and {{other}} both stand in for {alike[0]}; one of them is enough" if alike else None


def _where(draft: BindDraft, other: str) -> str:
    if other not in draft.parents:
        return f"which is bound on {draft.view.name}"
    because = draft.because[other]
    return "which the same bind brings" + (f" (required by {because})" if because else "")


def _advice(draft: BindDraft, role: str, because: str | None, other: str) -> str:
    """The next step for two roles that cannot be on one node."""
    if other not in draft.parents:
        return f"unbind it first: nodepool-ocb noderole unbind {draft.name(other)}"
    required = [each for each, by in ((other, draft.because[other]), (role, because)) if by is not None]
    apart = [each for each in required if not draft.flagged(each, "implicit")]
    if apart:
        return (
            f"bind {apart[0]} on another node first, and it is taken from there: nodepool-ocb node bind FQDN {apart[0]}"
        )
    if not required:  # both are bound to new nodes
        return f"take the flag that binds them to new nodes away from {other} or {role}, in their barclamps"
    return "take one of the requirements away in their barclamps"


def refuse_whole(draft: BindDraft) -> None:
    """Refuse a finished draft with a circle, a role above or below its stand-in, or too many parents."""
    _refuse_circles(draft)
    for role, parents in draft.parents.items():
        _refuse_stand_ins_above(draft, role)
        _refuse_stand_ins_below(draft, role)
        if len(parents) > MOST_PARENTS:
            raise Conflict(
                f"{draft.name(role)} would have {len(parents)} parents, and a claim can check {MOST_PARENTS};"
                " put a noop role on a virtual node between them"
            )


def _refuse_circles(draft: BindDraft) -> None:
    """Refuse a new noderole that would be its own ancestor: as a member of a cluster, or by given parents."""
    graph: dict[str, list[str]] = {}
    queue = [draft.name(role) for role in draft.parents]
    while queue:
        name = queue.pop()
        if name not in graph:
            graph[name] = list(draft.above(name))
            queue += graph[name]
    for knot in components(graph):
        if not knot.names.isdisjoint(map(draft.name, draft.parents)):
            raise Conflict(f"noderoles would wait for each other in a circle: {knot}; give another parent")


def _refuse_stand_ins_above(draft: BindDraft, role: str) -> None:
    """Roles in a ``provides`` relation are not above or below each other (seed 001)."""
    seen, queue = set[str](), list(draft.parents[role])
    while queue:
        name = queue.pop()
        if name in seen:
            continue
        seen.add(name)
        queue += draft.above(name)
        if _related(draft, role, paths.split_noderole(name)[0]):
            raise Conflict(
                f"{draft.name(role)} would stand below {name}, and one of them stands in for the other;"
                " bind it where it does not depend on it"
            )


def _refuse_stand_ins_below(draft: BindDraft, role: str) -> None:
    """The same for all noderoles that were bound before and come below a new member of a cluster."""
    if not any(_related(draft, role, other) for other in draft.world.roles):
        return
    seen = set[str]()
    queue = [child for each in draft.serves(role) for child in draft.waiting(each)]
    while queue:
        vertex = queue.pop()
        if vertex.name in seen:
            continue
        seen.add(vertex.name)
        queue += vertex.children
        if _related(draft, role, vertex.role):
            raise Conflict(
                f"{vertex.name} would stand below {draft.name(role)}, and one of them stands in for the other;"
                f" unbind it first: nodepool-ocb noderole unbind {vertex.name}"
            )


def _related(draft: BindDraft, role: str, other: str) -> bool:
    """Whether one of two roles provides the other."""
    stored = draft.world.roles.get(other)
    return other in draft.role(role).provides or (stored is not None and role in stored.record.provides)
