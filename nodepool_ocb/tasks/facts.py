"""The facts that a run gives to its nodes, as in Fuel's astute.yaml: ``common`` once for all of them, ``of_node`` for each.

The settings of the deployment stand at the top, so every task of the deployment sees all of them, secrets included. Facts of a
node that are made here win over settings of the same name: ``uid``, ``roles``, ``nodes`` ... Pure; arguments are not changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Final

import msgspec

from nodepool_ocb.errors import Invalid
from nodepool_ocb.model.records import Json, Node
from nodepool_ocb.tasks.conditions.models import Models, NodeFacts
from nodepool_ocb.tasks.plan import Member
from nodepool_ocb.tasks.yamltext import dumped

COMMON_BYTES: Final = 200 * 1024  # as JSON
NODE_BYTES: Final = 400 * 1024
NODES_BYTES: Final = 100 * 1024  # of ``nodes``; a longer one is left out
MODE: Final = "ha_compact"  # the mode of a deployment without that setting
TASKS: Final = "tasks"  # the fact that no condition sees: it comes from the plan

_encode = msgspec.json.Encoder().encode


class ClusterStatus(StrEnum):
    """The status of a deployment for conditions: by its newest run."""

    NEW = "new"  # there was none
    DEPLOYMENT = "deployment"  # it is under way
    OPERATIONAL = "operational"  # it succeeded
    ERROR = "error"  # it failed
    STOPPED = "stopped"  # a person stopped it


#: The state of the newest run → the deployment's status; every other state is one of a run that is under way.
ENDED: Final = {
    "successful": ClusterStatus.OPERATIONAL,
    "failed": ClusterStatus.ERROR,
    "stopped": ClusterStatus.STOPPED,
}


def cluster_status(newest: str | None) -> ClusterStatus:
    """The status of the cluster by the state of the newest run; None: there was no run.

    >>> [str(cluster_status(state)) for state in (None, "running", "successful", "failed", "stopped")]
    ['new', 'deployment', 'operational', 'error', 'stopped']
    """
    return ClusterStatus.NEW if newest is None else ENDED.get(newest, ClusterStatus.DEPLOYMENT)


def models(
    settings: Mapping[str, Json],
    status: ClusterStatus,
    members_of_run: Sequence[Member],
    members_of_cluster: Iterable[Member],
) -> Models:
    """The facts for conditions over settings and ``api``. Admin nodes are no nodes of a run, and count by their roles alone."""
    return Models(
        settings=settings,
        cluster={"status": str(status), "mode": settings.get("deployment_mode", MODE)},
        nodes_count=sum(not member.admin for member in members_of_run),
        roles_of_run=frozenset(role for member in members_of_run for role in member.roles),
        roles_of_cluster=frozenset(role for member in members_of_cluster for role in member.roles),
    )


def common(
    deployment: str,
    settings: Mapping[str, Json],
    members: Sequence[Member],
    addresses: Mapping[str, Mapping[str, str]],
) -> dict[str, Json]:
    """The facts of every node of the run. ``members``: all of the deployment, with their roles in this run.

    ``addresses``: fqdn → its ``addresses_of``. Raises Invalid if the facts are too large. ``nodes`` is left out if it is above
    ``NODES_BYTES``.
    """
    master = next((addresses.get(member.name, {}) for member in members if member.admin), {})
    facts: dict[str, Json] = {"deployment_id": deployment, "deployment_mode": MODE}
    if "internal_address" in master:
        facts["master_ip"] = master["internal_address"]
    facts |= settings
    facts["deployment_name"] = deployment
    facts.pop("nodes", None)
    nodes = [entry for member in members if not member.admin for entry in _entries(member, addresses)]
    if len(_encode(nodes)) <= NODES_BYTES:
        facts["nodes"] = nodes
    return _checked(facts, COMMON_BYTES, "the facts that all nodes have", "take them out of the deployment's settings")


def of_node(member: Member, addresses: Mapping[str, Mapping[str, str]]) -> dict[str, Json]:
    """The facts of this node alone, without its ``tasks``."""
    return {
        **_identity(member),
        "roles": list(member.roles),
        "role": member.roles[0] if member.roles else "",
        "status": "ready",
        **addresses.get(member.name, {}),
    }


def given(
    common: Mapping[str, Json], members: Iterable[Member], addresses: Mapping[str, Mapping[str, str]]
) -> Callable[[Member | None], NodeFacts]:
    """The facts that conditions see of each of these members, with their roles in this run; for None those of all nodes."""
    own = {member.name: of_node(member, addresses) for member in members}
    return lambda member: NodeFacts(common=common, node=own[member.name] if member else {})


def with_tasks(node: Mapping[str, Json], tasks: Sequence[Json]) -> dict[str, Json]:
    """The node's own facts with its task list (``agenda``). Raises Invalid if they are too large."""
    facts = {**node, TASKS: list(tasks)}
    return _checked(facts, NODE_BYTES, f"the facts of {node['fqdn']}", "run fewer tasks at once, with --tasks or --end")


