"""A plan without what does not run has the same order."""

from __future__ import annotations

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodepool_ocb.tasks.compiling import compile, contracted
from nodepool_ocb.tasks.compiling.draft import MOST_PARENTS
from nodepool_ocb.tasks.plan import VIRTUAL, TaskPlan
from nodepool_ocb.tasks.selection import Selection
from tests.tasks.lists import closure, graph, listing, nodes, on, order, stage, task, works


def made(edges: set[tuple[int, int]], size: int, barriers: set[int], skipped: set[int]) -> TaskPlan:
    """A plan of one node from edges (before, after)."""
    return TaskPlan(
        nodes=("n1", VIRTUAL),
        tasks=tuple(f"t{vertex}" for vertex in range(size)),
        task_of=range(size),
        node_of=[int(vertex in barriers) for vertex in range(size)],
        parents=[[before for before, after in sorted(edges) if after == vertex] for vertex in range(size)],
        rank=[0] * size,
        barriers=frozenset(barriers),
        skipped=dict.fromkeys(skipped - barriers, "no"),
    )


@st.composite
def plans(draw: st.DrawFn) -> TaskPlan:
    size = draw(st.integers(1, 14))
    numbers = st.permutations(range(size))
    places = draw(numbers)
    pairs = st.tuples(st.integers(0, size - 1), st.integers(0, size - 1)).filter(lambda pair: pair[0] < pair[1])
    edges = draw(st.sets(pairs, max_size=40)) if size > 1 else set()
    some = st.sets(st.integers(0, size - 1))
    return made({(places[one], places[two]) for one, two in edges}, size, draw(some), draw(some))


@given(plans())
def test_the_order_of_the_rest_is_the_same(plan: TaskPlan) -> None:
    rest = {plan.name(v) for v in range(len(plan)) if v not in plan.skipped and plan.task_of[v] not in plan.barriers}
    small = contracted(plan)
    left = graph(small)
    assert closure(left, rest) == closure(graph(plan), rest)
    assert {name for name in left if "@" in name} == rest
    assert left.number_of_edges() <= sum(map(len, plan.parents))
    assert len(small) <= len(plan)
    for vertex in range(len(small)):
        if small.task_of[vertex] in small.barriers:
            assert small.nodes[small.node_of[vertex]] == VIRTUAL
            assert len(small.parents[vertex]) > 1, "a barrier that nothing needs"


def test_a_barrier_of_many_stays_and_one_of_few_goes() -> None:
    tasks = listing(task("a", roles="*"), stage("s", requires="a"), task("b", roles="*", requires="s"))
    for count, stays in ((5, True), (1, False)):
        plan = compile(tasks, nodes(**{f"n{n}": "" for n in range(count)}), selection=Selection(tasks=("a", "b")))
        small = contracted(plan)
        assert order(small) == order(plan)
        assert (len(small) == 2 * count + 1) is stays
        assert "s" not in small.tasks


def test_a_stage_that_is_not_skipped_stays() -> None:
    tasks = listing(task("a", roles="*"), stage("s", requires="a"), stage("t", requires="s"))
    assert contracted(compile(tasks, nodes(n1=""))).tasks == ("a", "s", "t")


def test_more_may_go_than_what_is_skipped() -> None:
    tasks = listing(task("a", roles="*"), task("b", roles="*", requires="a"), task("c", roles="*", requires="b"))
    plan = compile(tasks, nodes(n1=""))
    small = contracted(plan, also=[vertex for vertex in range(len(plan)) if plan.name(vertex) == "b@n1"])
    assert works(small) == ["a@n1", "c@n1"]
    assert on(small, "a@n1", "c@n1")
    assert list(small.rank) == [1, 0]


def test_a_barrier_has_never_too_many_parents() -> None:
    tasks = listing(
        task("a", roles="*"),
        stage("s", requires="a"),
        task("idle", roles="one", requires="s"),
        task("b", roles="one", requires="idle"),
    )
    plan = compile(
        tasks, nodes(n0="one", **{f"n{n}": "" for n in range(1, 501)}), selection=Selection(tasks=("a", "b"))
    )
    small = contracted(plan)
    assert max(map(len, small.parents)) <= MOST_PARENTS
    assert order(small, ["a@n1", "a@n500", "b@n0"]) == {("a@n1", "b@n0"), ("a@n500", "b@n0")}
    assert nx.is_directed_acyclic_graph(graph(small))


@pytest.mark.parametrize("kept", [("t0", "t9999"), ("t5000",), ()])
def test_a_chain_of_ten_thousand_tasks_is_compiled_selected_and_contracted(kept: tuple[str, ...]) -> None:
    chain = [task(f"t{n}", roles="*", requires=f"t{n - 1}" if n else "") for n in range(10_000)]
    plan = compile(listing(*chain), nodes(n1=""), selection=Selection(tasks=kept) if kept else None)
    assert len(plan) == 10_000
    assert plan.rank[0] == 9_999
    small = contracted(plan)
    assert works(small) == [f"{name}@n1" for name in kept or (each.id for each in chain)]
    assert [list(each) for each in small.parents] == [[], *([n] for n in range(len(small) - 1))]
