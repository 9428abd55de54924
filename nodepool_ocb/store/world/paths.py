"""Which paths below ``/ocb`` a World shows, and the names that are there now.

Attribute blobs, runs, the rollouts and runs of tasks themselves and everything unknown are none of them.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from functools import lru_cache
from sys import intern
from typing import Final, NamedTuple, TypeAlias

from nodepool_ocb.model import paths
from nodepool_ocb.model.ranges import is_name, is_node
from nodepool_ocb.model.records import (
    Claim,
    Cluster,
    Daemon,
    Deployment,
    DeploymentRole,
    Fence,
    Gate,
    Node,
    NodeRole,
    Record,
    Role,
    RolloutPointer,
    Structure,
    TaskRunPointer,
)
from nodepool_ocb.store.client.reading import Reading

Kind: TypeAlias = type[Record]


class WorldPath(NamedTuple):
    """A path of the world, taken apart: the kind of record that is there, and the names that lead to it."""

    kind: Kind
    name: str = ""  # of the role, deployment (of the rollouts, too), node or kind of daemon
    below: str = ""  # of the noderole's, deployment role's or gate's role, or of the daemon


@lru_cache(maxsize=8192)  # a path that is written is looked at some six times
def parse(path: str) -> WorldPath | None:
    """None for paths that no world shows.

    >>> parse("/ocb/nodes/n1.example.com/noderoles/ntp")
    WorldPath(kind=<class 'nodepool_ocb.model.records.NodeRole'>, name='n1.example.com', below='ntp')
    >>> parse("/ocb/nodes/n1.example.com/noderoles/ntp/wall")
    """
    match path.split("/")[2:]:
        case ["nodes", fqdn, "noderoles", role]:
            return WorldPath(NodeRole, fqdn, role)
        case ["nodes", fqdn, child] if child in _OF_NODE:
            return WorldPath(_OF_NODE[child], fqdn)
        case ["deployments", name, "roles", role]:
            return WorldPath(DeploymentRole, name, role)
        case ["deployments", name, "clusters", role]:
            return WorldPath(Gate, name, role)
        case ["daemons", kind, identity]:
            return WorldPath(Daemon, kind, identity)
        case ["tasks", "runs", name]:
            return WorldPath(TaskRunPointer, name)
        case [section, name] if section in _SECTIONS:
            return WorldPath(_SECTIONS[section], name)
        case ["cluster"]:
            return WorldPath(Cluster)
        case ["structure"]:
            return WorldPath(Structure)
    return None


_OF_NODE: Final[Mapping[str, Kind]] = {"fence": Fence, "claim": Claim}
_SECTIONS: Final[Mapping[str, Kind]] = {
    "nodes": Node, "roles": Role, "deployments": Deployment, "rollouts": RolloutPointer
}  # fmt: skip


def misnamed(at: WorldPath) -> str | None:
    """Why nothing can have this name, in the form of a reason; None where it can.

    What is put there by hand all the same is as good as unreadable: such a name would be two words of an order.

    >>> misnamed(WorldPath(NodeRole, "n1.example.com", "a@b"))
    "'a@b' can be no name of a role: small letters, digits, '-', '_' and '.', at most 63"
    """
    if at.kind in (NodeRole, Node, Fence, Claim) and not is_node(at.name):
        return f"{at.name!r} can be no name of a node: labels of small letters, digits and '-', with '.' between them"
    of_deployment = at.name if at.kind in (Deployment, DeploymentRole, Gate, RolloutPointer, TaskRunPointer) else ""
    of_role = at.name if at.kind is Role else at.below if at.kind in (NodeRole, DeploymentRole, Gate) else ""
    for what, name in (("deployment", of_deployment), ("role", of_role)):
        if name and not is_name(name):
            return f"{name!r} can be no name of a {what}: small letters, digits, '-', '_' and '.', at most 63"
    return None


class Listing(NamedTuple):
    """The names of all that a world shows, but for the structure's."""

    roles: list[str]
    deployments: dict[str, list[str]]  # to their deployment roles
    nodes: dict[str, list[str]]  # to their noderoles
    daemons: dict[str, list[str]]  # by kind
    rollouts: list[str]  # the deployments that have had any
    gates: dict[str, list[str]]  # of each deployment: the roles of its clusters
    task_runs: list[str]  # the deployments that have had any

    def paths(self) -> Iterator[str]:
        """Every path but those of noderoles and gates."""
        yield paths.CLUSTER
        yield from map(paths.role, self.roles)
        yield from map(paths.deployment, self.deployments)
        for deployment, roles in self.deployments.items():
            yield from (paths.deployment_role(deployment, role) for role in roles)
        for fqdn in self.nodes:
            yield from (paths.node(fqdn), paths.fence(fqdn), paths.claim(fqdn))
        for kind, identities in self.daemons.items():
            yield from (paths.daemon(kind, identity) for identity in identities)
        yield from map(paths.rollouts, self.rollouts)
        yield from map(paths.task_runs, self.task_runs)

    def gate_paths(self) -> Iterator[str]:
        for deployment, roles in self.gates.items():
            yield from (paths.gate(deployment, role) for role in roles)

    def has(self, at: WorldPath) -> bool:
        """Whether it was there; for what may come and go below a node, whether that node was."""
        of_sections: dict[Kind, Container[str]] = {
            Role: self.roles,
            Deployment: self.deployments,
            RolloutPointer: self.rollouts,
            TaskRunPointer: self.task_runs,
        }
        below = {NodeRole: self.nodes, DeploymentRole: self.deployments, Gate: self.gates, Daemon: self.daemons}
        if at.kind in below:
            return at.below in below[at.kind].get(at.name, ())
        return at.kind is Cluster or at.name in of_sections.get(at.kind, self.nodes)


def listing(session: Reading) -> Listing:
    """List the tree: one request, and one for some hundred nodes; raises Unavailable or Denied."""
    sections = [paths.ROLES, paths.DEPLOYMENTS, paths.NODES, paths.DAEMONS, paths.ROLLOUTS, paths.TASK_RUNS]
    roles, deployments, nodes, kinds, rollouts, task_runs = (names or [] for names in session.children_many(sections))
    wanted = [
        *map(paths.deployment_roles, deployments), *map(paths.noderoles, nodes), *map(paths.daemons, kinds),
        *map(paths.clusters, deployments),
    ]  # fmt: skip
    below = iter([list(map(intern, names or [])) for names in session.children_many(wanted)])  # thousands share a name
    return Listing(
        roles,
        {deployment: next(below) for deployment in deployments},
        {fqdn: next(below) for fqdn in nodes},
        {kind: next(below) for kind in kinds},
        rollouts,
        {deployment: next(below) for deployment in deployments},
        task_runs,
    )
