"""``noderole explain``: the reasons that a noderole does not run."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Final, TypeAlias

from nodepool_ocb.engine import powering, unreadable
from nodepool_ocb.engine.world import Vertex, World
from nodepool_ocb.errors import Invalid
from nodepool_ocb.model.executions import Key
from nodepool_ocb.model.records import State
from nodepool_ocb.operations import selection
from nodepool_ocb.operations.commits import outdated
from nodepool_ocb.operations.names import noderole_of
from nodepool_ocb.operations.operation import Near, Note, Operation, Right, Situation, Steps, near_noderoles
from nodepool_ocb.operations.reads.networks import ReadRegistrations
from nodepool_ocb.operations.reads.noderoles import ReadRuns, ReadSkippedTasks, ReadSpoiled
from nodepool_ocb.operations.reads.rollouts import ReadNewestRollout, ReadRollout
from nodepool_ocb.operations.reads.world import ReadWorld
from nodepool_ocb.rollout.records import Rollout
from nodepool_ocb.tasks.runs import naming
from nodepool_ocb.views import explanation as explaining
from nodepool_ocb.views.explanation import ExplanationDocument, FailedRun, RolloutPointer, SkippedDocument
from nodepool_ocb.views.provisioning import databases, sightings

MOST_OBSERVATIONS: Final = 5
ExplainedNoderole: TypeAlias = tuple[ExplanationDocument | SkippedDocument, str]


class NoderoleExplain(Operation[list[ExplainedNoderole]], frozen=True, kw_only=True):
    """Each explanation as a document and as words."""

    noun = "noderole"
    verb = "explain"
    right = Right.VIEWER
    reads = (
        *(
            ReadWorld,
            selection.ResolveNoderoles,
            ReadSkippedTasks,
            ReadSpoiled,
            ReadNewestRollout,
            ReadRollout,
            ReadRuns,
            ReadRegistrations,
        ),
        *outdated.READS,
    )

    noderoles: tuple[str, ...] = ()  # ROLE@FQDN; one that stands alone may be a task that a run of tasks skipped
    selector: str | None = None

    @property
    def near(self) -> Near | None:
        return near_noderoles(self.noderoles, self.selector)

    def decide(self, situation: Situation) -> Steps[list[ExplainedNoderole]]:
        world = yield from ReadWorld()
        if self.selector is None and len(self.noderoles) == 1:
            names = list(self.noderoles)
        else:
            chosen = yield from selection.noderoles(world, self.noderoles, self.selector)
            names = [vertex.name for vertex in chosen]
        found = []
        for name in names:
            one = yield from _explained(world, name, situation.now)
            found.append(one)
        return found


def _explained(world: World, name: str, now: float) -> Steps[ExplainedNoderole]:
    """Raises NotFound."""
    skipped = yield from _skipped(world, name)
    if skipped is not None:
        return skipped, explaining.skipped_words(skipped)
    vertex = noderole_of(world, name)
    if vertex.record.state is not State.ACTIVE or vertex.record.refresh:
        wanted = sorted({path for each in unreadable.seen_by(vertex) for path in unreadable.blobs(each)})
        spoiled = yield from ReadSpoiled(tuple(wanted))
        world.spoiled |= spoiled
    rollouts = yield from _rollouts(world.line(vertex.record.deployment))
    explanation = explaining.explain(world, vertex, now, rollouts)
    failed = explanation.failed
    run: FailedRun | None = None
    if failed:
        recorded = yield from ReadRuns(failed.role, failed.node.name)
        run = FailedRun(recorded[-1][0], failed.name, recorded[-1][1]) if recorded else None
    found = yield from outdated.find(world, [vertex])
    changed = yield from outdated.rows(world, found)
    observations = yield from _observations(world, vertex, now)
    shown = explaining.document(explanation, run, next(iter(changed), None), observations)
    return shown, explaining.words(shown, now)


def _observations(world: World, vertex: Vertex, now: float) -> Steps[list[str]]:
    """Sentences about its documents, its machine that must be off, and machines that look like the one that is installed."""
    seen = list(databases.sentences(world, vertex, now))
    if (waits := powering.off_sentence(vertex.node, now)) is not None:
        seen.append(f"{vertex.node.name}: {waits}")
    if sightings.wanted(vertex.node):
        found = yield from ReadRegistrations()
        seen += itertools.islice(sightings.sentences(vertex.node, found, now), MOST_OBSERVATIONS)
    return seen


def _skipped(world: World, name: str) -> Steps[SkippedDocument | None]:
    """The reason that the newest run of tasks skips it; None if it does not, or has no such task."""
    role, _, fqdn = name.partition("@")
    view = world.nodes.get(fqdn)
    deployment = view.record.deployment if view is not None and view.record is not None else ""
    stored = world.task_runs.get(deployment)
    newest = stored.record.newest if stored is not None else None
    vertex = world.vertex(name)
    if newest is None or (vertex is not None and vertex.record.task_run in (None, newest)):
        return None
    table = yield from ReadSkippedTasks(deployment, newest)
    for task, node, why in table:
        if node == fqdn and naming.role(deployment, task) == role:
            return SkippedDocument(name, f"{deployment}/{newest}", why, vertex.record.state if vertex else None)
    return None


def _rollouts(deployments: Iterable[str]) -> Steps[RolloutPointer]:
    """The newest rollout of each deployment that has one; a note for one that cannot be read."""
    found: dict[str, tuple[str, Rollout]] = {}
    for deployment in deployments:
        try:
            newest = yield from ReadNewestRollout(deployment)
            rollout = None if newest is None else (yield from ReadRollout(deployment, newest))
        except Invalid as wrong:
            yield Note(f"warning: a rollout is left out: {wrong}")
            continue
        if newest is not None and rollout is not None:
            found[deployment] = str(Key(deployment, newest)), rollout
    return found
