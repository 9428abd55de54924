"""Plans of several parts as one, and which phase of a rollout sends what."""

from __future__ import annotations

from collections.abc import Sequence

from nodepool_ocb.tasks.compiling import compile
from nodepool_ocb.tasks.plan import Member, TaskPlan
from nodepool_ocb.tasks.reading import read_texts
from nodepool_ocb.tasks.runs import merging

LIST = """
- {id: pre, type: stage}
- {id: deploy, type: stage, requires: [pre]}
- {id: net, type: shell, role: [web], required_for: [pre], parameters: {cmd: x}}
- {id: sudo, type: shell, role: [web, db], parameters: {cmd: x}}
- {id: site, type: shell, role: [web], requires: [pre, sudo], required_for: [deploy], parameters: {cmd: x}}
- {id: sync, type: shell, role: [db], requires: [sudo], parameters: {cmd: x},
   cross-depends: [{name: net, role: [web]}]}
- {id: last, type: shell, role: [web], requires: [deploy], parameters: {cmd: x}}
"""
TASKS = read_texts({"tasks.yaml": LIST}, "test").tasks
NODES = {
    "a": Member(name="a.x.y", uid="1", roles=("web",)),
    "b": Member(name="b.x.y", uid="2", roles=("web",)),
    "d": Member(name="d.x.y", uid="3", roles=("db",)),
}
EVERYONE = list(NODES.values())


def united(**parts: str) -> TaskPlan:
    """Parts by their nodes, as letters."""
    return merging.united(
        {part: compile(TASKS, [NODES[letter] for letter in nodes], EVERYONE) for part, nodes in parts.items()}
    )


def above(plan: TaskPlan, name: str) -> set[str]:
    """Everything before an instance."""
    start = next(at for at in range(len(plan)) if plan.name(at) == name)
    found, queue = set[int](), [start]
    while queue:
        for parent in plan.parents[queue.pop()]:
            if parent not in found:
                found.add(parent)
                queue.append(parent)
    return {plan.name(each) for each in found}


def test_what_is_in_one_part_waits_for_nothing_of_another() -> None:
    plan = united(canary="a", rest="bd")
    assert plan.nodes == ("a.x.y", "b.x.y", "d.x.y", "")
    assert above(plan, "site@a.x.y") == {"net@a.x.y", "sudo@a.x.y", "pre:canary"}
    assert above(plan, "last@b.x.y") >= {"site@b.x.y", "pre:rest", "deploy:rest", "net@b.x.y"}
    parts = {"canary": "a.x.y", "rest": "b.x.y"}
    for part, node in parts.items():
        others = {name for name in above(plan, f"last@{node}") if name.endswith(tuple({*parts.values()} - {node}))}
        assert not others
        assert f"deploy:{part}" in above(plan, f"last@{node}")


def test_the_order_within_a_part_is_that_of_its_own_plan() -> None:
    alone = compile(TASKS, [NODES["b"], NODES["d"]], EVERYONE)
    plan = united(canary="a", rest="bd")
    for vertex in range(len(alone)):
        if alone.nodes[alone.node_of[vertex]]:
            wanted = {
                name if "@" in name else merging.of_part(name, "rest") for name in above(alone, alone.name(vertex))
            }
            assert above(plan, alone.name(vertex)) == wanted


def sent(plan: TaskPlan, *stages: Sequence[str]) -> list[set[str]]:
    return [set(tasks) for tasks in merging.phases_of(plan, stages, ("canary", "rest"))]


def test_a_phase_sends_what_is_before_its_stages_and_no_earlier_phase_sends() -> None:
    plan = united(canary="a", rest="bd")
    assert sent(plan, ["pre"], ["deploy"]) == [{"net"}, {"site", "sudo"}]
    assert sent(plan, ["deploy"], ["pre"]) == [{"net", "site", "sudo"}, set()]
    assert sent(plan, ["pre", "deploy"]) == [{"net", "site", "sudo"}]


def test_what_a_task_waits_for_on_any_node_is_sent_with_it() -> None:
    """``sync`` is before no stage; where it is sent with one, so is what it waits for on other nodes."""
    text = LIST + "- {id: db, type: stage, requires: [sync]}\n"
    tasks = read_texts({"tasks.yaml": text}, "test").tasks
    plan = merging.united({"rest": compile(tasks, EVERYONE)})
    assert [set(each) for each in merging.phases_of(plan, [["db"]], ["rest"])] == [{"sync", "sudo", "net"}]


def test_what_no_phase_sends_is_skipped_and_says_so() -> None:
    plan = united(canary="a", rest="bd")
    left = merging.without_unsent(plan, merging.phases_of(plan, [["pre"], ["deploy"]], ("canary", "rest")))
    assert {left.name(at): why for at, why in left.skipped.items()} == dict.fromkeys(
        ("last@a.x.y", "last@b.x.y", "sync@d.x.y"), merging.UNSENT
    )


def test_nodes_that_wait_for_one_another_in_one_phase_are_found() -> None:
    plan = united(canary="a", rest="bd")
    nodes = {node for node in plan.nodes if node}
    apart = merging.phases_of(plan, [["pre"], ["deploy"]], ("canary", "rest"))
    assert merging.waiting_across(plan, apart, nodes) is None
    plan = merging.united({"rest": compile(TASKS, [NODES["a"], NODES["b"]], EVERYONE)})
    at_once = merging.phases_of(plan, [["deploy"]], ("rest",))
    found = merging.waiting_across(plan, at_once, nodes)
    assert found is not None
    first, then = map(plan.name, found)
    assert (first.partition("@")[0], then.partition("@")[0]) == ("net", "site")
    assert first.partition("@")[2] != then.partition("@")[2]
    assert merging.waiting_across(plan, at_once, set()) is None


def test_a_task_that_is_sent_on_a_node_has_all_that_it_waits_for_there_sent_with_it() -> None:
    """``sudo`` is before ``deploy`` on nodes that are web; on the other one it waits for ``extra``."""
    text = LIST + "- {id: extra, type: shell, role: [db], required_for: [sudo], parameters: {cmd: x}}\n"
    tasks = read_texts({"tasks.yaml": text}, "test").tasks
    plan = merging.united({"rest": compile(tasks, EVERYONE)})
    assert [set(each) for each in merging.phases_of(plan, [["deploy"]], ["rest"])] == [{"net", "site", "sudo", "extra"}]
