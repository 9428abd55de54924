"""What is outdated: a change counts for exactly those that see it, and is told by its place, its values and its layer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from nodepool_ocb.engine import inputs
from nodepool_ocb.engine.inputs import InputChange
from nodepool_ocb.engine.world import Stored, World
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Attrib, DeploymentRole, Given, Json, Node, NodeRole, Role, State
from nodepool_ocb.store.client import codec

Blobs = dict[str, Mapping[str, Json]]
ALL = {"base@n1", "server@n1", "client@n1", "client@n2", "beside@n1", "wanting@n1"}


def world() -> World:
    """base <- server <- client on n1; client@n2 below the same server; beside and wanting stand alone on n1."""
    made = World()
    attrib = Attrib(name="motd_text", map="motd/text")
    for role, more in {
        "base": {},
        "server": {},
        "client": {},
        "beside": {"attribs": (attrib,)},
        "wanting": {"wants_attribs": ("motd_text",)},
    }.items():
        made.put(Stored(Role(barclamp="b", jig="script", script="echo 1\n", **more), 0), role)
        made.put(Stored(DeploymentRole(), 0), "lab", role)
    for fqdn in ("n1", "n2"):
        made.put_node(fqdn, Node(deployment="lab"), 0)
    above = {"server@n1": ("base@n1",), "client@n1": ("server@n1",), "client@n2": ("server@n1",)}
    for name in sorted(ALL):
        role, fqdn = paths.split_noderole(name)
        record = NodeRole(state=State.ACTIVE, since=0.0, deployment="lab", parents=above.get(name, ()))
        made.put_noderole(fqdn, role, record, 0)
    return made


def judged(made: World, name: str, blobs: Blobs) -> inputs.Judged:
    vertex = made.vertex(name)
    assert vertex is not None
    return inputs.judged(inputs.sources(made, vertex, made.roles[vertex.role].record), blobs)


def run(made: World, blobs: Blobs) -> dict[str, Given | None]:
    """Every noderole has run with what there is now; gives what was kept of each."""
    kept = {}
    for name in sorted(ALL):
        now = judged(made, name, blobs)
        vertex = made.vertex(name)
        assert vertex is not None
        made.put_noderole(vertex.node.name, vertex.role, replace(vertex.record, given=now.number), 1)
        kept[name] = inputs.kept(now.given)
    return kept


def outdated(made: World, blobs: Blobs) -> set[str]:
    return {vertex.name for vertex in inputs.all_outdated(made, made.vertices(), blobs)}


def set_for(made: World, role: str, **user: Json) -> None:
    stored = made.deployment_roles["lab", role]
    made.put(replace(stored, record=replace(stored.record, user=user)), "lab", role)


def test_nothing_is_outdated_right_after_it_ran() -> None:
    made = world()
    run(made, {})
    assert outdated(made, {}) == set()


def test_what_a_deployment_sets_for_a_role_is_seen_by_it_and_by_all_below_it_and_by_nobody_else() -> None:
    made = world()
    run(made, {})
    set_for(made, "server", servers=["10.0.0.1"])
    assert outdated(made, {}) == {"server@n1", "client@n1", "client@n2"}


@pytest.mark.parametrize(
    ("path", "seen_by"),
    [
        (paths.user("server", "n1"), {"server@n1", "client@n1", "client@n2"}),
        (paths.system("server", "n1"), {"server@n1", "client@n1", "client@n2"}),
        (paths.wall("server", "n1"), {"client@n1", "client@n2"}),
        (paths.user("client", "n2"), {"client@n2"}),
        (paths.wall("client", "n2"), set()),
    ],
    ids=["user", "system", "wall", "user of a leaf", "wall of a leaf"],
)
def test_a_noderoles_own_attributes_are_seen_below_and_its_wall_is_none_of_its_own_inputs(
    path: str, seen_by: set[str]
) -> None:
    made = world()
    run(made, {})
    assert outdated(made, {path: {"a": 1}}) == seen_by


def test_of_a_noderole_beside_only_what_the_role_wants_counts() -> None:
    made = world()
    run(made, {})
    set_for(made, "beside", other="x")
    assert outdated(made, {}) == {"beside@n1"}
    set_for(made, "beside", motd={"text": "hello"})
    assert outdated(made, {}) == {"beside@n1", "wanting@n1"}


def test_what_stands_beside_and_becomes_active_outdates_nobody_who_wants_nothing_of_it() -> None:
    made = world()
    set_for(made, "beside", motd={"text": "hello"}, other="x")
    vertex = made.vertex("beside@n1")
    assert vertex is not None
    made.put_noderole("n1", "beside", replace(vertex.record, state=State.ERROR), 1)
    run(made, {})
    made.put_noderole("n1", "beside", replace(vertex.record, state=State.ACTIVE), 2)
    assert outdated(made, {}) - {"beside@n1"} == {"wanting@n1"}


@pytest.mark.parametrize(
    "change", [{"script": "echo 2\n"}, {"parameters": {"a": 1}}, {"jig": "test"}, {"template": {"a": 1}}], ids=str
)
def test_another_role_outdates_what_ran_by_the_old_one(change: dict[str, Any]) -> None:
    made = world()
    run(made, {})
    stored = made.roles["beside"]
    made.put(replace(stored, record=replace(stored.record, **change)), "beside")
    assert outdated(made, {}) == {"beside@n1"}


@pytest.mark.parametrize("change", [{"timeout_seconds": 5.0}, {"retries": 3}, {"description": "x"}], ids=str)
def test_what_no_script_sees_of_a_role_outdates_nothing(change: dict[str, Any]) -> None:
    made = world()
    run(made, {})
    stored = made.roles["beside"]
    made.put(replace(stored, record=replace(stored.record, **change)), "beside")
    assert outdated(made, {}) == set()


@pytest.mark.parametrize(("before", "now"), [(1, 1.0), (1, True), ([1], [True]), ("1", 1), (None, False)], ids=str)
def test_values_are_compared_as_json(before: Json, now: Json) -> None:
    made = world()
    path = paths.user("beside", "n1")
    kept = run(made, {path: {"a": before}})
    assert outdated(made, {path: {"a": now}}) == {"beside@n1"}
    assert different(made, "beside@n1", kept, {path: {"a": now}}) == [
        InputChange("a", before, now, "user of beside@n1")
    ]


def test_what_will_run_anyway_is_not_outdated_nor_what_nobody_noted() -> None:
    now = inputs.Judged(7, Given(jig="script"))
    record = NodeRole(state=State.ACTIVE, since=0.0, given=6)
    assert inputs.outdated(record, now)
    assert not inputs.outdated(record.amended(refresh=True), now)
    assert not inputs.outdated(replace(record, given=0), now)
    for state in set(State) - {State.ACTIVE}:
        assert not inputs.outdated(replace(record, state=state), now)


# -- what differs --


def different(made: World, name: str, kept: dict[str, Given | None], blobs: Blobs) -> list[InputChange]:
    vertex = made.vertex(name)
    assert vertex is not None
    return inputs.differences(made, vertex, blobs, kept[name])


def test_each_attribute_says_what_it_was_what_it_is_and_who_says_so() -> None:
    made = world()
    path = paths.user("client", "n2")
    set_for(made, "server", ntp={"servers": ["a"], "zone": "UTC"})
    kept = run(made, {path: {"gone": 1, "deep": {"er": "x"}}})
    set_for(made, "server", ntp={"servers": ["a", "b"], "zone": "UTC"}, fresh={"a": {"b": 1}})
    assert different(made, "client@n2", kept, {path: {"deep": {"er": "y"}}}) == [
        InputChange("deep/er", "x", "y", "user of client@n2"),
        InputChange("fresh/a/b", msgspec.UNSET, 1, "deployment: role server of lab"),
        InputChange("gone", 1, msgspec.UNSET, None),
        InputChange("ntp/servers", ["a"], ["a", "b"], "deployment: role server of lab"),
    ]


def test_what_the_role_wants_of_another_is_told_like_any_attribute() -> None:
    made = world()
    set_for(made, "beside", motd={"text": "old"})
    kept = run(made, {})
    set_for(made, "beside", motd={"text": "new"})
    assert different(made, "wanting@n1", kept, {}) == [
        InputChange("motd/text", "old", "new", "deployment: role beside of lab")
    ]


def test_what_the_role_says_is_told_by_its_key() -> None:
    made = world()
    kept = run(made, {})
    stored = made.roles["beside"]
    made.put(replace(stored, record=replace(stored.record, script="echo 2\n", parameters={"a": 1})), "beside")
    script, parameters = different(made, "beside@n1", kept, {})
    assert (script.what, script.layer) == ("script", "role")
    assert script.before != script.now
    assert parameters == InputChange("parameters/a", msgspec.UNSET, 1, "role")


def test_a_long_text_that_changed_is_told_though_only_its_digest_was_kept() -> None:
    made = world()
    path = paths.user("beside", "n1")
    kept = run(made, {path: {"a": "x" * 1000}})
    (found,) = different(made, "beside@n1", kept, {path: {"a": "x" * 999 + "y"}})
    assert found.what == "a"
    assert "1000 characters" in found.before
    assert found.before != found.now


@pytest.mark.parametrize("number", [6, inputs.UNKNOWN])
def test_where_it_is_not_known_what_was_given_that_is_said(number: int) -> None:
    made = world()
    vertex = made.vertex("beside@n1")
    assert vertex is not None
    made.put_noderole("n1", "beside", replace(vertex.record, given=number), 1)
    before = Given(jig="script", reason="its run was taken over")
    assert outdated(made, {}) == {"beside@n1"}
    assert inputs.differences(made, vertex, {}, before) == [InputChange("everything", "its run was taken over")]


def test_of_what_ran_with_nothing_to_run_only_another_jig_is_another() -> None:
    made = world()
    vertex = made.vertex("beside@n1")
    assert vertex is not None
    run(made, {})
    record = replace(vertex.record, given=inputs.of_instant("script"))
    made.put_noderole("n1", "beside", record, 1)
    set_for(made, "beside", motd={"text": "new"})
    assert "beside@n1" not in outdated(made, {})
    made.put_noderole("n1", "beside", replace(record, given=inputs.of_instant("noop")), 2)
    assert "beside@n1" in outdated(made, {})


def test_where_nothing_else_is_known_to_differ_the_jig_does() -> None:
    made = world()
    made.put(Stored(Role(barclamp="b", jig="test"), 1), "base")
    vertex = made.vertex("base@n1")
    assert vertex is not None
    made.put_noderole("n1", "base", replace(vertex.record, given=inputs.of_instant("noop")), 1)
    assert inputs.differences(made, vertex, {}, None) == [InputChange("jig", "another", "test", "role")]


def test_a_value_that_hides_a_map_of_one_further_above_outdates_though_a_map_stands_above_it() -> None:
    made = world()
    blobs: Blobs = {paths.user("base", "n1"): {"x": {"p": 1}}, paths.user("server", "n1"): {"x": {"q": 2}}}
    run(made, blobs)
    blobs[paths.system("server", "n1")] = {"x": 5}  # below what its user says: x/p is seen no more
    assert "client@n1" in outdated(made, blobs)


def test_what_is_read_is_what_those_see_that_may_be_outdated() -> None:
    made = world()
    assert inputs.read_for(made.vertices()) == []
    run(made, {})
    vertex = made.vertex("client@n2")
    assert vertex is not None
    seen = ("base@n1", "client@n2", "server@n1")
    assert inputs.read_for([vertex]) == sorted(paths.noderole(*paths.split_noderole(name)) for name in seen)


def test_what_is_noted_in_the_record_takes_forty_bytes_at_most() -> None:
    record = NodeRole(state=State.ACTIVE, since=0.0)
    noted = replace(record, given=10**15)
    assert 0 < len(codec.encode(noted)) - len(codec.encode(record)) <= 40
