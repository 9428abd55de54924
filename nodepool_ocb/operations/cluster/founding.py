"""``init``: a new cluster."""

from __future__ import annotations

from nodepool_ocb.errors import Conflict
from nodepool_ocb.operations.operation import Explained, Operation, Right, Situation, Steps
from nodepool_ocb.operations.reads.clusters import EnsureParents, FirstRecords, ReadCluster, RenewedKey
from nodepool_ocb.views.cluster import ClusterRow


class ClusterMade(Explained, frozen=True, kw_only=True):
    """The answer of ``init``."""

    row: ClusterRow | None = None  # None: a dry run that would make a cluster
    key_made: bool = False  # a cluster that existed has a new key for logs now


class InitCluster(Operation[ClusterMade], frozen=True, kw_only=True):
    """Make a new cluster, with its chroot; a cluster that exists stays as it is, but gets a key for logs if it has none.

    Raises Conflict if the existing cluster has another ``admin_domain``, or if a part of a cluster was lost.
    """

    noun = "init"
    verb = ""
    right = Right.ADMIN
    reads = (EnsureParents, FirstRecords, ReadCluster, RenewedKey)
    writes = ("cluster", "deployment", "key for logs")
    founding = True

    admin_domain: str | None = None  # None: as the configuration says
    new_key: bool = False  # also if the cluster has a key for logs; the former one is valid until the next

    def decide(self, situation: Situation) -> Steps[ClusterMade]:
        dry_run = situation.call.dry_run
        if not dry_run:
            yield from EnsureParents()
        first = yield from FirstRecords(self.admin_domain or situation.settings.admin_domain, situation.now)
        if first:
            yield first
        if first and dry_run:
            return ClusterMade()
        found = yield from ReadCluster()
        cluster = found.record
        if self.admin_domain and cluster.admin_domain != self.admin_domain:
            raise Conflict(
                f"the cluster {cluster.id} is there already, with {cluster.admin_domain or 'no'} admin domain;"
                " set admin_domain in the configuration instead"
            )
        renewed = [] if first else (yield from RenewedKey(self.new_key))
        if renewed:
            yield renewed
        row = ClusterRow(
            cluster=cluster.id, place=found.place, admin_domain=cluster.admin_domain, made=bool(first) and not dry_run
        )
        return ClusterMade(row=row, key_made=bool(renewed))
