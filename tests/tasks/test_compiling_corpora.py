"""Fuel's released lists, compiled: no circle, and every relation that they name is there."""

from __future__ import annotations

import re
from functools import cache
from itertools import pairwise

import networkx as nx
import pytest

from nodepool_ocb.model.records import Json
from nodepool_ocb.tasks import reading
from nodepool_ocb.tasks.compiling import compile, contracted
from nodepool_ocb.tasks.compiling.draft import MOST_PARENTS
from nodepool_ocb.tasks.conditions import ConditionInputs, Judge, Models
from nodepool_ocb.tasks.plan import TaskPlan
from nodepool_ocb.tasks.selection import Selection
from nodepool_ocb.tasks.tasklist import Expression, Language, TaskList
from tests.fixtures.corpora import CORPORA, needs
from tests.tasks.fuel import Instances, entries, members
from tests.tasks.lists import closure, graph, order

pytestmark = needs("fuel")

SETTINGS = Language.SETTINGS
ADMIN = {"admin": ["master"]}
CLUSTERS = {
    "seven": {
        "n1": ["primary-controller"], "n2": ["controller"], "n3": ["controller"], "n4": ["compute"], "n5": ["compute"],
        "n6": ["ceph-osd"], "n7": ["ceph-osd"],
    },
    "many roles on a node": {
        "n1": ["primary-controller", "compute"], "n2": ["controller", "ceph-osd", "compute"], "n3": ["controller", "mongo"],
        "n4": ["primary-mongo", "cinder"], "n5": ["base-os"], "n6": ["cinder", "ceph-osd"], "n7": ["virt", "compute"],
    },
    "more controllers than one chunk": {
        "n1": ["primary-controller"], **{f"n{n}": ["controller"] for n in range(2, 12)}, "n20": ["compute"],
    },
}  # fmt: skip


@cache
def tasks(release: str) -> TaskList:
    return reading.read_files([CORPORA / "fuel" / release], lenient=True).tasks


def plan(release: str, cluster: str) -> TaskPlan:
    return compile(tasks(release), members(CLUSTERS[cluster] | ADMIN))


def instances(release: str, cluster: str) -> Instances:
    return Instances(entries(CORPORA / "fuel" / release), CLUSTERS[cluster] | ADMIN)


@pytest.mark.parametrize("cluster", CLUSTERS)
@pytest.mark.parametrize("release", ["7.0", "9.0"])
def test_every_relation_that_names_what_is_there_is_in_the_plan(release: str, cluster: str) -> None:
    read = instances(release, cluster)
    found = graph(plan(release, cluster))
    there = {f"{task}@{node}" for task, on in read.on.items() for node in on}
    assert {name for name in found if "@" in name} == there
    stages = {name for name, entry in read.entries.items() if entry["type"] == "stage"}
    relations = set(read.relations())
    assert len(relations) > 800
    assert relations <= closure(found, there | stages)


def test_release_9_has_the_size_that_is_known_of_it() -> None:
    """Fuel had 419 vertices and 1,196 edges, 62 deep and at most 35 wide: without what conditions leave out."""
    relations = nx.DiGraph(list(instances("9.0", "seven").relations()))
    levels = list(nx.topological_generations(relations))
    assert len(levels) == 62
    assert max(map(len, levels)) == 43
    ours = plan("9.0", "seven")
    assert 500 <= len(ours) <= 560
    assert sum(map(len, ours.parents)) < 1_250
    assert max(map(len, ours.parents)) <= MOST_PARENTS


@pytest.mark.parametrize(
    ("said", "count"),
    [({"end": ("hiera",)}, 94), ({"end": ("netconfig",)}, 150), ({"start": ("hiera",), "end": ("globals",)}, 35)],
)
def test_start_and_end_select_of_release_9_what_fuel_selected(said: dict[str, tuple[str, ...]], count: int) -> None:
    found = compile(tasks("9.0"), members(CLUSTERS["seven"] | ADMIN), selection=Selection(**said))
    there = {number for number, name in enumerate(found.tasks) if name in tasks("9.0").by_id}
    instances = [v for v in range(len(found)) if found.nodes[found.node_of[v]] and found.task_of[v] in there]
    assert len([vertex for vertex in instances if vertex not in found.skipped]) == count


def test_the_conditions_of_release_9_are_judged_on_settings_that_lack_what_they_read() -> None:
    """They read the serialised facts: ``settings:ceilometer.enabled``."""
    settings: dict[str, Json] = {"ceilometer": {"enabled": True}}
    conditions = [t for t in tasks("9.0").tasks if isinstance(c := t.condition, Expression) and c.language is SETTINGS]
    judge = Judge(TaskList(tuple(conditions)), ConditionInputs(Models(settings=settings)))
    skipped = [each.id for each in conditions if judge(each, None) is not None]
    judge.check()
    assert 0 < len(skipped) < len(conditions)
    assert len(judge.missing) > 10


@pytest.mark.parametrize("release", ["7.0", "9.0"])
def test_groups_are_in_order_also_where_lists_have_relations_between_nodes(release: str) -> None:
    found = order(plan(release, "seven"))
    for before, after in pairwise((("n1",), ("n2", "n3"), ("n4", "n5", "n6", "n7"))):
        assert {(f"netconfig@{one}", f"netconfig@{two}") for one in before for two in after} <= found
    assert not {("netconfig@n4", "netconfig@n6"), ("netconfig@n6", "netconfig@n4")} & found


def test_what_a_relation_puts_after_a_later_group_is_not_waited_for_by_that_group() -> None:
    """Of release 9.0 the primary controller's database users come after the databases of all controllers."""
    found = order(plan("9.0", "seven"))
    assert ("database@n2", "keystone-db@n1") in found
    assert ("keystone-db@n1", "netconfig@n2") not in found
    assert ("primary-database@n1", "netconfig@n2") in found


def test_the_hooks_of_release_7_are_in_a_line_each_on_all_its_nodes() -> None:
    found = order(plan("7.0", "seven"))
    on = instances("7.0", "seven").on
    hooks = ("rsync_core_puppet", "clear_nodes_info", "copy_keys", "sync_time")
    for one in hooks:
        for two in hooks:
            pairs = {(f"{one}@{first}", f"{two}@{second}") for first in on[one] for second in on[two]}
            assert one == two or pairs <= found or {pair[::-1] for pair in pairs} <= found


def test_release_7_elects_its_primary() -> None:
    nodes = {name: [role.removeprefix("primary-") for role in roles] for name, roles in CLUSTERS["seven"].items()}
    found = compile(tasks("7.0"), members(nodes | ADMIN))
    assert found.roles["n1"] == ("primary-controller",)
    assert order(found) == order(plan("7.0", "seven"))


@pytest.mark.parametrize("release", ["7.0", "9.0"])
def test_without_the_tasks_of_one_folder_the_rest_is_in_the_same_order(release: str) -> None:
    whole = plan(release, "seven")
    skipped = compile(
        tasks(release),
        members(CLUSTERS["seven"] | ADMIN),
        judge=lambda task, _: "no" if re.search("open|db|net", task.id) else None,
    )
    small = contracted(skipped)
    names = {small.name(v) for v in range(len(small)) if small.task_of[v] not in small.barriers}
    assert len(names) < len(whole) - 100
    assert closure(graph(small), names) == closure(graph(whole), names)
