"""Hooks that wait at a node, and the changed fields that on_node_change receives.

The record of a node names the fields that changed since on_node_change ran last. So a hook that watches one of them reacts
to nothing else. A change by on_node_change of one role is reported to the other roles. Every decision that writes a node
gives its new record to ``noticed``. Notes of annealers for one another in the record are no change of the node. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from nodepool_ocb.engine.world import World
from nodepool_ocb.model.records import Node

#: Fields that are no change of the node: notes of annealers, and fields that change along with another one.
UNNOTICED: Final = frozenset(
    {"since", "reason", "mark", "suspicion", "hold", "hooks", "changed", "deleting", "dying", "epoch_base", "unknown"}
)


NOBODY: Final[Mapping[str, str]] = {}


def with_hook(world: World, pending: tuple[str, ...], hook: str) -> tuple[str, ...]:
    """The hooks that wait, with this one where any role in the catalogue has it."""
    wanted = hook not in pending and any(hook in stored.record.hooks for stored in world.roles.values())
    return (*pending, hook) if wanted else pending


def noticed(world: World, before: Node, after: Node, by: Mapping[str, str] = NOBODY) -> Node:
    """``after``, with on_node_change to run and the changed fields; unchanged if no role with that hook hears of any of them.

    ``by``: field → the role that changed it in its on_node_change.
    """
    changed = {
        name: by.get(name, "")
        for name in Node.__struct_fields__
        if name not in UNNOTICED and getattr(before, name) != getattr(after, name)
    }
    hears = (heard(changed, name) for name, stored in world.roles.items() if "on_node_change" in stored.record.hooks)
    if not changed or not any(hears):
        return after
    hooks = with_hook(world, after.hooks, "on_node_change")
    return replace(after, hooks=hooks, changed={**after.changed, **changed})


def heard(changed: Mapping[str, str], role: str) -> frozenset[str]:
    """The fields of which a role hears: all but those that it changed itself.

    >>> sorted(heard({"alive": "", "bootenv": "dhcp", "rack": "dns"}, "dhcp"))
    ['alive', 'rack']
    """
    return frozenset(name for name, by in changed.items() if by != role)
