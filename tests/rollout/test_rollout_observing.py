"""What a rollout sees of noderoles, and which of them it moves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from nodepool_ocb.engine.advancing import advance
from nodepool_ocb.engine.commands import apply_to
from nodepool_ocb.engine.world import Stored, World
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Claim, Deployment, Node, NodeRole, State
from nodepool_ocb.rollout.commands import cancel, retry
from nodepool_ocb.rollout.observation import Seen
from nodepool_ocb.rollout.observer import Observer
from nodepool_ocb.rollout.plan import Again, begin
from nodepool_ocb.rollout.records import NodesRecord, NodeState, Rollout, RolloutState, apply, parts, whole
from nodepool_ocb.rollout.selectors import inventory
from nodepool_ocb.rollout.step import Action, Directive, step
from nodepool_ocb.rollout.strategy import WHOLE, Criteria, Strategy

PHASES = [{"name": "prepare", "roles": ["os"]}, {"name": "check", "stages": ["main"]}, {"name": "deploy"}]


def world(states: Mapping[str, str], parents: Mapping[str, list[str]] | None = None, deployment: str = "lab") -> World:
    made = World()
    for name, above in (("system", None), ("lab", "system"), ("rack", "lab")):
        made.put(Stored(Deployment(parent=above), 0), name)
    for name, state in states.items():
        role, fqdn = name.split("@")
        made.put_node(fqdn, Node(deployment=deployment, alive=True), 0)
        record = NodeRole.of(
            state=State(state),
            since=0.0,
            deployment=deployment,
            parents=tuple((parents or {}).get(name, ())),
            reason="why",
        )
        made.put_noderole(fqdn, role, record, 0)
    return made


def rollout_of(there: World, phases: list[dict[str, Any]] | None = None) -> Rollout:
    fields: dict[str, Any] = {"phases": phases} if phases else {}
    strategy = msgspec.convert({"groups": [{"name": "all", "critical": True}], **fields}, Strategy)
    return begin(strategy, inventory(there, "lab"), 0.0)


def sending(rollout: Rollout, sends: Mapping[str, tuple[str, ...]], **head: Any) -> Rollout:
    """The rollout, whose phases send these roles of tasks."""
    return replace(rollout, head=replace(rollout.head, sends=sends, **head))


def of_run(there: World, run: str, *names: str) -> None:
    """These noderoles are tasks of a run."""
    for name in names:
        vertex = there.vertex(name)
        assert vertex is not None
        there.put_noderole(vertex.node.name, vertex.role, vertex.record.amended(task_run=run), 1)


RUN, OTHER = "0000000003", "0000000002"
TWO = [{"name": "go", "stages": ["main"]}]


def test_a_rollout_has_to_do_with_the_tasks_of_its_own_run_alone() -> None:
    there = world({"t@n1.x.y": "PROPOSED", "u@n1.x.y": "PROPOSED", "plain@n1.x.y": "PROPOSED"})
    of_run(there, RUN, "t@n1.x.y")
    of_run(there, OTHER, "u@n1.x.y")
    own = sending(rollout_of(there, TWO), {"go": ("t", "u")}, task_run=RUN)
    assert [vertex.role for vertex in Observer(there, "lab", own).noderoles("n1.x.y", 0)] == ["t"]
    bare = Observer(there, "lab", rollout_of(there))
    assert [vertex.role for vertex in bare.noderoles("n1.x.y", 1)] == ["plain"]


def in_flight(rollout: Rollout) -> Rollout:
    after = step(rollout, {}, 1.0)
    while after.decisions:
        rollout = apply(rollout, after.decisions)
        after = step(rollout, {}, 1.0)
    return rollout


def test_a_task_that_may_fail_is_at_work_until_it_is_let_pass() -> None:
    there = world({"t@n1.x.y": "ERROR"})
    of_run(there, RUN, "t@n1.x.y")
    rollout = in_flight(sending(rollout_of(there, TWO), {"go": ("t",)}, task_run=RUN, may_fail=("t",)))
    assert Observer(there, "lab", rollout).seen()["n1.x.y"] == Seen(running=1)
    strict = replace(rollout, head=replace(rollout.head, may_fail=()))
    assert Observer(there, "lab", strict).seen()["n1.x.y"].errors == {"t": 0}


@pytest.mark.parametrize(("percent", "wanted"), [(50, Seen(waiting=1)), (100, "stuck")])
def test_what_waits_for_a_node_that_failed_goes_on_as_far_as_the_criteria_bear_it(percent: int, wanted: Any) -> None:
    there = world({"t@n1.x.y": "ERROR", "u@n2.x.y": "BLOCKED"}, {"u@n2.x.y": ["t@n1.x.y"]})
    of_run(there, RUN, "t@n1.x.y", "u@n2.x.y")
    rollout = in_flight(sending(rollout_of(there, TWO), {"go": ("t", "u")}, task_run=RUN))
    record = rollout.groups["all"]
    group = replace(record.group, success_criteria=Criteria(percent_successful_nodes=percent))
    lost = {"n1.x.y": replace(rollout.nodes["n1.x.y"], state=NodeState.FAILURE)}
    rollout = replace(rollout, groups={"all": replace(record, group=group)}, nodes={**rollout.nodes, **lost})
    seen = Observer(there, "lab", rollout).seen()["n2.x.y"]
    assert (seen.stuck == 1) if wanted == "stuck" else (seen == wanted)


CHAIN = {"os@n1.x.y": ["base@n1.x.y"], "app@n1.x.y": ["os@n1.x.y"], "extra@n1.x.y": ["os@n1.x.y"]}


def test_a_phase_has_the_roles_that_it_names_and_what_they_need_on_the_node() -> None:
    there = world(dict.fromkeys(["base@n1.x.y", "os@n1.x.y", "app@n1.x.y", "extra@n1.x.y"], "PROPOSED"), CHAIN)
    look = Observer(there, "lab", sending(rollout_of(there, PHASES), {"check": ("app",)}))
    roles = [[vertex.role for vertex in look.noderoles("n1.x.y", phase)] for phase in range(3)]
    assert roles == [["base", "os"], ["app", "base", "os"], ["app", "base", "extra", "os"]]
    bare = Observer(there, "lab", rollout_of(there))
    assert [len(bare.noderoles("n1.x.y", phase)) for phase in range(2)] == [0, 4]


def test_a_node_is_seen_by_its_noderoles() -> None:
    states = {
        "a@n1.x.y": "PROPOSED",
        "b@n1.x.y": "TODO",
        "c@n1.x.y": "TRANSITION",
        "d@n1.x.y": "ACTIVE",
        "e@n1.x.y": "ERROR",
        "f@n1.x.y": "BLOCKED",
        "g@n1.x.y": "BLOCKED",
        "h@n1.x.y": "BLOCKED",
        "e@n2.x.y": "ERROR",
    }
    parents = {"f@n1.x.y": ["b@n1.x.y"], "g@n1.x.y": ["h@n1.x.y"], "h@n1.x.y": ["e@n2.x.y"]}
    there = world(states, parents)
    rollout = rollout_of(there, [{"name": "deploy"}])
    rollout = apply(rollout, step(rollout, {}, 0.0).decisions)
    rollout = apply(rollout, step(rollout, {}, 0.0).decisions)
    assert Observer(there, "lab", rollout).seen()["n1.x.y"] == Seen(
        proposed=1,
        waiting=2,
        running=1,
        errors={"e": 0},
        stuck=2,
        reason="e@n1.x.y: why; g@n1.x.y waits for e@n2.x.y, in ERROR; h@n1.x.y waits for e@n2.x.y, in ERROR",
    )
    there.drop_node("n2.x.y")
    assert Observer(there, "lab", rollout).seen()["n2.x.y"] == Seen(gone=True)


def test_a_run_is_ended_only_where_somebody_can_end_it() -> None:
    there = world({"a@n1.x.y": "TRANSITION"})
    record = there.nodes["n1.x.y"].noderoles["a"].record.amended(cancel_reason="cancelled")
    there.put_noderole("n1.x.y", "a", record, 1)
    rollout = rollout_of(there, [{"name": "deploy"}])
    for _ in range(2):
        rollout = apply(rollout, step(rollout, {}, 0.0).decisions)

    def seen(**fields: bool) -> Seen:
        there.put_node("n1.x.y", Node(**{"deployment": "lab", "alive": True, **fields}), 1)
        return Observer(there, "lab", rollout).seen()["n1.x.y"]

    assert (seen().cancelling, seen(virtual=True, alive=False).cancelling) == (1, 1)
    for hindered in ({"alive": False}, {"available": False}, {"deleting": True}):
        assert (seen(**hindered).cancelling, seen(**hindered).stuck) == (0, 1), "nobody takes it over"
        assert "must be ended, and its machine" in seen(**hindered).reason
    there.put_claim("n1.x.y", Claim(annealer="a", noderole="a@n1.x.y", run="r", epoch=1, since=0.0), 1, 0)
    assert seen(available=False).cancelling == 1, "who holds it ends it"


def test_directives_move_the_noderoles_that_they_are_for() -> None:
    states = {f"{letter}@n1.x.y": state for letter, state in zip("abcdef", State, strict=True)}
    there = world(states, {"b@n1.x.y": ["c@n1.x.y"]})
    look = Observer(there, "lab", rollout_of(there))
    moved = {
        directive: {
            str(event): [str(v.record.state) for v in found]
            for event, found in look.moves([Action(directive, "n1.x.y", 1)]).items()
        }
        for directive in Directive
    }
    assert moved == {
        "commit": {"COMMIT": ["PROPOSED"]},
        "retry": {"COMMIT": ["PROPOSED"], "RETRY": ["ERROR"]},
        "recall": {"PROPOSE": ["BLOCKED", "TODO"]},
        "cancel": {"PROPOSE": ["BLOCKED", "TODO"], "CANCEL": ["TRANSITION"]},
    }


# -- what is ACTIVE and runs again --


def again(there: World, roles: Mapping[str, Mapping[str, int]]) -> Rollout:
    strategy = msgspec.convert({"groups": [{"name": "all"}], "phases": [{"name": "deploy"}]}, Strategy)
    made = begin(strategy, inventory(there, "lab"), 0.0, again=Again("role a", roles))
    return apply(made, step(made, {}, 0.0).decisions)


def put(there: World, role: str, **fields: Any) -> None:
    record = NodeRole.of(**{"state": State.ACTIVE, "since": 0.0, "deployment": "lab", "epoch": 3, **fields})
    there.put_noderole("n1.x.y", role, record, 0)


@pytest.mark.parametrize(
    ("fields", "seen", "moved"),
    [
        ({}, Seen(outdated=1), {"commit": "REFRESH", "retry": "REFRESH"}),
        ({"refresh": True}, Seen(waiting=1), {"recall": "WITHDRAW", "cancel": "WITHDRAW"}),
        ({"state": State.TRANSITION, "refresh": True, "epoch": 4}, Seen(running=1), {"cancel": "CANCEL"}),
        ({"epoch": 4}, Seen(), {}),
        ({"epoch": 4, "refresh": True}, Seen(), {}),
        ({"state": State.TODO}, Seen(waiting=1), {}),
        ({"state": State.PROPOSED}, Seen(stuck=1, reason="a@n1.x.y was proposed by hand"), {}),
        (
            {"state": State.ERROR, "epoch": 4, "generation": 7, "reason": "why"},
            Seen(errors={"a": 7}, reason="a@n1.x.y: why"),
            {"retry": "RETRY"},
        ),
        ({"once": "done"}, Seen(stuck=1, reason="a@n1.x.y is destructive, and is not run again"), {}),
    ],
)
def test_what_is_to_run_again_is_judged_by_the_epoch_of_its_newest_run(
    fields: dict[str, Any], seen: Seen, moved: dict[str, str]
) -> None:
    there = world({"a@n1.x.y": "ACTIVE", "b@n1.x.y": "PROPOSED", "c@n1.x.y": "ACTIVE"})
    put(there, "a", **fields)
    rollout = again(there, {"n1.x.y": {"a": 3}})
    rollout = apply(rollout, step(rollout, {}, 0.0).decisions)
    look = Observer(there, "lab", rollout)
    assert look.seen()["n1.x.y"] == seen
    found = {str(each): look.moves([Action(each, "n1.x.y", 0)]) for each in Directive}
    assert {name: str(event) for name, events in found.items() for event in events} == moved
    assert {v.role for events in found.values() for vertices in events.values() for v in vertices} <= {"a"}


def test_what_a_dead_machine_moved_is_not_waited_for_once_the_rollout_gives_its_node_up() -> None:
    there = world({"a@n1.x.y": "ACTIVE"})
    put(there, "a", state=State.TODO)
    rollout = again(there, {"n1.x.y": {"a": 3}})
    rollout = apply(rollout, step(rollout, {}, 0.0).decisions)
    assert Observer(there, "lab", rollout).seen()["n1.x.y"] == Seen(waiting=1)
    rollout = apply(rollout, cancel(rollout, 1.0))
    assert Observer(there, "lab", rollout).seen()["n1.x.y"].stuck == 1


def test_nodes_with_anything_to_run_again_are_sent_first() -> None:
    there = world({f"a@n{number}.x.y": "ACTIVE" for number in range(6)})
    rollout = again(there, {"n4.x.y": {"a": 0}, "n2.x.y": {"a": 0}})
    assert [name[:2] for name in rollout.members["all"]] == ["n2", "n4", "n0", "n1", "n3", "n5"]
    made = parts(rollout)
    nodes = [record for record in made.values() if isinstance(record, NodesRecord)]
    read = whole(
        rollout.head, rollout.groups, [msgspec.json.decode(msgspec.json.encode(n), type=NodesRecord) for n in nodes]
    )
    assert (read.members, list(read.nodes)) == (rollout.members, list(rollout.nodes))


def test_the_inventory_is_of_the_deployment_and_below_without_what_is_no_machine() -> None:
    there = world({"a@n1.x.y": "PROPOSED"}, deployment="rack")
    there.put_node("n2.x.y", Node(deployment="system"), 0)
    there.put_node("n3.x.y", Node(deployment="lab", virtual=True), 0)
    there.put_node("n4.x.y", Node(deployment="lab", deleting=True), 0)
    there.put_node("n5.x.y", Node(deployment="system"), 0)
    there.put_noderole("n5.x.y", "a", NodeRole(state=State.PROPOSED, since=0.0, deployment="lab"))
    assert sorted(inventory(there, "lab")) == ["n1.x.y", "n5.x.y"]
    assert sorted(inventory(there, "system")) == ["n1.x.y", "n2.x.y", "n5.x.y"]


def test_the_loop_of_a_driver_over_a_world() -> None:
    """With machines that do at once what they are told; os fails on n2, once."""
    there = world(
        {f"{role}@{fqdn}": "PROPOSED" for role in ("base", "os", "app") for fqdn in ("n1.x.y", "n2.x.y")},
        {
            f"{role}@{fqdn}": [f"{above}@{fqdn}"]
            for above, role in (("base", "os"), ("os", "app"))
            for fqdn in ("n1.x.y", "n2.x.y")
        },
    )
    rollout = begin(WHOLE, inventory(there, "lab"), 0.0)

    def drive(rollout: Rollout, fails: set[str]) -> Rollout:
        for _ in range(100):
            look = Observer(there, "lab", rollout)
            decided = step(rollout, look.seen(), 0.0)
            for event, vertices in look.moves(decided.actions).items():
                for changes in apply_to(there, vertices, event, 0.0):
                    advance(there, changes)
            rollout = apply(rollout, decided.decisions)
            for vertex in list(there.vertices()):
                if vertex.record.state is State.TODO:
                    state = State.ERROR if vertex.name in fails else State.ACTIVE
                    claimed = msgspec.structs.replace(vertex.record, state=state)
                    there.put_noderole(vertex.node.name, vertex.role, claimed, vertex.version + 1)
                    for child in vertex.children:
                        if child.record.state is State.BLOCKED and state is State.ACTIVE:
                            ready = msgspec.structs.replace(child.record, state=State.TODO)
                            there.put_noderole(child.node.name, child.role, ready, child.version + 1)
            if rollout.over:
                return rollout
        raise AssertionError(rollout)

    rollout = drive(rollout, {"os@n2.x.y"})
    assert rollout.head.state is RolloutState.FAILED
    assert "os@n2.x.y" in str(rollout.nodes["n2.x.y"].reason)
    rollout = drive(apply(rollout, retry(rollout, 0.0)), set())
    assert rollout.head.state is RolloutState.SUCCESS
    assert {vertex.record.state for vertex in there.vertices()} == {State.ACTIVE}


def test_no_node_passes_a_phase_while_a_deployment_below_may_have_more_of_its_noderoles() -> None:
    there = world({"a@n1.x.y": "ACTIVE", "b@n1.x.y": "TODO"})
    vertex = there.vertex("b@n1.x.y")
    assert vertex is not None
    there.put_noderole("n1.x.y", "b", replace(vertex.record, deployment="rack"), 0)
    rollout = in_flight(rollout_of(there, [{"name": "deploy"}]))
    known = there.deployments.pop("rack")
    assert Observer(there, "lab", rollout).seen()["n1.x.y"].done, "a driver that took over does not see b"
    there.unreadable[paths.deployment("rack")] = "it is garbage"
    seen = Observer(there, "lab", rollout).seen()["n1.x.y"]
    assert (seen.done, seen.unread) == (False, 1)
    there.deployments["rack"] = known
    assert Observer(there, "lab", rollout).seen()["n1.x.y"] == Seen(waiting=1)


@pytest.mark.parametrize("path", [paths.noderole("b", "n1.x.y"), paths.node("n1.x.y")])
def test_a_record_that_cannot_be_read_for_a_moment_fails_no_node(path: str) -> None:
    there = world({"a@n1.x.y": "ACTIVE", "b@n1.x.y": "ACTIVE"})
    rollout = in_flight(rollout_of(there, [{"name": "deploy", "timeout_seconds": 50}]))
    unreadable = ["b@n1.x.y"] if path.endswith("b") else []

    def stepped(now: float) -> None:
        nonlocal rollout
        seen = Observer(there, "lab", rollout, unreadable if there.unreadable else ()).seen()
        rollout = apply(rollout, step(rollout, seen, now).decisions)

    def spoil() -> None:
        there.unreadable[path] = "it is garbage"
        node.record = None if path == paths.node("n1.x.y") else node.record

    node = there.nodes["n1.x.y"]
    spoil()
    for _ in range(5):
        stepped(2.0)
    assert rollout.nodes["n1.x.y"].state in (NodeState.SENDING, NodeState.SENT)
    late = rollout
    del there.unreadable[path]
    node.record = Node(deployment="lab", alive=True)
    stepped(3.0)
    stepped(3.0)
    assert rollout.nodes["n1.x.y"].state is NodeState.SUCCESS
    rollout = late
    spoil()
    for _ in range(9):
        stepped(100.0)
    assert rollout.nodes["n1.x.y"].state is NodeState.FAILURE
    assert "cannot be read" in str(rollout.nodes["n1.x.y"].reason)
