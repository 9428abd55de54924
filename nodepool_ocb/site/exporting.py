"""A cluster as a site file: the records that people made, in an order that does not depend on the order of their
making.

States of runs, walls and the attributes of hooks are left out, for machines and annealers found them. Noderoles of task
lists are left out too. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from nodepool_ocb.catalogue import rules
from nodepool_ocb.documents.counting import some
from nodepool_ocb.engine import deployments, unreadable
from nodepool_ocb.engine.binding import parents
from nodepool_ocb.engine.binding.refusals import TASK
from nodepool_ocb.engine.inputs import concealing
from nodepool_ocb.engine.world import NodeView, Stored, Vertex, World
from nodepool_ocb.errors import Conflict
from nodepool_ocb.model import paths
from nodepool_ocb.model.networks import Network
from nodepool_ocb.model.records import Deployment, Json, Node, Role, State
from nodepool_ocb.site.desired_state import Blob, Commitment
from nodepool_ocb.site.given import problems

FORMAT: Final = 1

#: The fields of a node that people set, in the order in which they are written; always, or where they say something.
ALWAYS: Final = ("deployment", "available", "addresses")
FIELDS: Final = (
    "admin",
    "virtual",
    "user",
    "rack",
    "bootenv",
    "allow_install",
    "tags",
    "labels",
    "hints",
    "macs",
    "networks",
    "host_keys",
)


def chosen(world: World) -> list[NodeView]:
    """The nodes that are people's, by name: none that goes, and none that holds the stages of a task list."""
    of_tasks = {view.name for name in world.deployments for view in deployments.of_tasks(world, name)}
    return [
        view
        for name, view in sorted(world.nodes.items())
        if view.record is not None and not view.record.deleting and name not in of_tasks
    ]


def noderoles(view: NodeView) -> list[Vertex]:
    """The noderoles of a node that people bound, by role."""
    return [vertex for _, vertex in sorted(view.noderoles.items()) if vertex.record.task_run is None]


def document(
    world: World, views: Collection[NodeView], kept: Mapping[str, Blob], *, whole: bool, catalogue: bool
) -> bytes:
    """The site file of these nodes, as JSON; ``kept`` has the attributes that users gave, by their path.

    ``whole``: with every deployment, and to be made again as it is; ``catalogue``: with the roles. Raises Conflict where a
    record cannot be read, and where an attribute that is secret stands in plain text.
    """
    unreadable.refuse(world, sorted(world.unreadable))
    lines = {line for view in views for line in _deployments_of(world, view)}
    names = sorted(world.deployments) if whole else sorted(lines)
    made: dict[str, Json] = {"site": FORMAT}
    if whole:
        made["whole"] = True
    given = list(_given(world, names, views, kept))
    _refuse_plain(world, given)
    if _refused_by_now(world, given):
        made["as_stored"] = True
    if catalogue:
        made["roles"] = {
            name: _role(world.roles[name].record) for name in sorted(world.roles) if not _of_task(world, name)
        }
    bound = {(vertex.record.deployment, vertex.role) for vertex in world.vertices()}
    found = {name: _deployment(world, name, bound) for name in names}
    made["deployments"] = {name: said for name, said in found.items() if name != deployments.SYSTEM or said}
    if networks := _networks(world, views, whole):
        made["networks"] = networks
    encode = msgspec.json.Encoder().encode
    nodes = [  # one after the other: the values of all nodes take ten times the memory of their text
        b"%b:%b" % (encode(view.name), encode(_node(view, kept))) for view in views if view.record is not None
    ]
    return b'%b,"nodes":{%b}}' % (encode(made)[:-1], b",".join(nodes))


def _networks(world: World, views: Iterable[NodeView], whole: bool) -> dict[str, Json]:
    """All, or those with an address of one of the nodes."""
    known: Mapping[str, Stored[Network]] = world.of(Network)
    used = {name for view in views if view.record is not None for name in view.record.networks}
    made: dict[str, Json] = {}
    for name in sorted(known if whole else used & known.keys()):
        plain = msgspec.to_builtins(known[name].record)
        made[name] = {key: value for key, value in plain.items() if key not in ("schema", "unknown")}
    return made


