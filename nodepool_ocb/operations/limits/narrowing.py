"""The limits of a caller: an operation is narrowed to the objects within them, or refused.

An object outside the limits and an absent one answer alike: NotFound, in the same words. Of the objects that a selector means,
those within the limits are named instead. A node has noderoles of several deployments: an operation on it sees and moves those
within the limits (``Situation.own``, ``showing``), and ``permits`` refuses a write of any other.

``NAMED`` lists the operations that work within limits, with the fields that name their objects.
An operation without a row there shows or moves more than one caller's part of the cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import msgspec
from msgspec.structs import replace

from nodepool_ocb.documents.counting import counted as counted_words
from nodepool_ocb.engine import installing, selection
from nodepool_ocb.engine.selection import SelectionFacts
from nodepool_ocb.engine.world import NodeView, Vertex, World
from nodepool_ocb.errors import Denied, NotFound
from nodepool_ocb.operations.limits import deployments as deploymentlimits
from nodepool_ocb.operations.limits import showing
from nodepool_ocb.operations.nodes.reading import NodeShow
from nodepool_ocb.operations.operation import Note, Operation, Steps
from nodepool_ocb.operations.outside import left_alone
from nodepool_ocb.operations.reads.world import ReadWorld
from nodepool_ocb.operations.selection import ResolveNoderoles, ResolveNodes
from nodepool_ocb.views.grid import NoderoleGrid
from nodepool_ocb.views.pictures.matrix import SeenMatrix

if TYPE_CHECKING:
    from nodepool_ocb.operations.performer import Condition, Reader

T = TypeVar("T")


class Limits(msgspec.Struct, frozen=True):
    """With several deployments, an object of any of them is within; the selector must match, too."""

    deployments: tuple[str, ...] = ()
    selector: str | None = None
    life: int | None = None  # the nodes must have this epoch_base: no two lives of a name share one
    made: float = 0.0  # with a life: when the token was made; another user may have the machine now

    @property
    def text(self) -> str:
        """The same for the same objects."""
        return self.expression if self.life is None else f"{self.expression} {self.life} {self.made}"

    @property
    def expression(self) -> str:
        """The selector of the objects within.

        >>> Limits(("lab", "web"), "rack:r1").expression
        'deployment:lab,web (rack:r1)'
        """
        parts = [f"deployment:{','.join(self.deployments)}"] if self.deployments else []
        return " ".join([*parts, *([f"({self.selector})"] if self.selector is not None else [])])


class ObjectKind(StrEnum):
    """The objects that a field names."""

    NODES = "node"
    NODEROLES = "noderole"
    DEPLOYMENTS = "deployment"
    NODES_MEANT = "selector of nodes"
    NODEROLES_MEANT = "selector of noderoles"


_NODE: Final = {"node": ObjectKind.NODES}
_NODES: Final = {"nodes": ObjectKind.NODES, "selector": ObjectKind.NODES_MEANT}
_NODEROLE: Final = {"noderole": ObjectKind.NODEROLES}
_NODEROLES: Final = {"noderoles": ObjectKind.NODEROLES, "selector": ObjectKind.NODEROLES_MEANT}
_DEPLOYMENT: Final = {"name": ObjectKind.DEPLOYMENTS}

#: The operations that work within limits, by class; each with all fields that name objects.
NAMED: Final[Mapping[str, Mapping[str, ObjectKind]]] = {
    "DeploymentChecks": _DEPLOYMENT,
    "DeploymentCommit": _DEPLOYMENT,
    "DeploymentList": {},
    "DeploymentPause": {"names": ObjectKind.DEPLOYMENTS},
    "DeploymentPropose": _DEPLOYMENT,
    "DeploymentResume": {"names": ObjectKind.DEPLOYMENTS},
    "DeploymentSet": _DEPLOYMENT,
    "DeploymentShow": _DEPLOYMENT,
    "DeploymentUnset": _DEPLOYMENT,
    "DeploymentWait": _DEPLOYMENT,
    "InstallationIdentity": _NODE,
    "InstallationReport": _NODE,
    "InstallationShow": _NODE,
    "NodeAlive": _NODES,
    "NodeAvailable": _NODES,
    "NodeBind": {**_NODES, "deployment": ObjectKind.DEPLOYMENTS, "parents": ObjectKind.NODEROLES},
    "NodeCommit": _NODES,
    "NodeDead": _NODES,
    "NodeDelete": _NODES,
    "NodeMachine": _NODE,
    "NodeGoingDown": _NODE,
    "NodeHold": _NODES,
    "NodeInventory": _NODE,
    "NodeList": {"deployment": ObjectKind.DEPLOYMENTS},
    "NodeMove": {**_NODES, "deployment": ObjectKind.DEPLOYMENTS},
    "NodeReinstall": _NODES,
    "NodeRelease": _NODES,
    "NodeSet": _NODES,
    "NodeShow": _NODE,
    "NodeUnavailable": _NODES,
    "PowerCheck": _NODES,
    "PowerCycle": _NODES,
    "PowerDiscover": {"nodes": ObjectKind.NODES},
    "PowerList": {"nodes": ObjectKind.NODES},
    "PowerOff": _NODES,
    "PowerOn": _NODES,
    "PowerRotate": _NODES,
    "PowerShow": _NODE,
    "NoderoleAttributes": _NODEROLE,
    "NoderoleAttributesChanged": _NODEROLE,
    "NoderoleAttributesDiff": {"noderole": ObjectKind.NODEROLES, "other": ObjectKind.NODEROLES},
    "NoderoleAttributesRuns": _NODEROLE,
    "NoderoleCancel": _NODEROLES,
    "NoderoleCheck": _NODEROLES,
    "NoderoleCheckLook": {"noderoles": ObjectKind.NODEROLES},
    "NoderoleCheckResults": {"asked": ObjectKind.NODEROLES},
    "NoderoleCommit": _NODEROLES,
    "NoderoleCommitOutdated": {"concerned": ObjectKind.NODEROLES},
    "NoderoleExplain": _NODEROLES,
    "NoderoleList": {"deployment": ObjectKind.DEPLOYMENTS, "node": ObjectKind.NODES},
    "NoderoleLog": _NODEROLE,
    "NoderolePropose": _NODEROLES,
    "NoderoleRedeploy": _NODEROLES,
    "NoderoleRefresh": _NODEROLES,
    "NoderoleRetry": {**_NODEROLES, "deployment": ObjectKind.DEPLOYMENTS},
    "NoderoleSet": _NODEROLES,
    "NoderoleShow": _NODEROLE,
    "NoderoleListRuns": _NODEROLES,
    "NoderoleListStates": {"deployment": ObjectKind.DEPLOYMENTS},
    "NoderoleUnbind": _NODEROLES,
    "NoderoleUnset": _NODEROLES,
    "NoderoleWait": _NODEROLES,
    "StatusWatchLook": {"deployment": ObjectKind.DEPLOYMENTS},
    "NoderoleWaitLook": {
        "noderoles": ObjectKind.NODEROLES,
        "nodes": ObjectKind.NODES,
        "deployment": ObjectKind.DEPLOYMENTS,
        "known": ObjectKind.NODEROLES,
    },
}

#: The operations whose answer is a list of rows with names, of which those within the limits are shown.
LISTS: Final = {
    "DeploymentList": ObjectKind.DEPLOYMENTS,
    "NodeList": ObjectKind.NODES,
    "NoderoleList": ObjectKind.NODEROLES,
    "NoderoleListStates": ObjectKind.NODEROLES,
    "PowerDiscover": ObjectKind.NODES,
    "PowerList": ObjectKind.NODES,
    "StatusWatchLook": ObjectKind.NODEROLES,
}


#: The operations that stop noderoles of a node, of each deployment, and the way in which they do.
SHARED: Final = {
    "NodeDelete": "which would go with it; nothing was written; unbind them first, or use a token without these limits",
    "PowerCycle": "which its power serves, too; use a token without these limits",
    "PowerOff": "which its power serves, too; use a token without these limits",
}
#: The look at noderoles that nodes and deployments name: those within the limits are named instead.
LOOK: Final = "NoderoleWaitLook"


class Narrowed(msgspec.Struct, Generic[T], frozen=True):
    """``operation`` names objects within the limits; ``keep`` gives the part of its answer that may be shown."""

    operation: Operation[T]
    keep: Callable[[T], T]


def narrowed(operation: Operation[T], limits: Limits) -> Steps[Narrowed[T]]:
    """The operation within the limits; the objects that a selector means are named instead of it.

    Raises Denied for an operation without a row in ``NAMED`` or in ``deploymentlimits``. Raises NotFound for a name outside the
    limits or of no object, and Invalid for a wrong selector.
    """
    name = type(operation).__name__
    if name in deploymentlimits.NARROWED and limits.deployments and limits.selector is None:
        world = yield from ReadWorld()
        inner = yield from deploymentlimits.narrowed(operation, world, frozenset(limits.deployments))
        return Narrowed(inner.operation, inner.keep)
    named = NAMED.get(name)
    if named is None:
        raise Denied(
            f"{operation.title()} concerns the whole cluster, and this token has limits; use one without limits"
        )
    _refuse_part(operation, limits)
    world = yield from ReadWorld()
    inside = _Inside(world, limits)
    changes: dict[str, Any] = {}
    for field, kind in named.items():
        given = getattr(operation, field)
        if kind is ObjectKind.NODES_MEANT and given is not None:
            meant = yield from ResolveNodes(given)
            changes |= {"selector": None, "nodes": tuple(name for name in meant if name in inside.of(ObjectKind.NODES))}
        elif kind is ObjectKind.NODEROLES_MEANT and given is not None:
            meant = yield from ResolveNoderoles(given)
            found = inside.of(ObjectKind.NODEROLES)
            changes |= {"selector": None, "noderoles": tuple(name for name in meant if name in found)}
            changes |= {"resolved": True} if hasattr(operation, "resolved") else {}
        elif given is not None:
            inside.require(kind, given)
    listed = LISTS.get(name)
    counted = bool(getattr(operation, "roles_only", False))  # the numbers are those of the noderoles within
    changes |= {"roles_only": False} if counted else {}
    shown = inside.of(listed) if listed is not None else None
    if name == LOOK:
        changes |= inside.awaited(operation)
    made = replace(operation, **changes)
    if (reason := SHARED.get(name)) is not None:
        _refuse_shared(inside, made, reason)
    part = showing.PARTS.get(name)
    if part is None:
        return Narrowed(made, lambda answer: kept(answer, shown, counted=counted))
    seen = showing.NamesWithin(world, inside.of(ObjectKind.NODEROLES), inside.of(ObjectKind.DEPLOYMENTS))
    if isinstance(made, NodeShow):
        yield from map(Note, left_alone(showing.others(seen, made.node), "is not shown", "are not shown"))
    return Narrowed(made, lambda answer: part(seen, kept(answer, shown)))


def _refuse_part(operation: Operation[Any], limits: Limits) -> None:
    """Raises Denied for a write of a whole deployment, if the selector of the limits may leave a part of it out."""
    whole = operation.noun == "deployment" and operation.writes
    if whole and limits.deployments and limits.selector is not None:
        raise Denied(
            f"{operation.title()} concerns a whole deployment, and the selector of this token may leave out a part of it;"
            " use one without a selector"
        )


def _refuse_shared(inside: _Inside, operation: Any, reason: str) -> None:
    """Raises Denied if the nodes have noderoles outside the limits."""
    for name in operation.nodes:
        number = inside.others(name)
        if number:
            bound = counted_words(number, "noderole")
            raise Denied(f"node {name} has {bound} outside the limits of this token, {reason}")


def within(operation: Operation[Any], limits: Limits) -> Condition:
    """The condition that the names of an operation that was ``narrowed`` are still within the limits."""

    def condition(reader: Reader) -> None:
        type(reader)(reader.performer, reader.session, {}).run(narrowed(operation, limits))

    return condition


def noderoles_within(limits: Limits, world: World) -> frozenset[str]:
    """The names of the noderoles within limits. Raises Invalid for a wrong selector."""
    return _Inside(world, limits).of(ObjectKind.NODEROLES)


def names_within(world: World, limits: Limits) -> frozenset[str]:
    """The names of the nodes and noderoles within limits. Raises Invalid for a wrong selector."""
    inside = _Inside(world, limits)
    return inside.of(ObjectKind.NODES) | inside.of(ObjectKind.NODEROLES)


def kept(answer: T, shown: frozenset[str] | None, *, counted: bool = False) -> T:
    """The answer of a list with the rows that may be shown; a struct has its rows in fields. ``counted``: only numbers."""
    if shown is None:
        return answer
    found: Any = answer
    if isinstance(answer, NoderoleGrid | SeenMatrix):
        found = answer.within(shown)
        found = found.numbers() if counted else found
    elif isinstance(answer, msgspec.Struct):
        lists = {name: getattr(answer, name) for name in answer.__struct_fields__}
        found = type(answer)(**{name: rows and _rows(rows, shown) for name, rows in lists.items()})
    else:
        found = _rows(found, shown)
    return found  # type: ignore[no-any-return]


#: The fields that name the object of a row.
_NAMING: Final = ("noderole", "name", "node")


def _rows(rows: Any, shown: frozenset[str]) -> Any:
    return [row for row in rows if any(getattr(row, field, None) in shown for field in _NAMING)]


class _Inside:
    """The names of the objects within limits, by kind."""

    def __init__(self, world: World, limits: Limits) -> None:
        self._world, self._limits = world, limits
        self._found: dict[ObjectKind, frozenset[str]] = {}

    def of(self, kind: ObjectKind) -> frozenset[str]:
        if kind not in self._found:
            self._found[kind] = frozenset(self._find(kind))
        return self._found[kind]

    def require(self, kind: ObjectKind, given: str | Iterable[str]) -> None:
        """Raises NotFound, in the same words for an absent object and for one outside."""
        for name in (given,) if isinstance(given, str) else given:
            if name not in self.of(kind):
                raise NotFound(f"{kind} {name} does not exist")

    def others(self, node: str) -> int:
        """The number of the noderoles of a node that are outside."""
        return showing.others(showing.NamesWithin(self._world, self.of(ObjectKind.NODEROLES), frozenset()), node)

    def awaited(self, look: Any) -> dict[str, Any]:
        """The fields of a look that names the noderoles within."""
        names = {*look.noderoles}
        for name in self.of(ObjectKind.NODEROLES) if look.nodes or look.deployment is not None else ():
            vertex = self._world.vertex(name)
            if vertex is not None and (vertex.node.name in look.nodes or vertex.record.deployment == look.deployment):
                names.add(name)
        return {"noderoles": tuple(sorted(names)), "nodes": (), "deployment": None}

    def _find(self, kind: ObjectKind) -> Iterable[str]:
        """Limits without deployments have none."""
        if kind is ObjectKind.DEPLOYMENTS:
            return (name for name in self._limits.deployments if name in self._world.deployments)
        facts = SelectionFacts(0.0, _no_outdated)
        expression = selection.parse(self._limits.expression)
        with suppress(NotFound):  # a deployment or a role that the limits name is gone, so they mean nothing
            if kind is ObjectKind.NODES:
                return [view.name for view in selection.nodes(self._world, expression, facts) if self._alike(view)]
            found = selection.noderoles(self._world, expression, facts)
            return [vertex.name for vertex in found if self._alike(vertex.node)]
        return ()

    def _alike(self, view: NodeView) -> bool:
        """Whether the node is the one that the limits were made for: no later one of its name, and no later user has it."""
        life, made = self._limits.life, self._limits.made
        if life is None:
            return True
        return view.record is not None and view.record.epoch_base == life and made >= installing.tokens_from(view)


def _no_outdated(_: Iterable[Vertex]) -> Iterable[Vertex]:
    raise Denied("the selector of this token has `outdated`, which is no limit; have another token made")
