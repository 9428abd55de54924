"""Hooks that wait for code that no living annealer has."""

from __future__ import annotations

from nodepool_ocb.engine.hooks import code as hookcode
from nodepool_ocb.engine.hooks.code import MissingHook
from nodepool_ocb.engine.world import Stored, World
from nodepool_ocb.model.records import Daemon, DeploymentRole, Node, Role, State
from tests.engine import worlds


def world(*code: str) -> World:
    """The annealer has this code; role "watched", of barclamp "b", has hooks."""
    made = worlds.world()
    made.put(Stored(Daemon(host="h", pid=1, version="0", started=0.0, jigs=("noop",), code=code), 0), "annealer", "a")
    hooks = ("on_todo", "on_active", "on_node_change", "on_node_delete")
    made.put(Stored(Role(barclamp="b", jig="noop", hooks=hooks), 0), "watched")
    return made


def test_of_the_hooks_of_a_noderole_the_first_waits_for_its_code_and_the_others_for_the_first() -> None:
    made = world()
    worlds.put(made, "watched@n", State.ACTIVE, hooks=("on_todo", "on_active"))
    worlds.put(made, "watched@m", State.TODO, hooks=("on_todo",))
    worlds.put(made, "watched@o", State.TODO)
    assert hookcode.all_missing(made) == [MissingHook("watched", "on_todo", 2)]


def test_hooks_of_nodes_and_deployments_wait_for_code_as_those_of_noderoles() -> None:
    made = world()
    made.put(Stored(DeploymentRole(hooks=("on_deployment_change", "on_deployment_delete")), 0), "system", "watched")
    for fqdn in ("m", "n"):
        made.put_node(fqdn, Node(hooks=("on_node_change", "on_node_delete")), 1)
    assert hookcode.all_missing(made) == [
        MissingHook("watched", "on_deployment_change", 1),
        MissingHook("watched", "on_node_change", 2),
    ]


def test_no_hook_waits_for_code_where_an_annealer_has_that_of_the_role_or_its_barclamp_or_none_runs() -> None:
    for made in (world("watched"), world("b"), world()):
        worlds.put(made, "watched@n", State.TODO, hooks=("on_todo",))
        if not made.annealers["a"].code:
            made.drop(Daemon, "annealer", "a")
        assert hookcode.all_missing(made) == []
