"""Which cluster this is: the record ``/ocb/cluster``, which ``nodepool-ocb init`` makes once and nothing else ever makes.

An ensemble may hold several clusters, each below a chroot of its own. A wrong chroot, and an ensemble that was rebuilt from
nothing, look like a new and empty world; so every daemon and every command asks here before it reads or writes anything.
"""

from __future__ import annotations

from nodepool_ocb.errors import Invalid, NoCluster
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Cluster
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
        raise NoCluster(f"the cluster in {where(session)} is {found.id}, and was {expected} before: it is another one")
    return found


def where(session: Session) -> str:
    """Where a session leads to, for people: "ZooKeeper at 10.0.0.1:2181, chroot /prod"."""
    hosts, slash, chroot = session.hosts.partition("/")
    return f"ZooKeeper at {hosts}, " + (f"chroot /{chroot}" if slash and chroot else "without a chroot")
