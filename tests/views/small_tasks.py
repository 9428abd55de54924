"""A small task list and its plan: two tasks on two nodes, one after the other, then a stage, then a task on one."""

from __future__ import annotations

from nodepool_ocb.tasks.plan import TaskPlan
from nodepool_ocb.tasks.tasklist import Relation, Task, TaskKind, TaskList

N1, N2 = "n1.example.com", "n2.example.com"

LIST = TaskList(
    (
        Task(id="web", kind=TaskKind.GROUP, roles=("web",), required_for=("deploy",)),
        Task(id="deploy", kind=TaskKind.STAGE),
        Task(id="net", kind=TaskKind.SHELL, roles=("web",), required_for=("deploy",)),
        Task(id="site", kind=TaskKind.PUPPET, roles=("web",), requires=("net",), required_for=("deploy",)),
        Task(id="report", kind=TaskKind.SHELL, roles=("web",), requires=("deploy",)),
        Task(id="clean", kind=TaskKind.SHELL, roles=("web",), cross_depends=(Relation(name="report"),)),
    )
)

#: net@n1 → site@n1, then through a barrier net@n2 → site@n2, then deploy, then report@n1 (not selected on n2) and clean.
PLAN = TaskPlan(
    nodes=(N2, N1, ""),
    tasks=("deploy", "net", "site", "report", "clean", "barrier.1"),
    task_of=[1, 2, 5, 1, 2, 0, 3, 3, 4],
    node_of=[1, 1, 2, 0, 0, 2, 1, 0, 0],
    parents=[[], [0], [1], [2], [3], [4, 1], [5], [5], [6, 7]],
    rank=[8, 7, 6, 5, 4, 3, 1, 1, 0],
    barriers=frozenset({5}),
    skipped={7: "not selected", 8: "not selected"},
    roles={N1: ("web",), N2: ("web",)},
)
