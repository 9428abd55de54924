"""The nodes and noderoles of a world that an expression selects. Pure.

For a noderole, a criterion of nodes applies to its node. For a node, parts joined by ``and`` apply to *one* noderole if any of
them needs one. So ``role:ntp not state:ACTIVE`` is a node with an ntp that is not ACTIVE. If none of them needs one, ``not``
means that there is none: ``not role:ntp`` is a node without ntp. ``has(...)`` selects a noderole of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from operator import attrgetter
from typing import Any, Final

import msgspec

from nodepool_ocb.documents.suggest import did_you_mean
from nodepool_ocb.engine.deployments import below
from nodepool_ocb.engine.maintenance import held
from nodepool_ocb.engine.selection.bits import bits, chosen, flagged, flags
from nodepool_ocb.engine.selection.expression import (
    All,
    Criterion,
    CriterionKind,
    Either,
    Expression,
    Has,
    Not,
    Word,
    anchored,
    of_noderoles,
)
from nodepool_ocb.engine.selection.facts import NUMBERS, WORDS, compared
from nodepool_ocb.engine.selection.facts import words as words_of
from nodepool_ocb.engine.world import NodeView, Vertex, World
from nodepool_ocb.errors import NotFound
from nodepool_ocb.model.drift import UNCHECKED
from nodepool_ocb.model.joining import Inventory, MachineFacts
from nodepool_ocb.model.records import Node, State

_LISTED: Final = {
    "role": "role",
    "deployment": "deployment",
}  # kinds of names with a list of their own; nodes show all others


class SelectionFacts(msgspec.Struct, frozen=True):
    """Facts that no record has."""

    now: float
    outdated: Callable[[Sequence[Vertex]], Iterable[Vertex]]  # asked seldom, and of few: it reads attributes


def nodes(world: World, expression: Expression, facts: SelectionFacts) -> list[NodeView]:
    """The nodes that are meant, by name; raises NotFound for a value that exists nowhere, and is no pattern."""
    meaning = _WorldSets(world, facts)
    return chosen(meaning.views, meaning.of_nodes(expression, meaning.every_node))


def noderoles(world: World, expression: Expression, facts: SelectionFacts) -> list[Vertex]:
    """The noderoles that are meant, by name; raises as ``nodes``."""
    meaning = _WorldSets(world, facts)
    return sorted(
        chosen(meaning.vertices, meaning.of_noderoles(expression, meaning.every_noderole)), key=attrgetter("name")
    )


#: The criteria that are true or false of a node's record.
TRUTHS: Final[dict[CriterionKind, Callable[[Node], bool]]] = {
    CriterionKind.ADMIN: lambda node: node.admin,
    CriterionKind.VIRTUAL: lambda node: node.virtual,
    CriterionKind.ALIVE: lambda node: node.alive or node.virtual,
    CriterionKind.AVAILABLE: lambda node: node.available,
}


class _WorldSets:
    """The nodes and noderoles of a world in an order, in which sets of them are bits."""

    def __init__(self, world: World, facts: SelectionFacts) -> None:
        self._world, self._facts = world, facts
        named = sorted((name, view) for name, view in world.nodes.items() if view.record is not None)
        self.views = [view for _, view in named]
        self._records: list[Node] = [view.record for view in self.views if view.record is not None]
        self.vertices = [vertex for view in self.views for vertex in view.noderoles.values()]
        self._place = [place for place, view in enumerate(self.views) for _ in view.noderoles]  # of each one's node
        self.every_node = (1 << len(self.views)) - 1
        self.every_noderole = (1 << len(self.vertices)) - 1
        self._found: dict[Criterion, int] = {}

    # -- joining --

    def of_nodes(self, expression: Expression, within: int) -> int:
        """The selected nodes among ``within``."""
        if anchored(expression):
            return self._carriers(self.of_noderoles(expression, self._carried(within))) & within
        match expression:
            case Has(inner):
                return self._carriers(self.of_noderoles(inner, self._carried(within))) & within
            case Not(inner):
                return within & ~self.of_nodes(inner, within)
            case Either(parts):
                return _joined(self.of_nodes(part, within) for part in parts)
            case All(parts):
                for part in _in_turn(parts):
                    within = self.of_nodes(part, within)
                return within
            case Criterion():
                return self._of_node(expression) & within

    def of_noderoles(self, expression: Expression, within: int) -> int:
        """The selected noderoles among ``within``."""
        match expression:
            case Has():
                return self._carried(self.of_nodes(expression, self._carriers(within))) & within
            case Not(inner):
                return within & ~self.of_noderoles(inner, within)
            case Either(parts):
                return _joined(self.of_noderoles(part, within) for part in parts)
            case All(parts):
                for part in _in_turn(parts):
                    within = self.of_noderoles(part, within)
                return within
            case Criterion(CriterionKind.OUTDATED):
                return self._outdated(within)
            case Criterion():
                return self._of_noderole(expression) & within

    def _carried(self, mask: int) -> int:
        """The noderoles of nodes."""
        if mask == self.every_node:
            return self.every_noderole
        return flagged(map(flags(mask, len(self.views)).__getitem__, self._place)) if mask else 0

    def _carriers(self, mask: int) -> int:
        """The nodes of noderoles."""
        return bits(set(chosen(self._place, mask))) if mask else 0

    # -- criteria --

    def _outdated(self, within: int) -> int:
        found = set(self._facts.outdated(chosen(self.vertices, within)))
        return flagged(vertex in found for vertex in self.vertices) & within

    def _of_node(self, criterion: Criterion) -> int:
        if criterion not in self._found:
            self._found[criterion] = flagged(self._node_truths(criterion))
        return self._found[criterion]

    def _of_noderole(self, criterion: Criterion) -> int:
        if criterion.kind in (CriterionKind.DEPLOYMENT, CriterionKind.BELOW):
            return flagged(map(self._deployments(criterion).__contains__, self._column("deployment")))
        if not of_noderoles(criterion):
            return self._carried(self._of_node(criterion))
        if criterion not in self._found:
            self._found[criterion] = self._noderole_bits(criterion)
        return self._found[criterion]

    def _noderole_bits(self, criterion: Criterion) -> int:
        match criterion.kind:
            case CriterionKind.NAME:
                return _joined(map(self._named, criterion.values))
            case CriterionKind.ROLE:
                return self._of_roles(criterion.values)
            case CriterionKind.DRIFT:
                words = {word.text for word in criterion.values}
                return flagged((drift or UNCHECKED) in words for drift in self._column("drift"))
            case CriterionKind.FAILED:
                wanted = {State.ERROR}
            case _:
                wanted = {State(word.text) for word in criterion.values}
        return flagged(map(wanted.__contains__, self._column("state")))

    def _of_roles(self, words: Iterable[Word]) -> int:
        roles = [vertex.role for vertex in self.vertices]
        wanted = _meant("role", words, {*roles, *self._world.roles})
        return flagged(map(wanted.__contains__, roles))

    def _named(self, word: Word) -> int:
        """Of ``ROLE@FQDN``, or of a node's name alone."""
        fqdn = word.second or word
        found = self._carried(
            self._of_node(Criterion(CriterionKind.NAME, (msgspec.structs.replace(fqdn, second=None),)))
        )
        if word.second is None:
            return found
        found &= self._of_roles([word])
        if not found and word.glob is None and fqdn.glob is None:
            raise NotFound(
                f"selector, character {word.at}: noderole {word.text}@{fqdn.text} does not exist; see: nodepool-ocb noderole list"
            )
        return found

    def _column(self, field: str) -> Iterable[Any]:
        return map(attrgetter(f"record.{field}"), self.vertices)

    def _deployments(self, criterion: Criterion) -> set[str]:
        found = _meant("deployment", criterion.values, self._world.deployments)
        if criterion.kind is CriterionKind.BELOW:
            found |= {each for name in found for each in below(self._world, name)}
        return found

    def _node_truths(self, criterion: Criterion) -> Iterable[bool]:
        kind, words = criterion.kind, criterion.values
        if kind in TRUTHS:
            wanted = {word.text == "yes" for word in words}
            return (truth in wanted for truth in map(TRUTHS[kind], self._records))
        if kind is CriterionKind.HELD:
            return (held(node, self._facts.now) for node in self._records)
        if kind is CriterionKind.NAME:
            hosts = [(view.name, view.name.partition(".")[0]) for view in self.views]
            return self._any_of("node", hosts, words)
        if kind is CriterionKind.TAG:
            return self._any_of("tag", [node.tags for node in self._records], words)
        if kind is CriterionKind.RACK:
            return self._any_of("rack", [(node.rack,) if node.rack else () for node in self._records], words)
        if kind in NUMBERS:
            return (facts is not None and compared(criterion, facts) for facts in self._facts_of_machines())
        if kind in WORDS:
            return self._any_of(
                str(kind), [words_of(kind, facts) if facts else () for facts in self._facts_of_machines()], words
            )
        if kind is CriterionKind.LABEL:
            labels = _labels(words, [node.labels for node in self._records])
            return (not labels.isdisjoint(node.labels.items()) for node in self._records)
        deployments = self._deployments(criterion)
        return (node.deployment in deployments for node in self._records)

    def _facts_of_machines(self) -> Iterable[MachineFacts | None]:
        """Of each node; None for one without an inventory, of which no criterion of facts holds."""
        known = self._world.of(Inventory)
        return (known[view.name].record.facts if view.name in known else None for view in self.views)

    def _any_of(self, what: str, values: Sequence[Sequence[str]], words: Iterable[Word]) -> Iterable[bool]:
        wanted = _meant(what, words, set(chain.from_iterable(values)))
        return (not wanted.isdisjoint(each) for each in values)


