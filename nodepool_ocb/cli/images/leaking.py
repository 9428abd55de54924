"""What providers have and no record names: ``upload leaks``. This host asks them, as its nodepool.yaml says."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from nodepool_ocb.cli.images import imaging
from nodepool_ocb.cli.kit import output, session
from nodepool_ocb.cli.kit.options import confirm
from nodepool_ocb.cli.kit.performing import performer
from nodepool_ocb.errors import Conflict, Invalid, NotFound, OcbError, Unavailable
from nodepool_ocb.model import paths
from nodepool_ocb.operations.names import unknown
from nodepool_ocb.views.images import LeakRow

if TYPE_CHECKING:
    from nodepool_ocb.providers import Kept, Stamp, Uploader
    from nodepool_ocb.store.client.session import Session


def found(opened: Session, name: str | None) -> list[tuple[Kept, LeakRow]]:
    """What no record names, of one provider or of all: those that cannot be asked are said. Raises NotFound, Unavailable."""
    from nodepool_ocb.store import clusters

    ours, listed = clusters.current(opened).id, list(_listed(name))
    quarantined: dict[str, str] = {}
    named, ids = _named(imaging.load(opened, quarantined))  # after the providers were asked
    return [
        (kept, _row(kept, provider, ours))
        for provider, kept in listed
        if kept.stamp not in named and kept.external_id not in ids and not _unread(kept.stamp, quarantined)
    ]


def delete(opened: Session, provider: str, external_id: str, cluster: str | None, *, yes: bool, dry_run: bool) -> None:
    """Delete one of them at its provider. Raises Conflict where its stamp is of another cluster than ``cluster`` (ours,
    unless it is given), or its upload may still be going on; and NotFound.
    """
    from nodepool_ocb.store import clusters

    leaks = {kept.external_id: kept for kept, _ in found(opened, provider)}
    if external_id not in leaks:
        raise NotFound(f"{external_id} is at {provider} no leak; see: nodepool-ocb upload leaks {provider}")
    stamp, expected = leaks[external_id].stamp, cluster or clusters.current(opened).id
    if (stamp.cluster, stamp.provider) != (expected, provider):
        raise Conflict(
            f"{external_id} is of provider {stamp.provider} of cluster {stamp.cluster}, and not of {provider} of {expected};"
            " if that cluster is gone for good, name it with --cluster"
        )
    if opened.get(paths.upload(stamp.image, stamp.build, stamp.provider, stamp.upload)) is not None and cluster is None:
        raise Conflict(f"an attempt to send {external_id} may still be going on; builders delete it when that is over")
    name = f"{external_id} at {provider}"
    if dry_run:
        session.report_rows(performer().journal.named("delete", "leak", [name]), dry_run)
    confirm(f"delete {name}", yes)
    refused = _uploaders(provider)[provider].delete(external_id, stamp)
    if refused is not None:
        raise OcbError(refused.reason)
    performer().journal.done(opened, "delete", "leak", [name])
    output.say(f"{external_id} is deleted at {provider}")


def _uploaders(name: str | None) -> Mapping[str, Uploader]:
    from nodepool_ocb import providers
    from nodepool_ocb.images import nodepool

    builder = session.settings().builder
    configured = {
        each.name: each for each in nodepool.load(builder.nodepool, builder.secure, environ=os.environ).providers
    }
    if name is not None and name not in configured:
        raise unknown("provider", name, configured)
    opened = {}
    for each in configured.values():
        if each.name == name or (name is None and each.diskimages):
            try:
                opened[each.name] = providers.open(each)
            except Invalid as missing:
                output.say(f"warning: not asked: {missing}")
    return opened


def _listed(name: str | None) -> Iterator[tuple[str, Kept]]:
    for provider, uploader in _uploaders(name).items():
        try:
            yield from ((provider, kept) for kept in uploader.list() if kept.stamp.provider == provider)
        except Unavailable as silent:
            if name is not None:
                raise
            output.say(f"warning: {provider} cannot be asked now: {silent}")


def _named(images: imaging.Images) -> tuple[set[Stamp], set[str]]:
    """The stamps that records know, and the external ids."""
    from nodepool_ocb.providers.stamp import stamp_of

    uploads = [(name, upload) for name, view in images.items() for upload in imaging.uploads_of(view)]
    return {stamp_of(*each) for each in uploads}, {
        each.record.external_id for _, each in uploads if each.record.external_id
    }


def _unread(stamp: Stamp, quarantined: Mapping[str, str]) -> bool:
    """Whether a record that cannot be read may name it."""
    build, uploads = paths.build(stamp.image, stamp.build), paths.uploads(stamp.image, stamp.build, stamp.provider)
    return any(path == build or path.startswith(f"{uploads}/") for path in quarantined)


def _row(kept: Kept, provider: str, ours: str) -> LeakRow:
    stamp = kept.stamp
    return LeakRow(
        name=f"{provider} --delete {kept.external_id}",
        provider=provider,
        external_id=kept.external_id,
        external_name=kept.external_name,
        image=stamp.image,
        build=stamp.build,
        cluster=stamp.cluster,
        whose="ours" if stamp.cluster == ours else "another cluster's",
        since=kept.since,
    )
