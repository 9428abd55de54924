"""Noderoles with equal inputs, without a look at the inputs: for a cluster in which hundreds of nodes are made alike.

The inputs of a noderole follow from its role, its deployment and its ancestors, if no attributes are set for single
noderoles. On one node, a role is one noderole. So two noderoles have equal inputs if both have all ancestors on their own
nodes and the roles above them are the same, with the same edges. Any other noderole has no key here.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final, TypeAlias

from nodepool_ocb.engine import unreadable
from nodepool_ocb.engine.inputs.layers import Blobs, Catalogue
from nodepool_ocb.engine.world import NodeView, Vertex
from nodepool_ocb.model.records import State

#: The number of a form: a role and a deployment below parents of such forms. None: other noderoles may differ.
_Form: TypeAlias = int | None
_NOTHING: Final = 0  # seen beside a noderole that looks at nothing there


class AlikeInputs:
    """Keys of noderoles of one world, with the attributes that were read. Noderoles of equal keys have equal inputs."""

    def __init__(self, catalogue: Catalogue, blobs: Blobs) -> None:
        self._catalogue = catalogue
        self._blobs = blobs
        self._forms: dict[Vertex, _Form] = {}
        self._numbers: dict[Hashable, int] = {}
        self._beside: dict[str, _Form] = {}  # by node

    def key(self, vertex: Vertex) -> Hashable | None:
        """None if its inputs have to be looked at."""
        form = self._form(vertex)
        if form is None or not self._catalogue.watched(vertex.role):
            return None if form is None else (form, _NOTHING)
        beside = self._seen_beside(vertex.node)
        return None if beside is None else (form, beside)

    def _form(self, vertex: Vertex) -> _Form:
        """Its parents' forms first; a noderole above itself, which only a hand makes, has none."""
        forms, stack = self._forms, [vertex]
        while stack:
            top = stack[-1]
            if top in forms and forms[top] != -1:
                stack.pop()
                continue
            above = top.above if self._plain(top) else None
            if above is None or not all(isinstance(each, Vertex) and each.node is top.node for each in above):
                forms[stack.pop()] = None
                continue
            parents = [each for each in above if isinstance(each, Vertex)]
            left = [each for each in parents if each not in forms]
            if left:
                forms[top] = -1  # entered
                stack += left
                continue
            found = {forms[each] for each in parents}
            known = None in found or -1 in found
            forms[stack.pop()] = None if known else self._number((top.role, top.record.deployment, frozenset(found)))
        return forms[vertex]

    def _seen_beside(self, node: NodeView) -> _Form:
        if node.name not in self._beside:
            active = [each for each in node.noderoles.values() if each.record.state is State.ACTIVE]
            facts = self._catalogue.machine(node) or (node.record is not None and node.record.hints)
            plain = not facts and all(map(self._plain, active))
            seen = frozenset((each.role, each.record.deployment) for each in active)
            self._beside[node.name] = self._number(seen) if plain else None
        return self._beside[node.name]

    def _plain(self, vertex: Vertex) -> bool:
        """Whether all its attributes come from its role and its deployment."""
        return vertex.record.task_run is None and not any(path in self._blobs for path in unreadable.blobs(vertex))

    def _number(self, form: Hashable) -> int:
        return self._numbers.setdefault(form, len(self._numbers) + 1)
