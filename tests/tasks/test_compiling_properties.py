"""Random lists on random nodes have exactly the order that a slow reader finds in them."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import networkx as nx
from hypothesis import assume, given
from hypothesis import strategies as st

from nodepool_ocb.errors import Invalid
from nodepool_ocb.tasks.compiling import compile, contracted
from nodepool_ocb.tasks.compiling.draft import MOST_PARENTS
from nodepool_ocb.tasks.plan import Member, TaskPlan
from nodepool_ocb.tasks.selection import Selection
from nodepool_ocb.tasks.tasklist import EVERY, SELF, Relation, StrategyType, Task, TaskKind, TaskList, TaskStrategy
from tests.tasks.lists import closure, graph, listing, nodes, order, task, works
from tests.tasks.plainly import Plainly

ROLES = ("web", "db", "log")
TASKS = ("t0", "t1", "t2", "t3", "t4", "t5")
STAGES = ("s0", "s1")
GROUPS = ("g0", "g1", "g2")

FAR = ((EVERY,), (SELF,), None, ("web",), ("db", "log"), ("/w.*/",), ("g0", SELF))
SELECTORS = (*ROLES, "g0", EVERY, "/.*b/")
STRATEGIES = (
    None,
    TaskStrategy(StrategyType.ONE_BY_ONE),
    *(TaskStrategy(StrategyType.PARALLEL, amount) for amount in (None, 1, 2)),
)


def some(draw: Random, of: Sequence[str], most: int, least: int = 0) -> tuple[str, ...]:
    return tuple(draw.sample(of, min(len(of), draw.randint(least, most))))


def a_list(draw: Random, *, plain: bool = False) -> TaskList:
    """Mostly without circles: what is required is mostly earlier in one sequence of all names.

    ``plain``: without groups, and new enough that ``requires`` means the same node.
    """
    names = [*TASKS, *STAGES, *(GROUPS if draw.random() < 0.6 and not plain else ())]
    draw.shuffle(names)
    version = (2, 0, 0) if plain else draw.choice([(1, 0, 0), (2, 0, 0)])
    found = [an_entry(draw, name, names, version) for name in names]
    draw.shuffle(found)
    return TaskList(tuple(found))


def an_entry(draw: Random, name: str, names: Sequence[str], version: tuple[int, int, int]) -> Task:
    at = names.index(name)
    earlier, later = names[:at], names[at + 1 :]
    kind = {"t": TaskKind.SHELL, "s": TaskKind.STAGE, "g": TaskKind.GROUP}[name[0]]
    grouped, a_stage = kind is TaskKind.GROUP, kind is TaskKind.STAGE
    far = [Relation(each, draw.choice(FAR)) for each in some(draw, earlier, 1)]
    wrong = draw.random() < 0.02
    return Task(
        id=name,
        kind=kind,
        version=version,
        roles=() if a_stage else some(draw, ROLES if grouped else SELECTORS, 2, 1),
        requires=(*some(draw, earlier, 2), *(later[:1] if wrong else ())),
        required_for=some(draw, later, 1),
        cross_depends=() if grouped else tuple(far),
        cross_depended_by=(Relation(later[-1]),) if later and draw.random() < 0.1 and kind is TaskKind.SHELL else (),
        tasks=some(draw, TASKS, 1) if grouped else (),
        strategy=draw.choice(STRATEGIES) if grouped else None,
    )


def a_cluster(draw: Random) -> list[Member]:
    return [
        Member(name=f"n{number}", uid=str(number), roles=some(draw, ROLES, 2)) for number in range(draw.randint(1, 5))
    ]


#: A list and nodes; drawn from a seed, which is quicker by far than to let hypothesis choose each part.
worlds = st.integers(0, 2**32).map(Random).map(lambda draw: (a_list(draw), a_cluster(draw)))
plain_worlds = st.integers(0, 2**32).map(Random).map(lambda draw: (a_list(draw, plain=True), a_cluster(draw)))


def tried(tasks: TaskList, members: Sequence[Member]) -> TaskPlan | None:
    try:
        return compile(tasks, members)
    except Invalid:
        return None


@given(worlds)
def test_the_order_is_what_a_slow_reader_finds(world: tuple[TaskList, list[Member]]) -> None:
    tasks, members = world
    plain = Plainly(tasks, members)
    plan = tried(tasks, members)
    assert (plan is not None) == nx.is_directed_acyclic_graph(plain.graph)
    if plan is not None:
        assert set(works(plan)) == plain.instances
        kept = plain.instances.union(STAGES, (f"{group}.{end}" for group in GROUPS for end in ("start", "end")))
        assert closure(graph(plan), kept) == closure(plain.graph, kept)


@given(plain_worlds, st.integers(0, 4))
def test_a_node_that_goes_takes_its_vertices_and_edges_along_and_nothing_else(
    world: tuple[TaskList, list[Member]], gone: int
) -> None:
    tasks, members = world
    plain = Plainly(tasks, members)
    assume(nx.is_directed_acyclic_graph(plain.graph))
    name = members[gone % len(members)].name
    rest = compile(tasks, [member for member in members if member.name != name], members)
    kept = {each for each in plain.instances if not each.endswith(f"@{name}")}
    assert set(works(rest)) == kept
    plain.graph.remove_nodes_from(plain.instances - kept)
    kept |= set(STAGES)
    assert closure(graph(rest), kept) == closure(plain.graph, kept)


@given(worlds, st.integers(0, 4))
def test_a_node_that_goes_takes_only_its_own_vertices_along(world: tuple[TaskList, list[Member]], gone: int) -> None:
    tasks, members = world
    gone %= len(members)
    plan = tried(tasks, members)
    assume(plan is not None)
    assert plan is not None
    rest = tried(tasks, [member for member in members if member is not members[gone]])
    if rest is not None:
        assert set(works(rest)) == {name for name in works(plan) if not name.endswith(f"@{members[gone].name}")}


@given(worlds, st.sets(st.sampled_from(TASKS)), st.data())
def test_skipping_never_changes_the_order_of_the_rest(
    world: tuple[TaskList, list[Member]], left_out: set[str], data: st.DataObject
) -> None:
    tasks, members = world
    plan = tried(tasks, members)
    assume(plan is not None)
    assert plan is not None
    there = sorted({name.partition("@")[0] for name in works(plan)})
    chosen = data.draw(st.lists(st.sampled_from(there), max_size=3, unique=True)) if there else []
    part = compile(
        tasks,
        members,
        selection=Selection(tasks=tuple(chosen)),
        judge=lambda task, _: "no" if task.id in left_out else None,
    )
    assert [set(above) for above in part.parents] == [set(above) for above in plan.parents]
    small = contracted(part)
    kept = {name for name in works(plan) if name.partition("@")[0] in set(chosen or TASKS) - left_out}
    assert set(works(small)) == kept
    assert order(small) == order(plan, kept)


@given(worlds)
def test_a_plan_is_the_same_each_time_and_its_ranks_fall(world: tuple[TaskList, list[Member]]) -> None:
    tasks, members = world
    plan = tried(tasks, members)
    if plan is not None:
        assert plan == compile(tasks, members)
        assert all(plan.rank[before] >= plan.rank[after] for before, after in plan.edges())
        assert all(len(set(above)) == len(above) <= MOST_PARENTS for above in plan.parents)


@given(st.integers(1, 9), st.integers(1, 4), worlds)
def test_no_more_instances_of_a_task_than_its_strategy_says_run_at_once(
    count: int, amount: int, world: tuple[TaskList, list[Member]]
) -> None:
    tasks = listing(
        task("slow", roles="*", requires="base", strategy=TaskStrategy(StrategyType.PARALLEL, amount)),
        task("base", roles="web db", strategy=TaskStrategy(StrategyType.ONE_BY_ONE)),
        task("other", roles="*", requires="slow", strategy=TaskStrategy(StrategyType.PARALLEL, 1), version=(2, 0, 0)),
    )
    members = [*world[1], *nodes(**{f"m{number}": "" for number in range(count)})]
    found = order(compile(tasks, members))
    for name, most in (("slow", amount), ("base", 1), ("other", 1)):
        own = {each for each in works(compile(tasks, members)) if each.startswith(f"{name}@")}
        for one in own:
            beside = {two for two in own - {one} if (one, two) not in found and (two, one) not in found}
            assert len(beside) < most