#: The name of the attributes' owner, the role, and the attributes.
Given = tuple[str, str, Blob]


def _given(
    world: World, deployments: Collection[str], views: Iterable[NodeView], kept: Mapping[str, Blob]
) -> Iterator[Given]:
    """All attributes that are written down."""
    for (deployment, role), stored in sorted(world.deployment_roles.items()):
        if deployment in deployments and not _of_task(world, role):
            yield f"{role} in {deployment}", role, stored.record.user
    for view in views:
        for vertex in noderoles(view):
            if user := kept.get(paths.user(vertex.role, view.name)):
                yield vertex.name, vertex.role, user


def _refuse_plain(world: World, given: Iterable[Given]) -> None:
    """A file with plain text of a secret could not be applied, and would tell it."""
    catalogue = {name: stored.record for name, stored in world.roles.items()}
    found = [f"{name}: {place}" for name, role, user in given for place, _ in concealing.plain(catalogue, role, user)]
    if found:
        raise Conflict(
            f"secret, and stored in plain text since before that was declared: {some(found)}; first:"
            " nodepool-ocb secret rotate encrypts it (nodepool-ocb secret list names all)"
        )


def _refused_by_now(world: World, given: Iterable[Given]) -> bool:
    """Whether `apply` would refuse some of it: roles declare other names than they did, or have other schemas."""
    catalogue = {name: stored.record for name, stored in world.roles.items()}
    return any(
        next(problems(catalogue, role, user, rules.template(catalogue, role), {}), None) is not None
        for _, role, user in given
        if role in catalogue
    )


def _deployments_of(world: World, view: NodeView) -> list[str]:
    own = [vertex.record.deployment for vertex in noderoles(view)]
    each = dict.fromkeys([view.record.deployment if view.record else deployments.SYSTEM, *own])
    return [name for start in each for name in parents.lineage(world, start)]


def _of_task(world: World, role: str) -> bool:
    stored = world.roles.get(role)
    return stored is None or TASK in stored.record.flags or stored.record.task is not None


def _role(record: Role) -> Json:
    plain: dict[str, Json] = msgspec.to_builtins(record)
    return {key: value for key, value in plain.items() if key not in ("schema", "unknown")}


def _deployment(world: World, name: str, bound: Collection[tuple[str, str]]) -> dict[str, Json]:
    """``bound``: the deployments and roles of all noderoles; these bring their deployment roles along."""
    record: Deployment = world.deployments[name].record
    said: dict[str, Json] = {} if name == deployments.SYSTEM else {"parent": record.parent, "state": str(record.state)}
    if record.checks is not None:
        said["checks"] = {"schedule": record.checks.schedule, "refresh": record.checks.refresh}
    configured = {
        role: {"user": stored.record.user} if stored.record.user else {}
        for (deployment, role), stored in sorted(world.deployment_roles.items())
        if deployment == name and not _of_task(world, role) and (stored.record.user or (name, role) not in bound)
    }
    return {**said, "roles": configured} if configured else said


def _node(view: NodeView, kept: Mapping[str, Blob]) -> Json:
    record = view.record
    assert record is not None, "only nodes that exist are written down"
    plain: dict[str, Any] = msgspec.to_builtins(record)
    said = {name: plain.get(name, _plain(record, name)) for name in ALWAYS}
    said |= {name: plain[name] for name in FIELDS if name in plain}
    return {**said, "noderoles": {vertex.role: _noderole(vertex, record, kept) for vertex in noderoles(view)}}


def _plain(record: Node, name: str) -> Json:
    return msgspec.to_builtins(getattr(record, name))


def _noderole(vertex: Vertex, node: Node, kept: Mapping[str, Blob]) -> Json:
    record = vertex.record
    proposed = record.state is State.PROPOSED
    said: dict[str, Json] = {"state": str(Commitment.PROPOSED if proposed else Commitment.COMMITTED)}
    if record.deployment != node.deployment:
        said["deployment"] = record.deployment
    said["parents"] = list(record.parents)
    user = kept.get(paths.user(vertex.role, vertex.node.name))
    if user:
        said["user"] = user
    if record.once is not None:
        said["once"] = record.once
    return said
