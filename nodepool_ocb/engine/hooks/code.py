"""Hooks that wait although no living annealer has their code. Pure.

Annealers register the roles and barclamps for which they have Python code. While no annealer is registered, nothing is
reported here: a different check reports that none is running.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator

import msgspec

from nodepool_ocb.engine.acting import extensions
from nodepool_ocb.engine.world import World


class MissingHook(msgspec.Struct, frozen=True):
    """A hook of a role that no annealer can run now, with the number of noderoles, nodes or deployments for which it waits."""

    role: str
    hook: str
    waiting: int


def brings(code: Collection[str], name: str, barclamp: str) -> bool:
    """Whether the code of these roles and barclamps is a role's, too."""
    return name in code or barclamp in code


def missing(world: World, name: str) -> bool:
    """Whether there are annealers, and none has the code of a role."""
    stored = world.roles.get(name)
    if stored is None or not world.annealers:
        return False
    return not any(brings(daemon.code, name, stored.record.barclamp) for daemon in world.annealers.values())


def lack(world: World, name: str) -> tuple[str, str]:
    """The reason and the next step for a role with missing code."""
    text = f"no living annealer has the code of role {name}"
    stored = world.roles.get(name)
    names = (name, stored.record.barclamp) if stored is not None else (name,)
    if left_out := extensions.left_out(world, "role", *names):
        return f"{text}: {left_out}", "mend the package of the role, then restart the annealer"
    return text, "install the package that brings it on an annealer's host: it is found within annealer.sweep_seconds"


def all_missing(world: World) -> list[MissingHook]:
    """The missing codes, one for each role and hook, by name."""
    lacking = {name for name in world.roles if missing(world, name)}
    counts = Counter(_waiting(world)) if lacking else Counter()
    return [MissingHook(role, hook, count) for (role, hook), count in sorted(counts.items()) if role in lacking]


def _waiting(world: World) -> Iterator[tuple[str, str]]:
    """The role and the hook of each waiting item: the first hook, for the others wait for it."""
    for vertex in world.counted():
        if vertex.record.hooks:
            yield vertex.role, vertex.record.hooks[0]  # its node stands for no other
    for (_, role), stored in world.deployment_roles.items():
        if stored.record.hooks:
            yield role, stored.record.hooks[0]
    nodes = Counter(view.record.hooks[0] for view in world.nodes.values() if view.record and view.record.hooks)
    for role, definition in world.roles.items():
        for hook in definition.record.hooks:
            yield from [(role, hook)] * nodes[hook]
