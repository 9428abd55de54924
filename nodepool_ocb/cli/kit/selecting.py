"""The nodes or noderoles that a verb is for: names, a list of names on stdin (``-``), or what a selector means (``-l``).

A selector is asked once: a command that has to decide again goes on with what was meant first. What task lists made is
left out of it, for only runs of tasks move that.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar, Final, Generic, TypeVar

import click

from nodepool_ocb.cli.kit import completion, output
from nodepool_ocb.cli.kit.names import node_of, noderole_of
from nodepool_ocb.engine import selection
from nodepool_ocb.engine.deployments import OF_TASKS
from nodepool_ocb.engine.world import NodeView, Vertex, World
from nodepool_ocb.errors import NotFound

if TYPE_CHECKING:
    from nodepool_ocb.store.client.session import Session

STDIN: Final = "-"
BOM: Final = "\ufeff"  # with which some editors begin a file
MOST_NAMED: Final = 20  # names that do not exist
MOST_LETTERS: Final = 16 * 1024 * 1024  # of a list on stdin

nodes_argument = click.argument("fqdns", nargs=-1, metavar="[FQDN...|-]", shell_complete=completion.nodes)
noderoles_argument = click.argument("names", nargs=-1, metavar="[ROLE@FQDN...|-]", shell_complete=completion.noderoles)
selector_option = click.option(
    "-l",
    "--selector",
    metavar="EXPR",
    shell_complete=completion.selectors,
    help="Those that it means, as 'tag:web role:ntp state:ERROR': docs/selectors.md.",
)


T = TypeVar("T")


class _Asked(Generic[T]):
    """Names, or a selector; ``scope``: it is a selector, so what the verb has no use for is left alone."""

    what: ClassVar[str]  # its names are called so

    def __init__(
        self, given: Sequence[str], selector: str | None, sure: Callable[[list[T]], None] | None = None
    ) -> None:
        """Reads the list on stdin. Raises UsageError unless there is one of the two; Invalid for a wrong selector.

        ``sure`` is called with what is meant when it is chosen, and may end the command.
        """
        if given and selector is not None:
            raise click.UsageError(f"give {self.what}, or -l EXPR, not both")
        if not given and selector is None:
            raise click.UsageError(f"give {self.what}, or - for a list of them on stdin, or -l EXPR")
        self._expression = None if selector is None else selection.parse(selector)
        self._names: dict[str, None] | None = None if selector is not None else dict.fromkeys(_with_stdin(given))
        self._sure = sure
        self.scope = selector is not None

    def of(self, opened: Session, world: World) -> list[T]:
        """Raises NotFound for a name that does not exist; of what a selector meant, those that are still there."""
        if self._expression is not None and self._names is None:
            self._names = dict.fromkeys(self._meant(world, self._expression, facts(opened, world)))
            if not self._names:
                output.say("nothing matches the selector")
        found = self.again(world)
        if self._sure is not None:
            self._sure(found)
            self._sure = None
        return found

    def again(self, world: World) -> list[T]:
        """The same, once they are chosen."""
        names = [name for name in self._names or () if not self.scope or self._there(world, name)]
        missing = [name for name in names if not self._there(world, name)]
        if len(missing) > 1:
            raise NotFound(self._all_unknown(world, missing))
        return [self._named(world, name) for name in names]

    def _all_unknown(self, world: World, missing: Sequence[str]) -> str:
        """The answer of ``_named`` for each of them; raises its exception for a record that cannot be read."""
        found = []
        for name in missing[:MOST_NAMED]:
            try:
                self._named(world, name)
            except NotFound as unknown:
                found.append(str(unknown))
        left = len(missing) - MOST_NAMED
        return "\n".join([*found, *([f"and {left} more names that do not exist"] if left > 0 else [])])

    def _meant(self, world: World, expression: selection.Expression, known: selection.Facts) -> Iterator[str]:
        """The names of what a selector means, without what task lists made."""
        raise NotImplementedError

    def _named(self, world: World, name: str) -> T:
        """Raises NotFound."""
        raise NotImplementedError

    def _there(self, world: World, name: str) -> bool:
        raise NotImplementedError


class Nodes(_Asked["NodeView"]):
    """The nodes that a verb is for."""

    what = "names of nodes"

    def _meant(self, world: World, expression: selection.Expression, known: selection.Facts) -> Iterator[str]:
        return (view.name for view in selection.nodes(world, expression, known) if not _of_tasks(view))

    def _named(self, world: World, name: str) -> NodeView:
        return node_of(world, name)

    def _there(self, world: World, name: str) -> bool:
        view = world.nodes.get(name)
        return view is not None and view.record is not None


class Noderoles(_Asked["Vertex"]):
    """The noderoles that a verb is for."""

    what = "ROLE@FQDN"

    def left(self, world: World) -> list[Vertex]:
        """Those that were chosen and are still there."""
        return [vertex for name in self._names or () if (vertex := world.vertex(name)) is not None]

    def names(self, _: World) -> list[str]:
        """What those are called that were chosen, though they may be gone: for who waits for them."""
        return list(self._names or ())

    def _meant(self, world: World, expression: selection.Expression, known: selection.Facts) -> Iterator[str]:
        return (each.name for each in selection.noderoles(world, expression, known) if each.record.task_run is None)

    def _named(self, world: World, name: str) -> Vertex:
        return noderole_of(world, name)

    def _there(self, world: World, name: str) -> bool:
        return world.vertex(name) is not None


def nodes_meant(opened: Session, world: World, selector: str | None) -> set[str] | None:
    """The names of all nodes that a selector means, for those who look; None without one."""
    if selector is None:
        return None
    return {view.name for view in selection.nodes(world, selection.parse(selector), facts(opened, world))}


def noderoles_meant(opened: Session, world: World, selector: str | None) -> set[str] | None:
    """As ``nodes_meant``."""
    if selector is None:
        return None
    return {vertex.name for vertex in selection.noderoles(world, selection.parse(selector), facts(opened, world))}


def divided(words: Sequence[str], selector: str | None, what: str) -> tuple[Sequence[str], str]:
    """Names, and the one word that stands after them; raises UsageError where that is missing, or not alone after ``-l``."""
    if not words or (selector is None and len(words) == 1):
        raise click.UsageError(f"give {'-l EXPR and ' if selector is not None else 'names, and after them '}{what}")
    if selector is not None and len(words) > 1:
        raise click.UsageError(f"with -l only {what} is given, and no names")
    return words[:-1], words[-1]


def facts(opened: Session, world: World) -> selection.Facts:
    """What selectors ask beside the records."""
    from nodepool_ocb.cli.noderoles import outdated

    return selection.Facts(opened.now(), lambda vertices: outdated.find(opened, world, vertices).vertices)


def listed(lines: Iterable[str]) -> Iterator[str]:
    """The names of a list, one a line; raises UsageError for a line that has more.

    >>> list(listed(["n1", "", "  # the second rack", "n2  # and its twin"]))
    ['n1', 'n2']
    """
    for number, line in enumerate(lines, 1):
        words = line.partition("#")[0].split()
        if len(words) > 1:
            raise click.UsageError(f"line {number} of the list on stdin has more than one name: {line.strip()!r}")
        yield from words


def _with_stdin(given: Iterable[str]) -> Iterator[str]:
    for name in given:
        if name != STDIN:
            yield name
            continue
        try:
            text = sys.stdin.read(MOST_LETTERS + 1)
        except UnicodeDecodeError:
            raise click.UsageError("the list on stdin is not UTF-8") from None
        if len(text) > MOST_LETTERS:
            raise click.UsageError("the list on stdin is longer than 16 MiB")
        yield from listed(text.removeprefix(BOM).splitlines())


def _of_tasks(view: NodeView) -> bool:
    return view.record is not None and view.record.virtual and OF_TASKS in view.record.labels
