"""Noderoles of nodes that are made alike are judged once, and each as if it were judged alone."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from nodepool_ocb.engine import inputs, unreadable
from nodepool_ocb.engine.world import Stored, World
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Attrib, DeploymentRole, Json, Node, NodeRole, Role, State

NODES = tuple(f"n{number}" for number in range(1, 7))
ROLES: Mapping[str, Mapping[str, Any]] = {
    "base": {"template": {"zone": "UTC"}},
    "server": {},
    "client": {"wants_attribs": ("motd_text",)},
    "motd": {"attribs": (Attrib(name="motd_text", map="motd/text"),)},
    "idle": {"jig": "noop"},
    "upper": {"template": {"place": "above"}},
    "lower": {"template": {"place": "below"}},
    "leaf": {},
}
ABOVE = {
    "server": ("base",),
    "client": ("base", "server"),
    "idle": ("client",),
    "lower": ("upper",),
    "leaf": ("lower", "upper"),
}


def world() -> World:
    """On each node base <- server <- client <- idle, motd, which client wants, and upper <- lower <- leaf; all have run."""
    made = World()
    for role, more in ROLES.items():
        made.put(Stored(Role(**{"barclamp": "b", "jig": "script", "script": "echo 1\n", **more}), 0), role)
        made.put(Stored(DeploymentRole(), 0), "lab", role)
    for fqdn in NODES:
        made.put_node(fqdn, Node(deployment="lab"), 0)
        for role in ROLES:
            parents = tuple(f"{above}@{fqdn}" for above in ABOVE.get(role, ()))
            made.put_noderole(fqdn, role, NodeRole(state=State.ACTIVE, since=0.0, deployment="lab", parents=parents), 0)
    for vertex in list(made.vertices()):
        instant = vertex.role == "idle"
        given = inputs.of_instant("noop") if instant else alone(made, vertex.name, {}).number
        made.put_noderole(vertex.node.name, vertex.role, replace(vertex.record, given=given), 1)
    return made


def alone(made: World, name: str, blobs: Mapping[str, Any]) -> inputs.Judged:
    vertex = made.vertex(name)
    assert vertex is not None
    return inputs.judged(inputs.sources(made, vertex, made.roles[vertex.role].record), blobs)


def changed(made: World, name: str, **fields: Any) -> None:
    vertex = made.vertex(name)
    assert vertex is not None
    made.put_noderole(vertex.node.name, vertex.role, replace(vertex.record, **fields), vertex.version + 1)


def hinted(made: World) -> None:
    made.put_node("n2", Node(deployment="lab", hints={"motd": {"text": "hello"}}), 1)


def set_for_motd(made: World) -> None:
    stored = made.deployment_roles["lab", "motd"]
    made.put(replace(stored, record=replace(stored.record, user={"motd": {"text": "hello"}})), "lab", "motd")


def template(made: World) -> None:
    stored = made.roles["base"]
    made.put(replace(stored, record=replace(stored.record, template={"zone": "CET"})), "base")


#: The change, the attributes that single noderoles have then, and the outdated ones.
CHANGES: Mapping[str, tuple[Callable[[World], None], Mapping[str, Json], set[str]]] = {
    "none": (lambda _: None, {}, set()),
    "a role": (template, {}, {f"{role}@{fqdn}" for fqdn in NODES for role in ("base", "server", "client")}),
    "attributes of one": (lambda _: None, {paths.user("server", "n3"): {"a": 1}}, {"server@n3", "client@n3"}),
    "attributes beside one": (
        lambda _: None,
        {paths.user("motd", "n3"): {"motd": {"text": "x"}}},
        {"motd@n3", "client@n3"},
    ),
    "hints of a node": (hinted, {}, {"client@n2", "motd@n2"}),
    "a deployment": (set_for_motd, {}, {f"{role}@{fqdn}" for fqdn in NODES for role in ("motd", "client")}),
    "a parent elsewhere": (
        lambda made: changed(made, "server@n4", parents=("base@n5", "motd@n6")),
        {paths.user("motd", "n6"): {"x": 1}},
        {"motd@n6", "server@n4", "client@n4"},
    ),
    "an ancestor here that is a parent elsewhere": (
        lambda made: changed(made, "leaf@n4", parents=("lower@n4", "upper@n5")),
        {},
        {"leaf@n4"},
    ),
    "a parent less": (lambda made: changed(made, "server@n4", parents=()), {}, {"server@n4"}),
    "another deployment": (lambda made: changed(made, "base@n1", deployment="desk"), {}, set()),
    "a circle": (lambda made: changed(made, "base@n1", parents=("client@n1",)), {}, set()),
}


@pytest.mark.parametrize("change", CHANGES)
def test_each_noderole_is_judged_as_if_it_were_judged_alone(change: str) -> None:
    made = world()
    change_world, blobs, expected = CHANGES[change]
    change_world(made)
    found = {vertex.name for vertex in inputs.all_outdated(made, made.vertices(), blobs)}  # type: ignore[arg-type]
    others = (vertex for vertex in made.vertices() if vertex.role != "idle")
    assert found == {v.name for v in others if inputs.outdated(v.record, alone(made, v.name, blobs))} == expected


def test_noderoles_of_equal_nodes_are_judged_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made, judged = world(), list[str]()

    def counting(sources: inputs.InputSources, *rest: Any) -> inputs.Judged:
        judged.append(sources.own.name)
        return inputs.judged(sources, *rest)

    monkeypatch.setattr(sys.modules["nodepool_ocb.engine.inputs.outdated"], "judged", counting)  # also a function
    assert inputs.all_outdated(made, made.vertices(), {}) == []
    assert sorted(judged) == [f"{role}@n1" for role in sorted(ROLES) if role != "idle"], "which had nothing to run"


def test_the_attributes_to_read_are_those_that_any_of_the_noderoles_sees() -> None:
    made = world()
    changed(made, "client@n2", state=State.TODO)
    changed(made, "server@n1", parents=("motd@n6",))
    several = [vertex for vertex in made.vertices() if vertex.node.name in ("n1", "n2")]
    seen = {each for vertex in several if vertex.record.state is State.ACTIVE and vertex.role != "idle"
            for each in unreadable.seen_by(vertex)}  # fmt: skip
    assert inputs.read_for(several) == sorted(paths.noderole(each.role, each.node.name) for each in seen)
    assert paths.noderole("motd", "n6") in inputs.read_for(several)
