"""Which roles a node has in a run, and which nodes a selector means."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Final

from nodepool_ocb.tasks.patterns import is_pattern, matcher
from nodepool_ocb.tasks.plan import Member
from nodepool_ocb.tasks.tasklist import EVERY, MASTER, Task, TaskKind, TaskList

PRIMARY: Final = "primary-"


def selector(task: Task) -> tuple[str, ...]:
    """The roles of a task or group; its own id if it names none; empty for a stage without roles."""
    return task.roles or (() if task.kind is TaskKind.STAGE else (task.id,))


def elected(tasks: TaskList, nodes: Iterable[Member]) -> Mapping[str, tuple[str, ...]]:
    """Node → its roles, with the primaries that the list names as roles; the name of a group means the roles of that group.

    A list may name ``primary-X`` although no node has that role. Then the node with the lowest uid among those with the role X
    gets it, and loses X.
    """
    known = {node.name: node for node in nodes}
    roles = {name: list(node.roles) for name, node in known.items()}
    for primary in sorted(set(_primaries(tasks))):
        plain = primary.removeprefix(PRIMARY)
        able = [name for name in known if plain in roles[name]]
        if able and not any(primary in each for each in roles.values()):
            first = roles[min(able, key=lambda name: natural(known[name].uid))]
            first[first.index(plain)] = primary
    return {name: tuple(each) for name, each in roles.items()}


def _primaries(tasks: TaskList) -> Iterator[str]:
    groups = {group.id for group in tasks.of_kind(TaskKind.GROUP)}
    for task in tasks.tasks:
        crossing = (name for each in (*task.cross_depends, *task.cross_depended_by) for name in each.roles or ())
        named = [name for name in (*selector(task), *crossing) if name.startswith(PRIMARY)]
        yield from (name for name in named if task.kind is TaskKind.GROUP or name not in groups)


def natural(text: str) -> tuple[tuple[int, int, str], ...]:
    """A key by which numbers in texts are compared by value.

    >>> sorted(["node-10", "node-9", "8"], key=natural)
    ['8', 'node-9', 'node-10']
    """
    parts = re.findall(r"[0-9]+|[^0-9]+", text)
    return tuple((0, int(part), "") if part.isdecimal() else (1, 0, part) for part in parts)


class Selectors:
    """The meaning of the names of roles and groups in one list."""

    def __init__(self, tasks: TaskList) -> None:
        self._compat = tasks.compat_prefix
        self._groups = {group.id: selector(group) for group in tasks.of_kind(TaskKind.GROUP)}
        far = (each for task in tasks.tasks for each in (*task.cross_depends, *task.cross_depended_by))
        self._names = {name for each in far for name in each.roles or ()}
        self._names.update(name for task in tasks.tasks for name in selector(task))
        self.meaning = cache(self._meaning)

    def _meaning(self, roles: frozenset[str], admin: bool) -> frozenset[str]:
        """All names of the list that mean a node with these roles."""
        return frozenset(name for name in self._names if self._one(name, roles, admin))

    def mean(self, names: Sequence[str], roles: frozenset[str], admin: bool) -> bool:
        """Whether any of these names means a node with these roles. A group's name means the nodes with its roles."""
        return any(self._one(name, roles, admin) for name in names)

    def _one(self, name: str, roles: frozenset[str], admin: bool) -> bool:
        if name in self._groups:
            return any(self._role(role, roles, admin) for role in self._groups[name])
        within = (group for group in self._groups if is_pattern(name) and self.match(name, group))
        return self._role(name, roles, admin) or any(self._one(group, roles, admin) for group in within)

    def _role(self, name: str, roles: frozenset[str], admin: bool) -> bool:
        if name == EVERY:
            return not admin
        if name == MASTER:
            return admin
        if is_pattern(name):
            return not admin and any(self.match(name, role) for role in roles)
        return name in roles

    def match(self, pattern: str, name: str) -> bool:
        """Whether a name or a /pattern/ means this name."""
        return matcher(pattern, self._compat)(name)

    def belong(self, task: Task, group: Task, roles: Iterable[str] = ()) -> bool:
        """Whether a task is of a group: it names the group or a role of it, or the group names the task.

        ``roles``: those that nodes have. If a task and a group each name a pattern, one of ``roles`` must match both.
        """
        if any(self.match(name, task.id) for name in group.tasks):
            return True
        own = (group.id, *selector(group))
        return any(self._same(name, each, roles) for name in task.roles or (task.id,) for each in own)

    def _same(self, name: str, of_group: str, roles: Iterable[str]) -> bool:
        """Whether the name in a task and the name in a group mean the same, also through patterns; ``*`` in a task means any."""
        if name == EVERY or self.match(name, of_group):
            return True
        if name in self._groups or not is_pattern(of_group):
            return False
        if is_pattern(name):
            return any(self.match(name, role) and self.match(of_group, role) for role in roles)
        return self.match(of_group, name)
