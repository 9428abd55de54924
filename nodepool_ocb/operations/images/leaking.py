"""``upload leaks``: external objects that no record names, listed and deleted.

The performer's host asks the providers, as its nodepool.yaml says.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from nodepool_ocb.errors import Conflict, NotFound
from nodepool_ocb.model import paths
from nodepool_ocb.operations.images import finding
from nodepool_ocb.operations.images.finding import Images
from nodepool_ocb.operations.operation import Explained, Operation, Right, Situation, Steps
from nodepool_ocb.operations.reads.agreement import Agreement
from nodepool_ocb.operations.reads.clusters import ReadCluster
from nodepool_ocb.operations.reads.images import ReadImages
from nodepool_ocb.operations.reads.providers import DeleteExternal, ListExternal
from nodepool_ocb.operations.reads.znodes import ReadExisting
from nodepool_ocb.views.changes import ChangeRow
from nodepool_ocb.views.images import LeakRow

if TYPE_CHECKING:
    from nodepool_ocb.providers import Kept, Stamp


class UploadLeaks(Operation[list[LeakRow]], frozen=True, kw_only=True):
    """The external objects that no record names, of one provider or of all. Raises NotFound, or Unavailable."""

    noun = "upload"
    verb = "leaks"
    right = Right.VIEWER
    reads = (ReadCluster, ListExternal, ReadImages)

    provider: str | None = None  # None: all that the host's nodepool.yaml names

    def decide(self, situation: Situation) -> Steps[list[LeakRow]]:  # noqa: ARG002
        ours = (yield from ReadCluster()).record.id
        found = yield from _leaks(self.provider)
        return [_row(kept, provider, ours) for provider, kept in found]


class LeakDeleted(Explained, frozen=True, kw_only=True):
    """The answer of a deletion; ``row`` is not in a transaction: the provider deletes the object."""

    row: ChangeRow

    @property
    def outside(self) -> tuple[ChangeRow, ...]:
        """The row."""
        return (self.row,)


class UploadLeaksDelete(Operation[LeakDeleted], frozen=True, kw_only=True):
    """Delete an external object that no record names at its provider.

    Raises NotFound, or Conflict if its stamp names another cluster than ``cluster``, or if its upload may be under way.
    """

    noun = "upload"
    verb = "leaks"
    right = Right.ADMIN
    reads = (ReadCluster, ListExternal, ReadImages, ReadExisting, Agreement, DeleteExternal)
    writes = ("leak",)

    provider: str
    external_id: str
    cluster: str | None = None  # the id that the stamp must name; None: this cluster

    def decide(self, situation: Situation) -> Steps[LeakDeleted]:
        ours = (yield from ReadCluster()).record.id
        found = yield from _leaks(self.provider)
        leaks = {kept.external_id: kept.stamp for _, kept in found}
        if self.external_id not in leaks:
            see = f"nodepool-ocb upload leaks {self.provider}"
            raise NotFound(f"{self.external_id} at provider {self.provider} is not a leak; see: {see}")
        stamp = leaks[self.external_id]
        yield from self._refuse(stamp, self.cluster or ours)
        name = f"{self.external_id} at {self.provider}"
        row = ChangeRow(change="delete", kind="leak", name=name, state=None)
        if not situation.call.dry_run:
            yield from Agreement(f"delete {name}")
            yield from DeleteExternal(self.provider, self.external_id, stamp, name)
        return LeakDeleted(row=row, after=(f"{self.external_id} is deleted at {self.provider}",))

    def _refuse(self, stamp: Stamp, expected: str) -> Steps[None]:
        """Raises Conflict for an object of another cluster or provider, and for one that may be under way."""
        if (stamp.cluster, stamp.provider) != (expected, self.provider):
            raise Conflict(
                f"{self.external_id} is of provider {stamp.provider} of cluster {stamp.cluster}, and not of"
                f" {self.provider} of {expected}; if that cluster is gone for good, name it with --cluster"
            )
        if self.cluster is None:
            path = paths.upload(stamp.image, stamp.build, stamp.provider, stamp.upload)
            if (yield from ReadExisting((path,))):
                raise Conflict(
                    f"an attempt to send {self.external_id} may still be going on; builders delete it when that is over"
                )


def _leaks(name: str | None) -> Steps[list[tuple[str, Kept]]]:
    """The objects that no record names, each with its provider. The records are read after the providers answered."""
    listed = yield from ListExternal(name)
    images = yield from ReadImages()
    stamps, ids = _named(images.by_name)
    return [
        (provider, kept)
        for provider, kept in listed
        if kept.stamp not in stamps and kept.external_id not in ids and not _unread(kept.stamp, images.unread)
    ]


def _named(images: Images) -> tuple[set[Stamp], set[str]]:
    """The stamps that records know, and the external ids."""
    from nodepool_ocb.providers.stamp import stamp_of

    uploads = [(name, upload) for name, view in images.items() for upload in finding.uploads_of(view)]
    return {stamp_of(*each) for each in uploads}, {
        each.record.external_id for _, each in uploads if each.record.external_id
    }


def _unread(stamp: Stamp, unread: Mapping[str, str]) -> bool:
    """Whether a record that cannot be read may name it."""
    build, uploads = paths.build(stamp.image, stamp.build), paths.uploads(stamp.image, stamp.build, stamp.provider)
    return any(path == build or path.startswith(f"{uploads}/") for path in unread)


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
