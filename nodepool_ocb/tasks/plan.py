"""A plan: the tasks of each node, and their order. A graph in columns, for millions of edges.

A *vertex* is a number: the instance of the task ``tasks[task_of[v]]`` on the node ``nodes[node_of[v]]``. Stages and barriers
are on the deployment's virtual node, with the name ``VIRTUAL``; it is the last of ``nodes``. A barrier stands for n x m edges:
all vertices before it, then all after it. Vertices have no order among themselves; edges have no circle.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Final

import msgspec

from nodepool_ocb.model.records import Json

VIRTUAL: Final = ""  # the name of the virtual node


class Bears(StrEnum):
    """Which tolerated failures a barrier lets pass (decision 072)."""

    SOME = "some"  # it stands for one relation: a vertex of it must have succeeded
    NONE = "none"  # it joins several relations, each of which bears for itself
    ALL = "all"  # it only limits how many run at once


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """A node as task lists see it."""

    name: str  # fqdn
    uid: str  # by which Fuel's documents name it; the lowest becomes a primary
    roles: tuple[str, ...] = ()
    admin: bool = False  # role "master"


class TaskPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The plan of a run. ``parents[v]`` are the vertices before v, each once, in no order."""

    nodes: tuple[str, ...]
    tasks: tuple[str, ...]  # ids of tasks, and names of barriers, which no task has: "barrier.17", "controller.chunk-2"
    task_of: Sequence[int]
    node_of: Sequence[int]
    parents: Sequence[Sequence[int]]
    rank: Sequence[int]  # tasks on the longest way below it: of those that may start on a node the highest goes first
    barriers: frozenset[int] = frozenset()  # positions in ``tasks``
    bears: Mapping[int, Bears] = {}  # of barriers, if a group tolerates failures; SOME for the others
    skipped: Mapping[int, str] = {}  # vertex → why it is not run; it keeps its place
    parameters: Mapping[int, Mapping[str, Json]] = {}  # vertex → the parameters that differ from those of its task
    roles: Mapping[str, tuple[str, ...]] = {}  # node → the roles that it has in this run, primaries among them

    def __len__(self) -> int:
        return len(self.task_of)

    def name(self, vertex: int) -> str:
        """TASK@NODE; of a stage or a barrier its own name."""
        task, node = self.tasks[self.task_of[vertex]], self.nodes[self.node_of[vertex]]
        return f"{task}@{node}" if node else task

    def edges(self) -> Iterator[tuple[int, int]]:
        """Each as (before, after)."""
        return ((parent, vertex) for vertex, above in enumerate(self.parents) for parent in above)
