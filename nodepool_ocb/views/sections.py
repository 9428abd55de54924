"""The whole cluster at a glance, for people: tables with titles, errors first, and the advice for each fault."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from nodepool_ocb.documents.counting import counted
from nodepool_ocb.engine.acting.annealers import START
from nodepool_ocb.engine.hooks.code import MissingHook
from nodepool_ocb.model.journal import WebhookFailure
from nodepool_ocb.model.pool import RequestState
from nodepool_ocb.model.records import State
from nodepool_ocb.views import images
from nodepool_ocb.views.pools import NO_LAUNCHER
from nodepool_ocb.views.rollouts.tables import words
from nodepool_ocb.views.status import OfImages, Overview
from nodepool_ocb.views.tasks import runs as taskruns
from nodepool_ocb.views.view import View

WAITING: Final = (RequestState.REQUESTED, RequestState.PENDING)


class Counted(View, frozen=True):
    """The number of noderoles in a state."""

    state: State
    noderoles: int


class Made(View, frozen=True):
    """The number of builds, uploads, requests, or nodes of pools, in each state."""

    of: str
    states: str | None


class TableSection(msgspec.Struct, frozen=True):
    """A table with its title; not shown where it has no rows."""

    title: str
    rows: Sequence[View]
    columns: tuple[str, ...]


def sections(overview: Overview) -> list[TableSection]:
    """The sections that have rows: holds and pauses, failures, movements, workers."""
    every = [_aside(overview), *_failures(overview), *_movements(overview), *_workers(overview)]
    return [section for section in every if section.rows]


def _aside(seen: Overview) -> TableSection:
    return TableSection("SET ASIDE", seen.aside, ("what", "by", "since", "until", "reason", "advice"))


def _failures(seen: Overview) -> Iterator[TableSection]:
    troubled = [row for row in seen.daemons if row.trouble]
    hooks = [MissingRow(each) for each in seen.hooks_without_code]
    lost = ("image", "build", "provider", "state", "external_id")
    yield TableSection("DAEMONS THAT ARE NOT READY", troubled, ("kind", "id", "trouble"))
    left_out = [LeftOutRow(row.kind, row.id, each) for row in seen.daemons for each in row.left_out]
    yield TableSection("EXTENSIONS THAT ARE LEFT OUT", left_out, ("kind", "id", "left_out"))
    yield TableSection("IN ERROR", seen.errors, ("noderole", "since", "reason"))
    yield TableSection(
        "SERVERS OF DHCP THAT ARE NOT OURS",
        seen.strangers,
        ("server", "network", "offered", "heard_by", "since", "advice"),
    )
    drifted = tuple(each for each in seen.drift if each.drifted or each.unknown)
    yield TableSection(
        "DRIFTED", drifted, ("deployment", "drifted", "unmended", "unknown", "unchecked", "in_sync", "advice")
    )
    yield TableSection("OUTDATED", seen.outdated, ("deployment", "noderoles", "destructive", "advice"))
    yield TableSection("ROLLOUTS THAT FAILED", seen.rollouts.failed, ("rollout", "state", "since", "reason"))
    failed = list(map(taskruns.words, seen.task_runs.failed))
    yield TableSection("RUNS OF TASKS THAT FAILED", failed, ("run", "started", "reason"))
    yield TableSection("IMAGES THAT NO BUILDER CAN BUILD", seen.images.unbuildable, ("image", "reason"))
    yield TableSection("IMAGES THAT FAIL", seen.images.failing, ("image", "failures", "build", "since", "reason"))
    yield TableSection(
        "UPLOADS THAT FAILED", seen.images.failed_uploads, ("image", "build", "provider", "since", "reason")
    )
    yield TableSection("UPLOADS AT PROVIDERS THAT NO BUILDER HAS", seen.images.stranded, lost)
    yield TableSection("IMAGES WITHOUT THEIR BUILDER", seen.images.bereft, ("image", "build", "builder", "since"))
    yield TableSection("BUILDERS THAT DIFFER", seen.images.differing, ("image", "builders"))
    webhook = [WebhookRow(seen.webhook)] if seen.webhook is not None else []
    yield TableSection("THE WEBHOOK FAILS", webhook, ("since", "host", "reason"))
    yield TableSection("HOOKS WITHOUT CODE ON ANY ANNEALER", hooks, ("role", "hook", "waiting"))


def _movements(seen: Overview) -> Iterator[TableSection]:
    counts = [Counted(state, count) for state, count in seen.noderoles.items()]
    under_way = list(map(words, seen.rollouts.under_way))
    made = [Made("builds", images.counted(seen.images.builds)), Made("uploads", images.counted(seen.images.uploads))]
    of_rollouts = ("rollout", "state", "since", "started", "by", "driver", "reason")
    idle = ("name", "since", "reason")
    yield TableSection("NODEROLES", counts, ("state", "noderoles"))
    yield TableSection("ROLLOUTS UNDER WAY", under_way, of_rollouts)
    yield TableSection("ROLLOUTS CANCELLED", seen.rollouts.cancelled, ("rollout", "since", "reason"))
    running = list(map(taskruns.words, seen.task_runs.under_way))
    stopped = list(map(taskruns.words, seen.task_runs.stopped))
    yield TableSection(
        "RUNS OF TASKS UNDER WAY", running, ("run", "state", "started", "by", "nodes", "driver", "reason")
    )
    yield TableSection("RUNS OF TASKS STOPPED", stopped, ("run", "started", "reason"))
    yield TableSection("NODES THAT AN ANNEALER DOES NOT REACH", seen.nodes.suspected, idle)
    yield TableSection(f"NODES NOT ALIVE, OF {seen.nodes.all}", seen.nodes.not_alive, idle)
    yield TableSection(f"NODES NOT AVAILABLE, OF {seen.nodes.all}", seen.nodes.not_available, idle)
    yield TableSection(f"IMAGES: {seen.images.all}", [row for row in made if row.states], ("of", "states"))
    pools = [Made("nodes", images.counted(seen.pools.nodes)), Made("requests", images.counted(seen.pools.requests))]
    yield TableSection(f"POOLS: {seen.pools.all}", [row for row in pools if row.states], ("of", "states"))
    yield TableSection("IMAGES BEING BUILT", seen.images.building, ("image", "build", "builder", "since"))


def _workers(seen: Overview) -> Iterator[TableSection]:
    yield TableSection("DEPLOYMENTS", seen.deployments, ("name", "parent", "state", "paused", "noderoles", "since"))
    yield TableSection("DAEMONS", seen.daemons, ("kind", "id", "state", "host", "slots", "started"))
    yield TableSection("HELD LONGER THAN THEIR RUN CAN LAST", seen.overdue, ("noderole", "since", "reason"))
    yield TableSection("AT WORK", seen.claims, ("node", "noderole", "owner", "since"))
    yield TableSection("CANNOT BE READ", seen.quarantined, ("path", "reason"))


class LeftOutRow(View, frozen=True):
    """An extension that a daemon does not use, for a table."""

    kind: str
    id: str
    left_out: str


class MissingRow(View, frozen=True):
    """A hook that waits, for a table."""

    record: MissingHook


class WebhookRow(View, frozen=True):
    """Why nothing is delivered, for a table."""

    record: WebhookFailure


def notes(seen: Overview) -> Iterator[str]:
    """Missing daemons, and the advice for each fault."""
    kinds = {daemon.kind for daemon in seen.daemons}
    if "annealer" not in kinds and (seen.nodes.all or not seen.images.all):
        yield f"no annealer is running: nothing moves; {START}"
    if "builder" not in kinds and seen.images.all:
        yield images.NOBODY
    if not seen.pools.served and any(map(seen.pools.requests.get, WAITING)):
        yield NO_LAUNCHER
    if any(daemon.left_out for daemon in seen.daemons):
        yield "an extension that is left out is not used: mend its package, then restart the daemon"
    if seen.hooks_without_code:
        yield "no annealer has the code of a hook that waits: install the package of its role on an annealer's host"
    for deployment in seen.deployments:
        if deployment.deleting:
            finish = f"nodepool-ocb deployment delete {deployment.name}"
            yield f"a part of deployment {deployment.name} is deleted; if no command is deleting the rest now: {finish}"
    yield from _notes_of_images(seen.images)
    if seen.quarantined:
        yield (
            "records that cannot be read hold back all that depend on them; see: nodepool-ocb record show PATH;"
            " then mend or delete each"
        )
    if seen.unlooked:
        many = counted(seen.unlooked, "noderole")
        yield f"the attributes and runs of {many} were not looked at: nodepool-ocb record list looks at everything"


def _notes_of_images(of: OfImages) -> Iterator[str]:
    """The advice for uploads and builds that no running builder serves."""
    first = {upload.provider: upload for upload in reversed(of.stranded)}
    for provider, upload in sorted(first.items()):
        forget = f"nodepool-ocb upload delete {upload.image} {upload.build} {provider} --forget"
        yield f"no running builder has provider {provider}: configure it again, or forget its uploads: {forget}"
    if of.bereft:
        yield (
            "an image that only a missing builder could send is built again after builder.gone_seconds;"
            " start that builder, or wait"
        )
    if of.differing:
        yield "builders are configured differently: give all of them one nodepool.yaml"
