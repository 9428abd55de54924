"""``nodepool-ocb lock``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from nodepool_ocb.cli.images import imaging
from nodepool_ocb.cli.kit import output, session
from nodepool_ocb.cli.kit.options import Noun
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import LockOwner
from nodepool_ocb.views import locks as shown
from nodepool_ocb.views.locks import LockRow
from nodepool_ocb.views.rollouts.rows import Key

if TYPE_CHECKING:
    from nodepool_ocb.store.client.session import Session


@click.group(cls=Noun)
def command() -> None:
    """Who works on what now."""


@command.command("list")
def list_() -> None:
    """Every claim on a node, and every lock: on a rollout, a run of tasks, an image's builds, a build's uploads, the webhook."""
    with session.session() as opened:
        world = session.load(opened)
        found = [
            *shown.claims(world),
            *rollout_locks(opened),
            *task_locks(opened),
            *webhook_lock(opened),
            *locks(opened, imaging.load(opened)),
        ]
    output.things(found, ("kind", "name", "owner", "host", "purpose", "since"))


def locks(opened: Session, images: imaging.Images) -> list[LockRow]:
    """The locks of builders, builds before uploads."""
    from nodepool_ocb.store.locks import holders

    uploads = dict.fromkeys(
        (view.name, upload.build, upload.provider) for view in images.values() for upload in imaging.uploads_of(view)
    )
    held: dict[tuple[str, str], LockOwner | None] = {("image", name): view.holder for name, view in images.items()}
    found = holders(opened, [paths.upload_lock(*each) for each in uploads])
    for (name, build, provider), holder in zip(uploads, found, strict=True):
        held["upload", f"{name}-{build} {provider}"] = holder
    return shown.locks({key: held[key] for key in sorted(held)})


def webhook_lock(opened: Session) -> list[LockRow]:
    """Which annealer sends the journal to a receiver."""
    from nodepool_ocb.store.locks import holders

    (holder,) = holders(opened, [paths.WEBHOOK_LOCK])
    return shown.locks({("webhook", "journal"): holder})


def task_locks(opened: Session) -> list[LockRow]:
    """Who prepares or drives which run of tasks."""
    from nodepool_ocb.store.locks import holders
    from nodepool_ocb.store.tasks import runs

    keys = [Key(deployment, run) for deployment, run in runs.under_way(opened)]
    found = holders(opened, [paths.task_run_lock(*key) for key in keys])
    return shown.locks({("tasks run", str(key)): holder for key, holder in zip(keys, found, strict=True)})


def rollout_locks(opened: Session) -> list[LockRow]:
    """Who drives which rollout."""
    from nodepool_ocb.store import rollouts

    return shown.locks(
        {("rollout", str(Key(each.deployment, each.id))): each.holder for each in rollouts.list_(opened)}
    )
