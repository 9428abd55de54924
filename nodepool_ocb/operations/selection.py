"""The nodes or noderoles of a call: names, or a selector.

A selector is resolved one time in a call: after a conflict the call goes on with the same names. Noderoles of task lists are
left out of it, because only runs of tasks move them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Final

from nodepool_ocb.engine import selection
from nodepool_ocb.engine.deployments import OF_TASKS
from nodepool_ocb.engine.world import NodeView, Vertex, World
from nodepool_ocb.errors import NotFound
from nodepool_ocb.operations.names import node_of, noderole_of
from nodepool_ocb.operations.operation import Lookup, Steps

if TYPE_CHECKING:
    from nodepool_ocb.operations.performer import Reader

MOST_NAMED: Final = 20  # names that do not exist


class ResolveNodes(Lookup[tuple[str, ...]], frozen=True):
    """The names of the nodes that a selector means in the world that was read last; a note if there is none.

    Raises Invalid for a wrong selector.
    """

    records = "everything below /ocb"
    kept = True

    selector: str

    def answer(self, reader: Reader) -> tuple[str, ...]:
        found = selection.nodes(reader.world, selection.parse(self.selector), facts(reader))
        return _noted(reader, (view.name for view in found if not _of_tasks(view)))


class ResolveNoderoles(Lookup[tuple[str, ...]], frozen=True):
    """As ``ResolveNodes``, for noderoles."""

    records = "everything below /ocb"
    kept = True

    selector: str

    def answer(self, reader: Reader) -> tuple[str, ...]:
        found = selection.noderoles(reader.world, selection.parse(self.selector), facts(reader))
        return _noted(reader, (vertex.name for vertex in found if vertex.record.task_run is None))


class ExistingAtFirst(Lookup[frozenset[str]], frozen=True):
    """The ``names`` of the first attempt of a call: a record that existed then may be gone after a conflict."""

    records = ""
    kept = True

    names: frozenset[str]

    @property
    def key(self) -> object:
        return ExistingAtFirst

    def answer(self, reader: Reader) -> frozenset[str]:  # noqa: ARG002
        return self.names


class MatchNodes(Lookup["frozenset[str] | None"], frozen=True):
    """The names of all nodes that a selector means, those of task lists included; None without a selector."""

    records = "everything below /ocb"

    selector: str | None

    def answer(self, reader: Reader) -> frozenset[str] | None:
        if self.selector is None:
            return None
        found = selection.nodes(reader.world, selection.parse(self.selector), facts(reader))
        return frozenset(view.name for view in found)


class MatchNoderoles(Lookup["frozenset[str] | None"], frozen=True):
    """As ``MatchNodes``, for noderoles."""

    records = "everything below /ocb"

    selector: str | None

    def answer(self, reader: Reader) -> frozenset[str] | None:
        if self.selector is None:
            return None
        found = selection.noderoles(reader.world, selection.parse(self.selector), facts(reader))
        return frozenset(vertex.name for vertex in found)


def check(selector: str) -> None:
    """Raises Invalid for a wrong selector."""
    selection.parse(selector)


def nodes(world: World, names: Sequence[str], selector: str | None) -> Steps[list[NodeView]]:
    """The nodes of a call; of a selector, those that still exist. Raises NotFound for a name that does not exist."""
    if selector is None:
        return nodes_again(world, names, resolved=False)
    meant = yield from ResolveNodes(selector)
    return nodes_again(world, meant, resolved=True)


def among(world: World, known: Collection[str], names: Sequence[str], selector: str | None) -> Steps[list[str]]:
    """The nodes in ``known`` that are named, if any are, and that the selector means, by name. Raises NotFound as ``nodes``."""
    meant = yield from MatchNodes(selector)
    for name in names:
        node_of(world, name)
    wanted = world.nodes.keys() & known & (set(names) if names else set(known))
    return sorted(wanted if meant is None else wanted & meant)


def nodes_again(world: World, names: Iterable[str], *, resolved: bool) -> list[NodeView]:
    """The nodes of these names; if a selector was ``resolved`` to them, those that still exist."""
    chosen = _existing(world, names, _node_exists, node_of, resolved)
    return [node_of(world, name) for name in chosen]


def noderoles(world: World, names: Sequence[str], selector: str | None) -> Steps[list[Vertex]]:
    """As ``nodes``, for noderoles."""
    if selector is None:
        return noderoles_again(world, names, resolved=False)
    meant = yield from ResolveNoderoles(selector)
    return noderoles_again(world, meant, resolved=True)


def noderoles_again(world: World, names: Iterable[str], *, resolved: bool) -> list[Vertex]:
    """As ``nodes_again``, for noderoles."""
    chosen = _existing(world, names, lambda now, name: now.vertex(name) is not None, noderole_of, resolved)
    return [noderole_of(world, name) for name in chosen]


def facts(reader: Reader) -> selection.SelectionFacts:
    """The facts that selectors ask for beside the records."""

    def find(vertices: Sequence[Vertex]) -> Iterable[Vertex]:
        from nodepool_ocb.operations.commits import outdated  # here, since few selectors ask for it

        return reader.run(outdated.find(reader.world, vertices)).vertices

    return selection.SelectionFacts(reader.session.now(), find)


def _noted(reader: Reader, names: Iterable[str]) -> tuple[str, ...]:
    found = tuple(names)
    if not found:
        reader.performer.caller.note("nothing matches the selector")
    return found


def _node_exists(world: World, name: str) -> bool:
    view = world.nodes.get(name)
    return view is not None and view.record is not None


def _existing(
    world: World,
    names: Iterable[str],
    exists: Callable[[World, str], bool],
    find: Callable[[World, str], object],
    resolved: bool,
) -> list[str]:
    """Raises the errors of ``find`` as one, unless the names were resolved from a selector."""
    wanted = list(dict.fromkeys(names))
    if resolved:
        return [name for name in wanted if exists(world, name)]
    missing = [name for name in wanted if not exists(world, name)]
    if len(missing) < 2:
        return wanted
    found = []
    for name in missing[:MOST_NAMED]:  # a record that cannot be read is a Conflict
        try:
            find(world, name)
        except NotFound as unknown:
            found.append(str(unknown))
    more = len(missing) - MOST_NAMED
    raise NotFound("\n".join([*found, *([f"and {more} more names that do not exist"] if more > 0 else [])]))


def _of_tasks(view: NodeView) -> bool:
    return view.record is not None and view.record.virtual and OF_TASKS in view.record.labels
