"""The whole cluster at a glance: the number of records of each kind, failures, movements, workers."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from nodepool_ocb.engine import installing, maintenance, marks
from nodepool_ocb.engine.acting.overdue import all_overdue
from nodepool_ocb.engine.deployments import SYSTEM
from nodepool_ocb.engine.hooks import code as hookcode
from nodepool_ocb.engine.hooks.code import MissingHook
from nodepool_ocb.engine.world import Vertex, World
from nodepool_ocb.images import builders, rules
from nodepool_ocb.images.builders import Builders
from nodepool_ocb.images.rules import ImageView
from nodepool_ocb.model.images import BuildState, UploadState
from nodepool_ocb.model.journal import Webhook, WebhookFailure
from nodepool_ocb.model.maintenance import Maintenance
from nodepool_ocb.model.pool import PoolNodeState, RequestState
from nodepool_ocb.model.records import Daemon, DaemonPause, State
from nodepool_ocb.pool.views import PoolView
from nodepool_ocb.provisioning.servers import listening
from nodepool_ocb.rollout.records import OVER, RolloutState
from nodepool_ocb.tasks.runs.records import OVER as OVER_RUNS
from nodepool_ocb.tasks.runs.records import TaskRunState
from nodepool_ocb.views import daemons, deployments, images, locks, noderoles, nodes
from nodepool_ocb.views.daemons import DaemonRow
from nodepool_ocb.views.deployments import DeploymentRow
from nodepool_ocb.views.drift.found import DriftIn, by_deployment
from nodepool_ocb.views.images import UploadRow
from nodepool_ocb.views.locks import ClaimRow
from nodepool_ocb.views.noderoles import OutdatedIn
from nodepool_ocb.views.pools import GONE, pool_rows
from nodepool_ocb.views.rollouts.rows import RolloutRow
from nodepool_ocb.views.tasks.runs import TaskRunRow
from nodepool_ocb.views.view import View

UNTRIED_SECONDS: Final = 1800.0  # several of the longest pauses between two attempts

NO_POOLS: Final = PoolView()

Images: TypeAlias = Mapping[str, ImageView]


class SetAside(View, frozen=True, kw_only=True):
    """A hold or a pause: nothing new begins there."""

    what: str  # a node, a deployment, everything, or the daemons of a host
    by: str
    since: float
    until: float | None
    reason: str | None
    advice: str  # the command that lifts it


class FailedNoderole(View, frozen=True):
    """A noderole in ERROR."""

    noderole: str
    since: float
    reason: str | None


class Idle(View, frozen=True):
    """A node on which nothing can be done now."""

    name: str
    since: float
    reason: str | None


class Nodes(View, frozen=True, kw_only=True):
    """The number of nodes, and the nodes on which nothing can be done."""

    all: int
    not_alive: tuple[Idle, ...]
    not_available: tuple[Idle, ...]
    suspected: tuple[Idle, ...] = ()  # alive, and an annealer does not reach them


class RolloutTotals(View, frozen=True, kw_only=True):
    """The number of rollouts. Also the newest one of each deployment, if it failed, was cancelled, or is under way."""

    all: int
    failed: tuple[RolloutRow, ...]
    cancelled: tuple[RolloutRow, ...]
    under_way: tuple[RolloutRow, ...]


class TaskRunTotals(View, frozen=True, kw_only=True):
    """The number of runs of tasks. Also the newest one of each deployment, if it failed, was stopped, or is under way."""

    all: int
    failed: tuple[TaskRunRow, ...]
    stopped: tuple[TaskRunRow, ...]
    under_way: tuple[TaskRunRow, ...]


class Failing(View, frozen=True):
    """An image of which the newest builds failed."""

    image: str
    failures: int
    build: str  # the newest
    since: float
    reason: str | None


class FailedUpload(View, frozen=True):
    """An upload that failed."""

    image: str
    build: str
    provider: str
    upload: str
    since: float
    reason: str | None


class BuildAt(View, frozen=True):
    """A build, and the builder that makes it or made it."""

    image: str
    build: str
    builder: str
    since: float


class Differing(View, frozen=True):
    """An image that builders are configured to make differently."""

    image: str
    builders: str


class UnbuildableImage(View, frozen=True):
    """An image that no running builder can build."""

    image: str
    reason: str


class OfImages(View, frozen=True, kw_only=True):
    """The numbers of images, builds and uploads, and those that fail or move."""

    all: int
    builds: Mapping[BuildState, int]
    uploads: Mapping[UploadState, int]
    failing: tuple[Failing, ...]
    failed_uploads: tuple[FailedUpload, ...]
    building: tuple[BuildAt, ...]
    stranded: tuple[UploadRow, ...]  # at providers that no running builder reaches
    bereft: tuple[BuildAt, ...]  # the newest ready build is with a builder that is not there
    differing: tuple[Differing, ...]
    unbuildable: tuple[UnbuildableImage, ...]


class OfPools(View, frozen=True, kw_only=True):
    """The number of pools, and of their nodes and requests in each state."""

    all: int
    served: int  # by a running launcher, of ours or of Nodepool's
    nodes: Mapping[PoolNodeState, int]
    requests: Mapping[RequestState, int]


class Quarantined(View, frozen=True):
    """A record that cannot be read."""

    path: str
    reason: str


class StrangerRow(View, frozen=True, kw_only=True):
    """A server of DHCP that is not ours."""

    server: str
    network: str
    offered: str
    heard_by: str
    since: float  # when it was heard last
    advice: str


class Overview(View, frozen=True, kw_only=True):
    """Everything."""

    cluster: str | None
    aside: tuple[SetAside, ...]
    noderoles: Mapping[State, int]
    errors: tuple[FailedNoderole, ...]
    outdated: tuple[OutdatedIn, ...]
    drift: tuple[DriftIn, ...]
    strangers: tuple[StrangerRow, ...]
    nodes: Nodes
    rollouts: RolloutTotals
    task_runs: TaskRunTotals
    images: OfImages
    pools: OfPools
    hooks_without_code: tuple[MissingHook, ...]
    deployments: tuple[DeploymentRow, ...]
    daemons: tuple[DaemonRow, ...]
    claims: tuple[ClaimRow, ...]
    overdue: tuple[FailedNoderole, ...]  # held longer than their run can last
    webhook: WebhookFailure | None  # where its receiver has taken nothing for a while
    quarantined: tuple[Quarantined, ...]
    unlooked: int  # noderoles of a large cluster with attributes and runs that were not read


def overview(
    world: World,
    images: Images,
    rollouts: Sequence[RolloutRow],
    running: Builders,
    quarantined: Mapping[str, str],
    outdated: Sequence[Vertex] = (),
    task_runs: Sequence[TaskRunRow] = (),
    pauses: Mapping[tuple[str, str], DaemonPause] = {},
    webhook: Webhook | None = None,
    unlooked: int = 0,
    *,
    launchers: Mapping[str, Daemon] = {},
    pool: PoolView = NO_POOLS,
    now: float,
) -> Overview:
    """``running`` are the builders; ``quarantined`` has the reason for each unreadable path. ``pauses`` are those of
    daemons, by kind and host.
    """
    counts: Counter[State] = Counter()
    for vertex in world.counted():
        counts[vertex.record.state] += vertex.node.stands_for
    failed = sorted((v for v in world.counted() if v.record.state is State.ERROR), key=lambda each: each.name)
    return Overview(
        cluster=world.cluster.record.id if world.cluster else None,
        aside=tuple(_aside(world, pauses, now)),
        noderoles={state: counts[state] for state in nodes.WORST},
        errors=tuple(FailedNoderole(v.name, v.record.since, v.record.reason) for v in failed),
        outdated=tuple(noderoles.outdated_in(outdated)),
        drift=tuple(by_deployment(world)),
        strangers=tuple(_strangers(world)),
        nodes=_of_nodes(world, now),
        rollouts=_of_rollouts(rollouts),
        task_runs=_of_task_runs(task_runs),
        images=_of_images(images, running),
        pools=_of_pools(pool),
        hooks_without_code=tuple(hookcode.all_missing(world)),
        deployments=tuple(deployments.rows(world, now)),
        daemons=tuple(daemons.rows({**world.daemons, "builder": running, "launcher": launchers})),
        claims=tuple(locks.claims(world)),
        overdue=tuple(FailedNoderole(each.subject, each.since, each.text) for each in all_overdue(world, now)),
        webhook=_failing_webhook(webhook, now),
        quarantined=tuple(Quarantined(path, reason) for path, reason in sorted(quarantined.items())),
        unlooked=unlooked,
    )


def _strangers(world: World) -> Iterator[StrangerRow]:
    for each in listening.strangers(world):
        yield StrangerRow(
            server=each.server,
            network=each.network,
            offered=each.offered,
            heard_by=f"{each.interface} of {each.heard_by}",
            since=each.at,
            advice="switch it off, or block it at the switch"
            + ("; there were more than are listed" if each.more else ""),
        )


def _failing_webhook(webhook: Webhook | None, now: float) -> WebhookFailure | None:
    """The failure of the webhook. None if no delivery was tried for UNTRIED_SECONDS: the webhook was probably removed."""
    failing = webhook.failing if webhook is not None else None
    return failing if failing is not None and now - failing.at < UNTRIED_SECONDS else None


def _aside(world: World, pauses: Mapping[tuple[str, str], DaemonPause], now: float) -> Iterator[SetAside]:
    """Everything first, then deployments, daemons and nodes."""
    for name in sorted(world.paused, key=lambda each: (each != SYSTEM, each)):
        if maintenance.holds(pause := world.paused[name], now):
            yield _set_aside(maintenance.deployment(name), pause, maintenance.resuming(name))
    for key, record in pauses.items():
        if maintenance.holds(record.pause, now):
            yield _set_aside(maintenance.daemons(*key), record.pause, maintenance.resuming_daemons(*key))
    for name, view in sorted(world.nodes.items()):
        if view.record is not None and maintenance.holds(hold := view.record.hold, now):
            yield _set_aside(f"node {name}", hold, maintenance.releasing(name))


def _set_aside(what: str, found: Maintenance, advice: str) -> SetAside:
    return SetAside(what=what, by=found.by, since=found.since, until=found.until, reason=found.reason, advice=advice)


def _suspected(world: World) -> Iterator[Idle]:
    for name, view in sorted(world.nodes.items()):
        if view.record is not None and view.record.suspicion is not None:
            yield Idle(name, view.record.suspicion.since, marks.suspected(view.record))


def _kept_out(node: str) -> str:
    return f"annealers may not work on it; to let them: nodepool-ocb node available {node}"


def _of_nodes(world: World, now: float) -> Nodes:
    rows = nodes.rows(world, now=now, counts=defaultdict(Counter))  # the noderoles of a row are not shown
    return Nodes(
        all=len(rows),
        not_alive=tuple(
            Idle(row.name, row.since, row.reason)
            for row in rows
            if not row.alive and not installing.resting(world.nodes[row.name])
        ),
        not_available=tuple(Idle(row.name, row.since, _kept_out(row.name)) for row in rows if not row.available),
        suspected=tuple(_suspected(world)),
    )


def _of_rollouts(rows: Sequence[RolloutRow]) -> RolloutTotals:
    newest: dict[str, RolloutRow] = {}
    for row in rows:
        newest.setdefault(row.deployment, row)
    return RolloutTotals(
        all=len(rows),
        failed=tuple(row for row in newest.values() if row.state is RolloutState.FAILED),
        cancelled=tuple(row for row in newest.values() if row.state is RolloutState.CANCELLED),
        under_way=tuple(row for row in newest.values() if row.state not in OVER),
    )


def _of_task_runs(rows: Sequence[TaskRunRow]) -> TaskRunTotals:
    newest: dict[str, TaskRunRow] = {}
    for row in rows:
        newest.setdefault(row.run.partition("/")[0], row)
    return TaskRunTotals(
        all=len(rows),
        failed=tuple(row for row in newest.values() if row.state == TaskRunState.FAILED),
        stopped=tuple(row for row in newest.values() if row.state == TaskRunState.STOPPED),
        under_way=tuple(row for row in newest.values() if row.state not in OVER_RUNS),
    )


def _of_images(known: Images, running: Builders) -> OfImages:
    rows = [images.build_row(view, build) for view in known.values() for build in view.builds]
    uploads = images.uploads_of(rows)
    return OfImages(
        all=len(known),
        builds=Counter(row.state for row in rows),
        uploads=Counter(upload.state for upload in uploads),
        failing=tuple(_failing(known)),
        failed_uploads=tuple(
            FailedUpload(each.image, each.build, each.provider, each.upload, each.since, each.reason)
            for each in uploads
            if each.state is UploadState.FAILED
        ),
        building=tuple(_building(known)),
        stranded=tuple(images.upload_row(each.image, each.upload) for each in builders.stranded(known, running)),
        bereft=tuple(_bereft(known, running)),
        differing=tuple(Differing(each.image, each.sentence) for each in builders.differences(running)),
        unbuildable=tuple(UnbuildableImage(each.image, each.reason) for each in builders.unbuildable(known, running)),
    )


def _of_pools(pool: PoolView) -> OfPools:
    rows = pool_rows(pool)
    return OfPools(
        all=len(rows),
        served=sum(row.state != GONE for row in rows),
        nodes=Counter(node.record.state for node in pool.nodes.values()),
        requests=Counter(request.record.state for request in pool.requests.values()),
    )


def _failing(known: Images) -> Iterator[Failing]:
    for name, view in sorted(known.items()):
        failed = rules.failures(view)
        if failed:
            newest = failed[-1]
            yield Failing(name, len(failed), newest.id, newest.record.state_time, newest.record.reason)


def _building(known: Images) -> Iterator[BuildAt]:
    for view in known.values():
        for build in view.builds:
            if images.stands(view, build) is BuildState.BUILDING:
                yield BuildAt(view.name, build.id, build.record.builder, build.record.started)


def _bereft(known: Images, running: Builders) -> Iterator[BuildAt]:
    for each in builders.bereft(known, running):
        record = each.build.record
        yield BuildAt(each.image, each.build.id, record.builder, record.state_time)
