"""The layers of attributes that a jig sees, the strongest last."""

from __future__ import annotations

from msgspec.structs import replace

from nodepool_ocb.engine import inputs
from nodepool_ocb.engine.world import Stored, World
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import DeploymentRole, Json, Node, NodeRole, Role, State

ABOVE, HERE = "n0.example.com", "n1.example.com"
WALL = paths.wall("app", HERE)

#: Each layer of app@n1, the weakest first, and where it comes from.
SIBLING = paths.user("other", HERE)
PARENT = (paths.wall("base", ABOVE), paths.system("base", ABOVE), paths.user("base", ABOVE))
OWN = (WALL, paths.system("app", HERE), paths.user("app", HERE))


def world() -> World:
    """base@n0 above app@n1, which has other@n1 beside it, ACTIVE; both roles have defaults and a deployment's layer."""
    made = World()
    made.put_node(ABOVE, Node(deployment="lab"), 0)
    made.put_node(HERE, Node(deployment="lab"), 0)
    for name in ("base", "app"):
        template: Json = {"a": f"default of {name}", f"default of {name}": True}
        made.put(Stored(Role(barclamp="b", jig="script", template=template), 0), name)
        system: Json = {"a": f"deployment of {name}", f"deployment of {name}": True}
        made.put(Stored(DeploymentRole(system=system), 0), "lab", name)
    template = {"a": "default of other", "default of other": True}
    made.put(Stored(Role(barclamp="b", jig="script", template=template), 0), "other")
    user = {"a": "deployment of other", "deployment of other": True}
    made.put(Stored(DeploymentRole(user=user), 0), "lab", "other")
    for fqdn, role, above in ((ABOVE, "base", ()), (HERE, "other", ()), (HERE, "app", (f"base@{ABOVE}",))):
        state = State.TODO if role == "app" else State.ACTIVE
        made.put_noderole(fqdn, role, NodeRole(state=state, since=0.0, deployment="lab", parents=above), 0)
    return made


def seen(*written: str, of: World | None = None) -> dict[str, Json]:
    """What app@n1 sees while each of these blobs names itself as ``a``, and leaves a key of its own."""
    made = of or world()
    vertex = made.vertex(f"app@{HERE}")
    assert vertex is not None
    wanted = inputs.sources(made, vertex, made.roles["app"].record)
    blobs = {path: {"a": path, path: True} for path in written}
    return inputs.visible(inputs.layers(wanted, blobs))


ALL = [
    path(role, fqdn)
    for role, fqdn in (("base", ABOVE), ("app", HERE), ("other", HERE))
    for path in (paths.wall, paths.system, paths.user)
]


def test_every_layer_is_seen() -> None:
    found = seen(*ALL)
    shared = {f"{what} of {role}" for what in ("default", "deployment") for role in ("base", "app", "other")}
    assert {name for name in found if name != "a"} == {*ALL, *shared}


def test_defaults_of_the_own_role_stand_above_those_of_a_parent() -> None:
    assert {"default of app", "default of base"} <= seen().keys()
    assert seen()["a"] == "deployment of app"


def test_what_is_written_at_the_noderole_counts_most_and_the_user_counts_more_than_the_wall() -> None:
    for strongest in range(len(OWN)):
        assert seen(SIBLING, *PARENT, *OWN[: strongest + 1])["a"] == OWN[strongest]


def test_what_is_written_at_a_parent_yields_to_the_defaults_of_the_own_role() -> None:
    assert seen(*PARENT)["a"] == "deployment of app"
    assert seen(*PARENT)[PARENT[0]] is True


def test_all_that_an_active_sibling_says_is_seen_below_what_the_noderole_depends_on() -> None:
    assert {SIBLING, "default of other", "deployment of other"} <= seen(SIBLING).keys()
    assert seen(SIBLING)["a"] == "deployment of app"


def test_attributes_of_an_inactive_sibling_are_not_seen() -> None:
    made = world()
    made.put_noderole(HERE, "other", NodeRole(state=State.ERROR, since=0.0, deployment="lab"), 1)
    assert not {SIBLING, "default of other", "deployment of other"} & seen(of=made).keys()


def test_a_default_of_one_sibling_does_not_hide_what_was_set_for_another() -> None:
    made = world()
    template = {"b": "default of zeta"}
    made.put(Stored(Role(barclamp="b", jig="script", template=template), 0), "zeta")
    made.put_noderole(HERE, "zeta", NodeRole(state=State.ACTIVE, since=0.0, deployment="lab"), 0)
    assert seen(of=made)["b"] == "default of zeta"
    stored = made.deployment_roles["lab", "other"]
    made.put(replace(stored, record=DeploymentRole(user={"b": "set for other"})), "lab", "other")
    assert seen(of=made)["b"] == "set for other"


def test_hints_of_the_node_are_seen_where_nobody_says_otherwise() -> None:
    made = world()
    made.put_node(HERE, Node(deployment="lab", hints={"a": "a hint", "admin_macs": ["52:54:00:00:00:01"]}), 1)
    found = seen(of=made)
    assert (found["a"], found["admin_macs"]) == ("deployment of app", ["52:54:00:00:00:01"])