def remembered(common: Mapping[str, Json], node: Mapping[str, Json]) -> NodeFacts:
    """The facts of a run before, as conditions compare them."""
    return NodeFacts(common=common, node={name: value for name, value in node.items() if name != TASKS})


def as_yaml(facts: Mapping[str, Json]) -> str:
    """The file of a node: its own facts over those of all, in YAML that Ruby and Python read alike."""
    return dumped(dict(facts))


def names_of_all(common: Mapping[str, Json]) -> dict[str, str]:
    """The values for ``{NAME}`` in parameters that are the same on every node, as far as they are known.

    ``CN_HOSTNAME`` is the host name in the public certificate, if the settings have one.
    """
    certificate = common.get("public_ssl")
    found = {
        "CLUSTER_ID": common.get("deployment_id"),
        "DEPLOYMENT_MODE": common.get("deployment_mode"),
        "MASTER_IP": common.get("master_ip"),
        "OPENSTACK_VERSION": common.get("openstack_version"),
        "VERSION": common.get("openstack_version"),
        "CN_HOSTNAME": _value(certificate.get("hostname")) if isinstance(certificate, Mapping) else None,
    }
    return {name: str(value) for name, value in found.items() if isinstance(value, str | int) and value != ""}


def addresses_of(node: Node) -> dict[str, str]:
    """Its facts of this kind: the host at which it is reached first, and its labels that end with ``_address``.

    >>> addresses_of(Node(addresses=("10.0.0.5:2222",), labels={"public_address": "192.0.2.1", "rack": "b"}))
    {'internal_address': '10.0.0.5', 'public_address': '192.0.2.1'}
    >>> addresses_of(Node(addresses=("[fd00::5]:22", "n1")))
    {'internal_address': 'fd00::5'}
    """
    found = {"internal_address": _host(node.addresses[0])} if node.addresses else {}
    return found | {name: value for name, value in node.labels.items() if name.endswith("_address")}


def _host(address: str) -> str:
    return address[1:].partition("]")[0] if address.startswith("[") else address.partition(":")[0]


def _identity(member: Member) -> dict[str, Json]:
    name = member.name.partition(".")[0]
    return {"uid": member.uid, "fqdn": member.name, "name": name, "user_node_name": name}


def _entries(member: Member, addresses: Mapping[str, Mapping[str, str]]) -> Iterator[Json]:
    """One for each role of a node, as Fuel lists them."""
    for role in member.roles:
        yield {**_identity(member), "role": role, **addresses.get(member.name, {})}


def _value(setting: Json) -> Json:
    """Fuel's settings have their values in ``value`` until they are given to a node."""
    return setting.get("value") if isinstance(setting, Mapping) else setting


def _checked(facts: dict[str, Json], most: int, what: str, then: str) -> dict[str, Json]:
    total = len(_encode(facts))
    if total > most:
        sizes = sorted(((len(_encode(value)), name) for name, value in facts.items()), reverse=True)
        largest = ", ".join(f"{name} {size // 1024} KiB" for size, name in sizes[:3])
        raise Invalid(
            f"{what} take {total // 1024} KiB, and may take {most // 1024}; the largest are {largest}; {then}"
        )
    return facts
