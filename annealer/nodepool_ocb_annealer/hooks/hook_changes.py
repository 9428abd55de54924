"""The changes that hooks of several roles request for one node and for noderoles, merged by field and by attribute.

Where two roles say different things of the same field, the deeper in the graph of roles counts: hooks run in that order.
Of ``labels`` and ``hints`` each key is a field of its own: a hook changes the keys that it names, and no others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from nodepool_ocb.catalogue.code import Hooked
from nodepool_ocb.engine import attributes
from nodepool_ocb.engine.attributes import MISSING
from nodepool_ocb.model.records import Json, Node

NODE = ""  # the node itself, among the subjects of a contradiction


class HookChanges(msgspec.Struct):
    """``role`` says whether the node is alive, if any does. ``systems`` are by noderole; so are ``contradictions``, in sentences,
    those about the node itself under ``NODE``.
    """

    node: dict[str, Any]
    systems: dict[str, Json]
    refresh: dict[str, None]
    contradictions: dict[str, list[str]]
    role: str | None = None


def merge(node: Node | None, hooked: Sequence[Hooked]) -> HookChanges:
    """``node``: as it is now; ``hooked``: the results of the hooks, those of the least deep role first."""
    wishes = HookChanges({}, {}, {}, {})
    said: dict[
        tuple[str, str], tuple[str, Any]
    ] = {}  # the subject and its place → the role that said it last, and its value
    for each in hooked:
        for about, place, value in _places(each):
            before = said.get((about, place), (each.role, value))
            if before[1] != value:
                text = f"roles {before[0]} and {each.role} set {place} differently; the value of {each.role} counts"
                wishes.contradictions.setdefault(about, []).append(text)
            said[about, place] = each.role, value
        for name, value in each.set_node.items():
            wishes.node[name] = _on_top(
                wishes.node.get(name, getattr(node, name, None)), getattr(each.node, name, None), value
            )
        for noderole, blob in each.set_system.items():
            wishes.systems[noderole] = attributes.merge(wishes.systems.get(noderole, {}), blob)
        wishes.refresh |= dict.fromkeys(each.refresh)
    wishes.role, _ = said.get((NODE, "alive"), (None, None))
    return wishes


def _places(hooked: Hooked) -> Iterator[tuple[str, str, Any]]:
    """All changes of one hook: the subject, the place, and the value there."""
    for name, value in hooked.set_node.items():
        before = getattr(hooked.node, name, None)
        if isinstance(before, Mapping):
            yield from ((NODE, f"{name}.{key}", new) for key, new in _keys(before, value).items())
        else:
            yield NODE, name, value
    for noderole, blob in hooked.set_system.items():
        yield from ((noderole, path, value) for path, value in attributes.leaves(blob))


def _on_top(merged: Any, before: Any, value: Any) -> Any:
    """The field with this wish on top of those before; ``before``: as the hook saw it."""
    if not isinstance(before, Mapping):
        return value
    changed = {**merged, **_keys(before, value)}
    return {key: each for key, each in changed.items() if each is not MISSING}


def _keys(before: Mapping[str, Any], named: Mapping[str, Any]) -> dict[str, Any]:
    """The keys that a hook names and that differ, MISSING for one that it sets to None: that key goes."""
    wanted = {name: MISSING if value is None else value for name, value in named.items()}
    return {name: value for name, value in wanted.items() if before.get(name, MISSING) != value}
