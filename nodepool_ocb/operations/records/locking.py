"""``lock list``."""

from __future__ import annotations

from collections.abc import Mapping

from nodepool_ocb.images.rules import ImageView
from nodepool_ocb.model import paths
from nodepool_ocb.model.executions import Key
from nodepool_ocb.operations.operation import Note, Operation, Right, Situation, Steps
from nodepool_ocb.operations.reads.images import ReadImages
from nodepool_ocb.operations.reads.locks import ReadHolders, ReadTaskRunsUnderWay
from nodepool_ocb.operations.reads.rollouts import ListRollouts
from nodepool_ocb.operations.reads.world import ReadWorld
from nodepool_ocb.views import locks as shown
from nodepool_ocb.views.locks import ClaimRow, LockRow


class LockList(Operation[list[ClaimRow | LockRow]], frozen=True, kw_only=True):
    """Every claim on a node, and every lock that is held. A note names each record that cannot be read."""

    noun = "lock"
    verb = "list"
    right = Right.VIEWER
    reads = (ReadWorld, ListRollouts, ReadTaskRunsUnderWay, ReadHolders, ReadImages)

    def decide(self, situation: Situation) -> Steps[list[ClaimRow | LockRow]]:  # noqa: ARG002
        world = yield from ReadWorld()
        rollouts = yield from _of_rollouts()
        tasks = yield from _of_task_runs()
        webhook = yield from _of_webhook()
        uploads = yield from _of_images()
        return [*shown.claims(world), *rollouts, *tasks, *webhook, *uploads]


def _of_rollouts() -> Steps[list[LockRow]]:
    """The annealers that drive rollouts, by deployment, the oldest rollout first."""
    found = yield from ListRollouts()
    ordered = sorted(found, key=lambda each: (each.deployment, int(each.id)))
    return shown.locks({("rollout", str(Key(each.deployment, each.id))): each.holder for each in ordered})


def _of_task_runs() -> Steps[list[LockRow]]:
    """The annealers that prepare or drive runs of tasks."""
    found = yield from ReadTaskRunsUnderWay()
    holders = yield from ReadHolders(tuple(paths.task_run_lock(*each) for each in found))
    return shown.locks({("tasks run", str(Key(*each))): holder for each, holder in zip(found, holders, strict=True)})


def _of_webhook() -> Steps[list[LockRow]]:
    """The annealer that sends the journal to a receiver."""
    (holder,) = yield from ReadHolders((paths.WEBHOOK_LOCK,))
    return shown.locks({("webhook", "journal"): holder})


def _of_images() -> Steps[list[LockRow]]:
    """The locks of builders, builds before uploads."""
    read = yield from ReadImages()
    for path, reason in read.unread.items():
        yield Note(f"warning: {path} is left out: {reason}")
    uploads = carried(read.by_name)
    found = yield from ReadHolders(tuple(paths.upload_lock(*each) for each in uploads))
    held = {("image", name): view.holder for name, view in read.by_name.items()}
    for (name, build, provider), holder in zip(uploads, found, strict=True):
        held["upload", f"{name}-{build} {provider}"] = holder
    return shown.locks({key: held[key] for key in sorted(held)})


def carried(images: Mapping[str, ImageView]) -> list[tuple[str, str, str]]:
    """Image, build and provider of all uploads, each one time. An upload lock belongs to each."""
    uploads = (
        (name, upload.build, upload.provider)
        for name, view in images.items()
        for build in view.builds
        for upload in build.uploads
    )
    return list(dict.fromkeys(uploads))
