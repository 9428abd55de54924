"""Why a noderole is in its state, followed up the graph to the noderoles that cause it. Pure.

The reasons of one noderole are those by which an annealer decides (engine/readiness.py). A noderole that is BLOCKED
waits for parents that may wait themselves: its *causes* are the noderoles at the upper end, the failed ones first. One
that is PROPOSED may wait for its turn in a rollout (rollout.blockers).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec
from msgspec.structs import replace

from nodepool_ocb.documents.counting import counted
from nodepool_ocb.engine.noderole import satisfied
from nodepool_ocb.engine.readiness import Code, Reason, why_not
from nodepool_ocb.engine.world import Vertex, World
from nodepool_ocb.model import secrecy
from nodepool_ocb.model.records import Node, Run, State
from nodepool_ocb.rollout import blockers
from nodepool_ocb.rollout.blockers import WaitKind
from nodepool_ocb.rollout.observer import Observer
from nodepool_ocb.rollout.records import Rollout
from nodepool_ocb.views.noderoles import OutdatedRow, difference, ended
from nodepool_ocb.views.rollouts import lines as rolloutlines
from nodepool_ocb.views.times import age
from nodepool_ocb.views.view import View

ASIDE: Final = frozenset({Code.NODE_HELD, Code.PAUSED})
#: They hold everything on the node, and its parents there too.
OF_NODE: Final = frozenset({Code.NODE_NOT_ALIVE, Code.NODE_NOT_AVAILABLE, Code.NODE_DELETING})
TAIL_LINES: Final = 15  # of a failed run

#: deployment → the name of its newest rollout, and that
RolloutPointer = Mapping[str, tuple[str, Rollout]]

#: The advice for each kind of wait; with the name of the rollout, and the command lines that let it continue.
ADVICE: Final[Mapping[WaitKind, str]] = {
    WaitKind.WAITING: "wait, or see: nodepool-ocb rollout show {rollout}",
    WaitKind.PAUSED: "{promote}",
    WaitKind.LOST: "mend the cause; once the rollout is over: {retry}",
    WaitKind.LEFT_OUT: "nodepool-ocb rollout show {rollout}; then resume or retry it, or begin another",
}


class Cause(msgspec.Struct, frozen=True):
    """A noderole that others wait for, and that waits for none itself."""

    vertex: Vertex
    chain: tuple[Vertex, ...]  # from the noderole that was asked about up to this one, both included
    reasons: tuple[Reason, ...]  # why it does not run


class Explanation(msgspec.Struct, frozen=True):
    """All about one noderole; ``failed`` is the one to look at first: itself, or an ancestor in ERROR."""

    vertex: Vertex
    reasons: tuple[Reason, ...]
    causes: tuple[Cause, ...]

    @property
    def failed(self) -> Vertex | None:
        among = [self.vertex, *(cause.vertex for cause in self.causes)]
        return next((vertex for vertex in among if vertex.record.state is State.ERROR), None)


class CauseRow(View, frozen=True, kw_only=True):
    """A cause, as it is shown."""

    noderole: str
    state: State
    chain: tuple[str, ...]
    reasons: tuple[Reason, ...]


class FailedRun(View, frozen=True):
    """The newest run of the noderole to look at first."""

    run: str
    noderole: str
    record: Run


class ExplanationDocument(View, frozen=True, kw_only=True, tag="explanation"):
    """An explanation, as it is shown."""

    noderole: str
    state: State
    since: float
    reasons: tuple[Reason, ...]
    causes: tuple[CauseRow, ...]
    failed_run: FailedRun | None
    outdated: OutdatedRow | None = None  # the inputs that changed since its newest run
    machine: str | None = None  # the MACs of its node, and the node's addresses in networks
    observations: tuple[
        str, ...
    ] = ()  # of machines that look like that of its node, or of the documents that it publishes


class SkippedDocument(View, frozen=True, tag="skipped"):
    """A task that the newest run of tasks does not do."""

    noderole: str
    run: str  # DEPLOYMENT/ID
    reason: str
    state: State | None  # as an earlier run left it
    code: str = "SKIPPED"


def skipped_words(skipped: SkippedDocument) -> str:
    """The skipped task as a sentence."""
    left = f"; an earlier run left it {skipped.state}" if skipped.state else ""
    return f"{skipped.noderole} is SKIPPED by tasks run {skipped.run}: {skipped.reason}{left}"


def holding(world: World, vertex: Vertex, now: float) -> list[Reason]:
    """As why_not; and of a noderole that may start at any moment, how the newest attempt at it ended, if there was one."""
    return why_not(world, vertex, now) or [*_of_attempt(vertex)]


def _of_attempt(vertex: Vertex) -> Iterator[Reason]:
    """Why it was given back by the annealer that had it; another may take it at any moment, and may end likewise."""
    record, name = vertex.record, vertex.name
    if record.state in (State.TODO, State.TRANSITION) and record.reason and vertex.node.claim is None:
        text = f"it may start at any moment; the newest attempt ended with: {record.reason}"
        advice = "mend that; the next attempt comes by itself"
        if secrecy.blamed(record.reason):
            advice += f"; the secret is set anew by: nodepool-ocb noderole set {name} PATH=-"
        yield Reason(Code.GIVEN_BACK, name, record.since, text, advice)


def explain(world: World, vertex: Vertex, now: float, rollouts: RolloutPointer | None = None) -> Explanation:
    """Every reason in order: holds and pauses, failed parents, failed ancestors, the node, then the rest."""

    def why(each: Vertex) -> tuple[Reason, ...]:
        turns = tuple(_of_rollouts(world, each, rollouts or {}))
        return (*turns, *(_out_of_turn(reason) if turns else reason for reason in holding(world, each, now)))

    chains = _chains(vertex)
    own = why(vertex)
    named = {reason.subject for reason in own}
    causes = [Cause(each, chain, why(each)) for each, chain in chains.items()]
    far = [_ancestor_failed(cause) for cause in causes if _failed(cause) and cause.vertex.name not in named]
    first = [reason for reason in own if reason.code in ASIDE]
    near = [reason for reason in own if reason.code is Code.PARENT_ERROR]
    of_node = [reason for reason in own if reason.code in OF_NODE]
    rest = [reason for reason in own if reason not in (*first, *near, *of_node)]
    return Explanation(vertex, (*first, *near, *far, *of_node, *rest), tuple(causes))


def _of_rollouts(world: World, vertex: Vertex, rollouts: RolloutPointer) -> Iterator[Reason]:
    """The turn that a noderole waits for: none, unless it is PROPOSED, and in a phase that its node has not passed."""
    if vertex.record.state is not State.PROPOSED:
        return
    for deployment in world.line(vertex.record.deployment):
        name, rollout = rollouts.get(deployment, ("", None))
        found = blockers.wait(rollout, vertex.node.name) if rollout is not None else None
        if rollout is None or found is None:
            continue
        observer, passed = Observer(world, deployment, rollout), rollout.nodes[vertex.node.name].passed
        left = range(passed, len(rollout.head.strategy.phases))
        if any(vertex in observer.noderoles(vertex.node.name, phase) for phase in left):
            code = Code.ROLLOUT_WAITING if found.kind in (WaitKind.WAITING, WaitKind.PAUSED) else Code.ROLLOUT_LEFT_OUT
            lines = {
                "promote": rolloutlines.promote(name, rollout, found.group),
                "retry": rolloutlines.retry(name, rollout),
            }
            advice = ADVICE[found.kind].format(rollout=name, **lines)
            yield Reason(code, f"{name} {found.group}", found.since, f"rollout {name}: {found.text}", advice)


def _out_of_turn(reason: Reason) -> Reason:
    """The advice to leave the noderole to the rollout. A commit by hand would run it before its turn."""
    if reason.code is not Code.PROPOSED:
        return reason
    return replace(reason, advice=f"leave it to the rollout; or, out of its turn: {reason.advice}")


def _failed(cause: Cause) -> bool:
    return cause.vertex.record.state is State.ERROR


def _ancestor_failed(cause: Cause) -> Reason:
    vertex, levels = cause.vertex, len(cause.chain) - 1
    text = (
        f"{vertex.name}, {counted(levels, 'level')} above, failed: {vertex.record.reason or 'no reason was recorded'}"
    )
    advice = f"mend the cause, then: nodepool-ocb noderole retry {vertex.name}"
    return Reason(Code.PARENT_ERROR, vertex.name, vertex.record.since, text, advice)


def _chains(vertex: Vertex) -> dict[Vertex, tuple[Vertex, ...]]:
    """The causes, each with a shortest chain to it: failed ones first, then the nearest, then by name."""
    if vertex.record.state is not State.BLOCKED:
        return {}
    found: dict[Vertex, tuple[Vertex, ...]] = {}
    chains: dict[Vertex, tuple[Vertex, ...]] = {vertex: (vertex,)}
    queue = [vertex]
    for each in queue:  # grows while it is walked
        for parent in sorted(each.parents, key=lambda above: above.name):
            if parent in chains or satisfied(parent.record):
                continue
            chains[parent] = (*chains[each], parent)
            if parent.record.state is State.BLOCKED:
                queue.append(parent)
            else:
                found[parent] = chains[parent]
    order = sorted(found, key=lambda v: (v.record.state is not State.ERROR, len(found[v]), v.name))
    return {each: found[each] for each in order}


# -- as it is shown --


def document(
    explanation: Explanation,
    run: FailedRun | None,
    outdated: OutdatedRow | None = None,
    observations: Iterable[str] = (),
) -> ExplanationDocument:
    """All of it as names and reasons."""
    vertex = explanation.vertex
    causes = (
        CauseRow(
            noderole=cause.vertex.name,
            state=cause.vertex.record.state,
            chain=tuple(each.name for each in cause.chain),
            reasons=cause.reasons,
        )
        for cause in explanation.causes
    )
    return ExplanationDocument(
        noderole=vertex.name,
        state=vertex.record.state,
        since=vertex.record.since,
        reasons=tuple(_outdone(reason, outdated) for reason in explanation.reasons),
        causes=tuple(causes),
        failed_run=run,
        outdated=outdated,
        machine=_machine(vertex.node.record),
        observations=tuple(observations),
    )


def _machine(node: Node | None) -> str | None:
    """The allocated addresses and the MACs, by which people find the machine in switches and servers of DHCP."""
    if node is None or not (node.macs or node.networks):
        return None
    macs = [f"MAC {mac}" for mac in node.macs]
    return ", ".join([*macs, *(f"{each} of network {name}" for name, all_ in node.networks.items() for each in all_)])


def _outdone(reason: Reason, outdated: OutdatedRow | None) -> Reason:
    """If the noderole is done and outdated, the advice is the command that runs it again."""
    done = reason.code in (Code.DONE, Code.DESTRUCTIVE_DONE)
    return replace(reason, advice=outdated.advice) if done and outdated is not None else reason


def words(document: ExplanationDocument, now: float) -> str:
    """The explanation as text for people. A cause does not repeat the reasons that stand above it."""
    lines = [f"{document.noderole} is {document.state}{_since(document.since, now)}"]
    for number, reason in enumerate(document.reasons, 1):
        lines += [f"{number}. {reason.code}: {reason.text}{_since(reason.since, now)}", f"   -> {reason.advice}"]
    if document.machine:
        lines.append(f"its machine: {document.machine}")
    lines += [f"seen: {each}" for each in document.observations]
    if not document.reasons:
        lines.append("nothing holds it back: an annealer may start it at any moment")
    if document.outdated:
        lines.append("it is outdated: its inputs changed since its newest run")
        lines += [f"   {difference(each)}" for each in document.outdated.differences]
    lines += _words_of_causes(document)
    if document.failed_run:
        lines += _words_of_run(document.failed_run, now)
    return "\n".join(lines)


def _words_of_causes(document: ExplanationDocument) -> Iterator[str]:
    shown = {(reason.code, reason.subject) for reason in document.reasons}
    shown |= {(Code.FAILED, reason.subject) for reason in document.reasons if reason.code is Code.PARENT_ERROR}
    for cause in document.causes:
        yield f"waits for: {' ← '.join(cause.chain)} ({cause.state})"
        fresh = [reason for reason in cause.reasons if (reason.code, reason.subject) not in shown]
        yield from (f"   {reason.code}: {reason.text}\n   -> {reason.advice}" for reason in fresh)
        shown |= {(reason.code, reason.subject) for reason in fresh}


def _words_of_run(run: FailedRun, now: float) -> Iterator[str]:
    record = run.record
    why = f": {record.reason}" if record.reason else ""
    yield f"the newest run of {run.noderole}: {ended(record)}{_since(record.ended, now)}{why}"
    yield from (f"   | {line}" for line in (record.tail or "").splitlines()[-TAIL_LINES:])
    if record.log:
        yield f"   whole output: {record.log}"


def _since(since: float, now: float) -> str:
    return f" (since {age(now - since)})" if since else ""
