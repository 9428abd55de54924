"""The identity of the cluster: the record ``/ocb/cluster``, which ``nodepool-ocb init`` creates once.

An ensemble may hold several clusters, each below a chroot of its own. A wrong chroot, or an ensemble that was rebuilt
empty, looks like a new and empty cluster. So daemons and commands compare the id of the cluster before they use its
records.
"""

from __future__ import annotations

import uuid
from typing import Final

from nodepool_ocb.engine.deployments import DeploymentEvent, new_deployment
from nodepool_ocb.errors import Conflict, Invalid, NoCluster, Stale
from nodepool_ocb.http import proofs
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Cluster, Create, LogKey, Structure
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.client.session import Session


def current(session: Session, expected: str = "") -> Cluster:
    """The cluster at the session's hosts and chroot; ``expected`` is the id that it must have, empty for any.

    Raises NoCluster where there is none or another one, Invalid where the record cannot be decoded, Unavailable or Denied.
    """
    znode = session.get(paths.CLUSTER)
    if znode is None:
        session.sync()  # our server may lag behind the one that was told to make it
        znode = session.get(paths.CLUSTER)
    if znode is None:
        raise NoCluster(
            f"there is no cluster in {where(session)}; correct zookeeper.hosts, or make a new cluster there:"
            " nodepool-ocb init"
        )
    try:
        found = codec.decode(Cluster, znode)
    except Invalid as invalid:
        raise Invalid(
            f"{invalid}; nothing is done until it is written anew, with the id in cluster_id.txt of each builder's"
            f' images-dir and of each log_dir: zkCli.sh -server HOST set {paths.CLUSTER} \'{{"schema":1,"id":"ID"}}\''
        ) from invalid
    if expected and found.id != expected:
        raise NoCluster(
            f"the cluster in {where(session)} is {found.id}, and was {expected} before;"
            " it is another one; correct zookeeper.hosts"
        )
    return found


def where(session: Session) -> str:
    """The servers and the chroot of a session, for people: "ZooKeeper at 10.0.0.1:2181, chroot /prod"."""
    hosts, slash, chroot = session.hosts.partition("/")
    return f"ZooKeeper at {hosts}, " + (f"chroot /{chroot}" if slash and chroot else "without a chroot")


# -- a new cluster --

#: The znodes that daemons need and may not create themselves.
PARENTS: Final = (
    *(paths.ROLES, paths.DEPLOYMENTS, paths.NODES, paths.ROLLOUTS, paths.TASK_RUNS, paths.JOURNAL_ENTRIES),
    *(paths.JOURNAL_POOL, paths.WEBHOOK, paths.CLOCK, paths.daemons("annealer"), paths.daemons("api")),
    *(paths.TOKENS, paths.KEYS, paths.CALLS, paths.PAUSED, paths.NETWORKS, paths.MACS),
    *(paths.BOOTENVS, paths.PUBLICATIONS),
    *(paths.REGISTRATIONS, paths.ADOPTION),
    *(paths.IMAGES, paths.POOL_CLOCK, *map(paths.daemons, paths.POOL_KINDS), paths.PAUSED_BUILDERS),
    *(paths.REQUESTS, paths.REQUEST_LOCKS, paths.POOL_NODES, *map(paths.components, paths.COMPONENT_KINDS)),
)


def parents(session: Session) -> None:
    """Make ``PARENTS`` where they are absent; raises Unavailable or Denied."""
    session.ensure(*PARENTS)


def bootstrap(session: Session, *, admin_domain: str | None = None, now: float = 0.0) -> bool:
    """Make a new cluster, with its chroot, its id, its structure and the deployment "system"; False if it exists
    already.

    Several processes may call it together: one transaction creates the id with all records that a cluster must have.
    Raises Conflict if there is a part of a tree without an id, Unavailable or Denied.
    """
    parents(session)
    try:
        session.commit(_first(admin_domain, now))
    except Stale as there:
        session.sync()
        if session.get(paths.CLUSTER) is None:
            raise _torn(there.path) from None
        return False
    return True


def founding(session: Session, admin_domain: str | None, now: float = 0.0) -> list[Create]:
    """The transaction that makes a cluster below ``PARENTS``, empty if the cluster exists; raises the exceptions of
    ``bootstrap``.
    """
    session.sync()
    if session.get(paths.CLUSTER) is not None:
        return []
    first = _first(admin_domain, now)
    for there in session.get_many([each.path for each in first]):
        if there is not None:
            raise _torn(there.path)
    return first


def _first(admin_domain: str | None, now: float) -> list[Create]:
    """All that a cluster must have."""
    system = new_deployment(DeploymentEvent.INIT, now, parent=None)
    key = proofs.new_key()
    readers = (proofs.public(key),)
    return [
        Create(paths.CLUSTER, Cluster(id=str(uuid.uuid4()), admin_domain=admin_domain, readers=readers)),
        Create(paths.LOG_KEY, LogKey(keys=(key,))),
        Create(paths.STRUCTURE, Structure()),
        Create(paths.deployment("system"), system),
        Create(paths.deployment_roles("system")),
    ]


def _torn(path: str) -> Conflict:
    return Conflict(
        f"{path} is there, and {paths.CLUSTER} is not: a part of a cluster was lost; restore it"
        " (each builder's images-dir has the id in cluster_id.txt)"
    )
