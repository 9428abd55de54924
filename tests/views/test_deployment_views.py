"""Deployments as they are shown."""

from __future__ import annotations

from nodepool_ocb.engine.world import Stored
from nodepool_ocb.model.records import Deployment, DeploymentRole, State
from nodepool_ocb.views import deployments
from nodepool_ocb.views.deployments import DeploymentBranch
from nodepool_ocb.views.view import plain
from tests.views.small import BASE, MIDDLE, TOP, put, small


def test_deployments_stand_below_their_parents_and_count_what_is_bound_by_state() -> None:
    world = small()
    put(world, MIDDLE, State.ACTIVE)
    world.put(Stored(Deployment(parent="gone"), 0), "alone")
    rows = deployments.rows(world, 1.0)
    assert [(row.name, row.parent) for row in rows] == [("system", None), ("lab", "system"), ("alone", "gone")]
    assert list(plain(rows[1]).items()) == [
        ("name", "lab"),
        ("parent", "system"),
        ("state", "COMMITTED"),
        ("noderoles", "1 ACTIVE, 1 BLOCKED, 1 ERROR"),
        ("since", 5.0),
        ("by", "root"),
        ("paused", None),
        ("deleting", False),
    ]


def test_one_deployment_has_its_record_what_is_below_it_its_roles_and_its_noderoles_by_name() -> None:
    world = small()
    world.put(Stored(Deployment(parent="lab"), 0), "rack")
    world.put(Stored(DeploymentRole(user={"a": 1}, refused={"on_deployment_delete": "busy"}), 0), "lab", "base")
    assert plain(deployments.document(world, "lab", 1.0)) == {
        "name": "lab",
        "parent": "system",
        "state": "COMMITTED",
        "since": 5.0,
        "by": "root",
        "checks": None,
        "pause": None,
        "deleting": False,
        "paused": None,
        "below": ["rack"],
        "roles": [
            {"role": "base", "user": {"a": 1}, "system": {}, "hooks": [], "refused": {"on_deployment_delete": "busy"}}
        ],
        "noderoles": [
            {"noderole": BASE, "state": "ERROR", "since": 1.0},
            {"noderole": MIDDLE, "state": "BLOCKED", "since": 2.0},
            {"noderole": TOP, "state": "BLOCKED", "since": 2.0},
        ],
    }


def test_the_tree_has_all_above_and_all_below_a_deployment_and_nothing_beside_it() -> None:
    world = small()
    for name, parent in (("b", "lab"), ("a", "lab"), ("c", "a"), ("beside", "system")):
        world.put(Stored(Deployment(parent=parent), 0), name)
    below = DeploymentBranch("lab", (DeploymentBranch("a", (DeploymentBranch("c"),)), DeploymentBranch("b")))
    assert deployments.tree(world, "lab") == DeploymentBranch("system", (below,))
    assert deployments.tree(world, "c") == DeploymentBranch(
        "system", (DeploymentBranch("lab", (DeploymentBranch("a", (DeploymentBranch("c"),)),)),)
    )


def test_deployments_in_a_circle_are_drawn_once() -> None:
    world = small()
    for name, parent in (("a", "b"), ("b", "a")):
        world.put(Stored(Deployment(parent=parent), 0), name)
    assert deployments.tree(world, "a") == DeploymentBranch("b", (DeploymentBranch("a", (DeploymentBranch("b"),)),))
