"""The layers of attributes that a jig sees, the strongest last, and what of its answer goes to the wall."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from nodepool_ocb.engine.world import Stored, World
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Change, Create, DeploymentRole, Json, Node, NodeRole, Role, Set, State
from nodepool_ocb.store.client.session import Znode
from nodepool_ocb_annealer.runs import attributes

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
        made.put_role(name, Stored(Role(barclamp="b", jig="script", template=template), 0))
        system: Json = {"a": f"deployment of {name}", f"deployment of {name}": True}
        made.put_deployment_role("lab", name, Stored(DeploymentRole(system=system), 0))
    made.put_role("other", Stored(Role(barclamp="b", jig="script", template={"a": "nobody sees it"}), 0))
    for fqdn, role, above in ((ABOVE, "base", ()), (HERE, "other", ()), (HERE, "app", (f"base@{ABOVE}",))):
        state = State.TODO if role == "app" else State.ACTIVE
        made.put_noderole(fqdn, role, NodeRole(state=state, since=0.0, deployment="lab", parents=above), 0)
    return made


def seen(*written: str) -> dict[str, Json]:
    """What app@n1 sees while each of these blobs names itself as ``a``, and leaves a key of its own."""
    made = world()
    vertex = made.vertex(f"app@{HERE}")
    assert vertex is not None
    wanted = attributes.sources(made, vertex, made.roles["app"].record)
    return attributes.visible(wanted, {path: blob(path) if path in written else None for path in (SIBLING, *ALL)})


def blob(path: str, content: Json = None) -> Znode:
    return Znode(path, msgspec.json.encode({"a": path, path: True} if content is None else content), 3, 0)


ALL = [
    path(role, fqdn)
    for role, fqdn in (("base", ABOVE), ("app", HERE), ("other", HERE))
    for path in (paths.wall, paths.system, paths.user)
]


def test_every_layer_is_seen() -> None:
    found = seen(*ALL)
    names = {*ALL, "default of base", "deployment of base", "default of app", "deployment of app"}
    assert {name for name in found if name != "a"} == names


def test_defaults_of_the_own_role_stand_above_those_of_a_parent() -> None:
    assert {"default of app", "default of base"} <= seen().keys()
    assert seen()["a"] == "deployment of app"


def test_what_is_written_at_the_noderole_counts_most_and_the_user_counts_more_than_the_wall() -> None:
    for strongest in range(len(OWN)):
        assert seen(SIBLING, *PARENT, *OWN[: strongest + 1])["a"] == OWN[strongest]


def test_what_is_written_at_a_parent_yields_to_the_defaults_of_the_own_role() -> None:
    assert seen(*PARENT)["a"] == "deployment of app"
    assert seen(*PARENT)[PARENT[0]] is True


def test_what_is_written_at_an_active_sibling_is_seen_and_its_defaults_are_not() -> None:
    assert seen(SIBLING)[SIBLING] is True
    assert seen(SIBLING)["a"] == "deployment of app"


def changes(returned: Mapping[str, Json], wall: Znode | None = None) -> list[Change]:
    """What is written after a jig was sent ``a`` and gave this back."""
    made = world()
    vertex = made.vertex(f"app@{HERE}")
    assert vertex is not None
    return attributes.wall_changes(vertex, {WALL: wall}, {"a": 1}, dict(returned))


def test_what_a_jig_adds_is_written_to_the_wall() -> None:
    assert changes({"a": 1, "b": 2}) == [Create(WALL, {"b": 2})]
    assert changes({"a": 1, "b": 2}, blob(WALL, {"c": 3})) == [Set(WALL, {"c": 3, "b": 2}, 3)]


def test_a_wall_that_stays_the_same_is_not_written() -> None:
    assert changes({"a": 1}) == []
    assert changes({"a": 1, "b": 2}, blob(WALL, {"b": 2})) == []
    assert changes({"a": 1}, blob(WALL, {"b": 2})) == []


def test_a_wall_that_cannot_be_read_is_written_over_with_the_version_that_was_read() -> None:
    assert changes({"a": 1, "b": 2}, Znode(WALL, b"{", 3, 0)) == [Set(WALL, {"b": 2}, 3)]