def _joined(masks: Iterable[int]) -> int:
    found = 0
    for mask in masks:
        found |= mask
    return found


def _in_turn(parts: Iterable[Expression]) -> list[Expression]:
    """The parts, with those that read attributes last: they are then asked of fewer candidates."""
    return sorted(parts, key=asks_outdated)


def asks_outdated(expression: Expression) -> bool:
    """Whether the expression has the criterion ``outdated``."""
    match expression:
        case Criterion(kind):
            return kind is CriterionKind.OUTDATED
        case Not(inner) | Has(inner):
            return asks_outdated(inner)
        case All(parts) | Either(parts):
            return any(map(asks_outdated, parts))


def _meant(what: str, words: Iterable[Word], known: Iterable[str]) -> set[str]:
    """The known texts that any of the words means; raises NotFound for a word that is no pattern and no known text."""
    known, found = set(known), set[str]()
    for word in words:
        own = word.among(known)
        if not own and word.glob is None:
            kind, equals, value = word.text.partition("=")
            meant = f"; did you mean `{kind}:{value}`?" if equals else did_you_mean(word.text, known)
            meant = meant or f"; see: nodepool-ocb {_LISTED.get(what, 'node')} list"
            raise NotFound(f"selector, character {word.at}: {what} {word.text} does not exist{meant}")
        found |= own
    return found


def _labels(words: Iterable[Word], labels: Iterable[Any]) -> set[tuple[str, str]]:
    """The selected (key, value) pairs, as in ``_meant``; a word without a second part means every value of its key."""
    known = {pair for each in labels for pair in each.items()}
    found = set[tuple[str, str]]()
    for word in words:
        keys = _meant("label", [word], {key for key, _ in known})
        pairs = {pair for pair in known if pair[0] in keys}
        if word.second is not None:
            values = _meant(f"label {word.text} with value", [word.second], {value for _, value in pairs})
            pairs = {pair for pair in pairs if pair[1] in values}
        found |= pairs
    return found
