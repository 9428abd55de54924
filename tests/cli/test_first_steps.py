"""Nodes, binds and commits: each thing that a person does first does what its name says, and no more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Create, Role
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.world.load import load_world

Ask = Callable[..., Any]

N1, N2 = "n1.example.com", "n2.example.com"


def states(ask: Ask) -> dict[str, str]:
    return {row["noderole"]: row["state"] for row in ask("noderole", "list")}


@pytest.mark.usefixtures("world")
def test_a_new_node_is_in_deployment_system_unless_another_is_named(ask: Ask) -> None:
    ask("node", "create", N2)
    assert (ask("node", "show", N2)["deployment"], ask("node", "show", N1)["deployment"]) == ("system", "lab")


@pytest.mark.usefixtures("world")
def test_every_deployment_has_a_parent_but_system(ask: Ask) -> None:
    ask("deployment", "create", "rack", "--parent", "lab")
    ask("deployment", "create", "shelf", "--parent", "rack")
    parents = {row["name"]: row["parent"] for row in ask("deployment", "list")}
    assert parents == {"system": None, "lab": "system", "rack": "lab", "shelf": "rack"}


@pytest.mark.usefixtures("world")
def test_bind_and_commit_print_what_they_made(ask: Ask) -> None:
    ask("node", "create", N2, "--deployment", "lab")
    bound = ask("node", "bind", N2, "top")["changes"]
    assert {row["name"]: row["state"] for row in bound if row["kind"] == "noderole"} == {
        f"{role}@{N2}": "PROPOSED" for role in ("base", "middle", "top")
    }
    committed = ask("node", "commit", N2)["changes"]
    assert {row["name"] for row in committed} >= {f"{role}@{N2}" for role in ("base", "middle", "top")}
    assert states(ask)[f"base@{N2}"] == "TODO"


@pytest.mark.usefixtures("world")
def test_a_commit_is_of_a_noderole_of_a_node_or_of_a_deployment(ask: Ask) -> None:
    ask("node", "create", N2, "--deployment", "lab")
    ask("node", "bind", N2, "top")
    ask("noderole", "commit", f"middle@{N1}")
    assert {name for name, state in states(ask).items() if state != "PROPOSED"} == {f"middle@{N1}"}
    ask("node", "commit", N1)
    assert {name.partition("@")[2] for name, state in states(ask).items() if state != "PROPOSED"} == {N1}
    ask("deployment", "commit", "lab")
    assert "PROPOSED" not in states(ask).values()


def test_a_noderole_that_is_bound_has_its_hook_on_proposed_to_run(world: Session, ask: Ask) -> None:
    world.commit([Create(paths.role("watched"), Role(barclamp="b", jig="noop", hooks=("on_proposed", "on_todo")))])
    ask("node", "bind", N1, "watched")
    vertex = load_world(world).vertex(f"watched@{N1}")
    assert vertex is not None
    assert vertex.record.hooks == ("on_proposed",)


def test_a_node_s_first_hook_waits_beside_the_noderoles_that_it_begins_with(world: Session, ask: Ask) -> None:
    hooked = Role(barclamp="b", jig="noop", flags=("discovery",), hooks=("on_node_create",))
    world.commit([Create(paths.role("found"), hooked)])
    changes = ask("node", "create", N2)["changes"]
    assert f"found@{N2}" in {row["name"] for row in changes}
    view = load_world(world).nodes[N2]
    assert view.record is not None
    assert (view.record.hooks, list(view.noderoles)) == (("on_node_create",), ["found"])


def test_milestones_are_listed_for_people_to_choose_from(world: Session, ask: Ask) -> None:
    world.commit([Create(paths.role("whole"), Role(barclamp="b", jig="noop", flags=("milestone",)))])
    assert [row["name"] for row in ask("role", "list", "--flag", "milestone")] == ["whole"]
