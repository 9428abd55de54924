"""Binding, the state machine and rollouts as stories: the ``.story`` files beside this one, which say how they are written."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

import pytest

from nodepool_ocb.engine.noderole import Event, apply
from nodepool_ocb.engine.world import Vertex, World
from nodepool_ocb.errors import Conflict, OcbError
from nodepool_ocb.model.records import Node, NodeRole, Role, State
from nodepool_ocb.rollout import commands
from nodepool_ocb.rollout.plan import begin
from nodepool_ocb.rollout.strategy import Criteria, Group, Selector, Strategy
from tests.engine import test_binding as bindings
from tests.engine.advancing import advance
from tests.rollout.simulation import Driver, Machines
from tests.stories.reading import Line, Story, read, stories

ON = "n"  # the node of the noderoles
PHASES = ("prepare", "deploy")


def called(story: Story) -> str:
    return story.title


# -- noderoles --


class Graph:
    """Noderoles of one node."""

    def __init__(self) -> None:
        self.world = World()
        self.now = 0.0
        self.events = 0

    def takes(self, text: str) -> None:
        """Carry out a line of a story."""
        first, *names = text.removesuffix("-> refused").split()
        if first.upper() in list(Event):
            self._happens(Event(first.upper()), names, refused=text.endswith("-> refused"))
        elif self.events:
            self._expects(text)
        else:
            self._draws(text)

    def _happens(self, event: Event, names: list[str], *, refused: bool) -> None:
        self.now, self.events = self.now + 1.0, self.events + 1
        try:
            moved = apply({self._vertex(name): event for name in names}, self.now)
        except Conflict:
            assert refused, f"{event} is refused"
            return
        assert not refused, f"{event} is not refused"
        advance(self.world, moved)

    def _draws(self, text: str) -> None:
        above = None
        for part in text.split("<-"):
            name, *words = part.split()
            known = self.world.vertex(f"{name}@{ON}")
            parents = {*(known.record.parents if known else ()), *([f"{above}@{ON}"] if above else ())}
            if known is None:
                state = State(words.pop(0)) if words and "=" not in words[0] else State.PROPOSED
                fields = {field: read_value(value) for field, value in (word.split("=") for word in words)}
                record = NodeRole.of(state=state, since=0.0, parents=tuple(sorted(parents)), **fields)
            else:
                record = NodeRole(state=known.record.state, since=0.0, parents=tuple(sorted(parents)))
            self.world.put_noderole(ON, name, record)
            above = name

    def _expects(self, text: str) -> None:
        for part in text.split(","):
            name, state, *fields = part.split()
            record = self._vertex(name).record
            assert record.state == state, f"{name} is {record.state}"
            for field, value in (word.split("=") for word in fields):
                assert str(getattr(record, field)).split()[0] == value, f"{field} of {name} is {getattr(record, field)}"

    def _vertex(self, name: str) -> Vertex:
        found = self.world.vertex(f"{name}@{ON}")
        assert found is not None, f"{name} is not in the graph"
        return found


def read_value(text: str) -> object:
    """A value of a record: number, truth, or text."""
    if text in ("True", "False"):
        return text == "True"
    return int(text) if text.isdecimal() else text


@pytest.mark.parametrize("story", stories("noderoles.story"), ids=called)
def test_noderoles(story: Story) -> None:
    assert follow(story).events, f"{story.lines[-1].place}: nothing happens"


def follow(story: Story) -> Graph:
    """The graph at the end of the story."""
    graph = Graph()
    for line in story.lines:
        with line.shown() as text:
            graph.takes(text)
    return graph


# -- binding --


def role_of(words: list[str]) -> Role:
    """A role as its line says it."""
    fields: dict[str, list[str]] = {}
    for word in words:
        if word in ("requires", "conflicts", "provides", "flags"):
            fields[word] = []
        else:
            list(fields.values())[-1].append(word)
    return Role(barclamp="b", jig="noop", **{name: tuple(values) for name, values in fields.items()})


def binds(world: World, text: str) -> None:
    """Carry out ``bind ROLE on NODE [in DEPLOYMENT] [-> refused TEXT]``."""
    command, arrow, refusal = text.partition("->")
    _, role, _, node, *more = command.split()
    options = {"deployment": more[1]} if more else {}
    if not arrow:
        bindings.bind(world, role, node, **options)
        return
    with pytest.raises(OcbError, match=re.escape(refusal.strip().removeprefix("refused "))):
        bindings.bind(world, role, node, **options)


def edges(world: World) -> set[str]:
    """What is bound: "a <- b" for each edge, "a" for what stands alone."""
    pairs = {f"{parent.name} <- {vertex.name}" for vertex in world.vertices() for parent in vertex.parents}
    joined = {name for pair in pairs for name in pair.split(" <- ")}
    return pairs | ({vertex.name for vertex in world.vertices()} - joined)


def expected(line: Line) -> Iterator[str]:
    names = line.text.split(" <- ")
    return map(" <- ".join, pairwise(names)) if len(names) > 1 else iter(names)


@pytest.mark.parametrize("story", stories("binding.story"), ids=called)
def test_binding(story: Story) -> None:
    given = [line.text.split()[1:] for line in story.lines if line.text.startswith("role ")]
    world = bindings.world({name: role_of(words) for name, *words in given}, "n1", "n2", "n3")
    for line in story.lines:
        if line.text.startswith("bind "):
            with line.shown() as text:
                binds(world, text)
    ends = [line for line in story.lines if not line.text.startswith(("role ", "bind "))]
    with ends[-1].shown():
        assert edges(world) == {each for line in ends for each in expected(line)}


# -- rollouts --


def group_of(words: list[str]) -> Group:
    """A group as its line says it: NAME [critical] [after A B] [least N] [most N lost] of NODE..."""
    named, nodes = words[: words.index("of")], words[words.index("of") + 1 :]
    after = named[named.index("after") + 1 :] if "after" in named else []
    after = after[: next((place for place, word in enumerate(after) if word in ("least", "most")), len(after))]
    least = int(named[named.index("least") + 1]) if "least" in named else None
    most = int(named[named.index("most") + 1]) if "most" in named else None
    return Group(
        name=named[0],
        critical="critical" in named,
        depends_on=tuple(after),
        selectors=(Selector(node_names=tuple(nodes)),),
        success_criteria=Criteria(minimum_successful_nodes=least, maximum_failed_nodes=most),
    )


class RolledOut:
    """A rollout of the groups, on machines that fail as the story says."""

    def __init__(self, groups: tuple[Group, ...]) -> None:
        self.fails: dict[str, str] = {}
        names = sorted({name for group in groups for name in group.selectors[0].node_names} - {"nobody"})
        rollout = begin(Strategy(groups=groups), {name: Node() for name in names}, now=1.0)
        self.driver = Driver(rollout, Machines(self._outcome))

    def _outcome(self, node: str, phase: int, attempt: int) -> str:  # noqa: ARG002
        return "fail" if self.fails.get(node) == PHASES[phase] else "ok"

    def takes(self, text: str) -> None:
        """Carry out a line of a story."""
        rollout, now = self.driver.rollout, self.driver.now
        match text.split():
            case [node, "fails", "in", phase]:
                self.fails[node] = phase
            case [node, "works"]:
                del self.fails[node]
            case ["run"]:
                self.driver.run()
            case ["retry"]:
                self.driver.write(commands.retry(rollout, now))
            case ["accept", group]:
                self.driver.write(commands.accept(rollout, group, "it may", now))
            case _:
                name, _, wanted = text.partition(": ")
                assert self._stands(name) == wanted

    def _stands(self, name: str) -> str:
        rollout = self.driver.rollout
        if name == "rollout":
            return rollout.head.state
        if name in rollout.nodes:
            return rollout.nodes[name].state
        record = rollout.groups[name]
        return f"{record.state}, {record.reason}" if record.reason else record.state


@pytest.mark.parametrize("story", stories("rollouts.story"), ids=called)
def test_rollout(story: Story) -> None:
    groups = [line for line in story.lines if line.text.startswith("group ")]
    rolled = RolledOut(tuple(group_of(line.text.split()[1:]) for line in groups))
    for line in story.lines[len(groups) :]:
        with line.shown() as text:
            rolled.takes(text)


# -- the reader --


def test_a_failure_is_shown_with_the_line_of_its_story() -> None:
    (story,) = read("# how\nIt fails\n    base TODO\n    claim base\n    base ACTIVE\n", "x.story")
    assert story.title == "It fails"
    with pytest.raises(AssertionError) as failure:
        follow(story)
    assert failure.value.__notes__ == ["x.story:5: base ACTIVE"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("    claim base\n", "x.story:1: a story begins"),
        ("A\nB\n", "x.story:2: an empty"),
        ("A\n", "x.story:2: A: nothing"),
    ],
)
def test_an_invalid_story_is_refused_with_its_line(text: str, said: str) -> None:
    with pytest.raises(AssertionError, match=re.escape(said)):
        list(read(text, "x.story"))
