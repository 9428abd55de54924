"""Binding: parents, providers, clusters, refusals; and that nothing depends on the order in which roles came in."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from nodepool_ocb.engine import binding, nodes
from nodepool_ocb.engine.binding.parents import standing
from nodepool_ocb.engine.noderole import settle
from nodepool_ocb.engine.world import Stored, World
from nodepool_ocb.errors import Conflict, Invalid, NotFound
from nodepool_ocb.model.records import Attrib, Create, Deployment, DeploymentState, Node, NodeRole, Role, Set, State
from tests.fixtures.examples import examples

N1, N2 = "n1.example.com", "n2.example.com"


def world(roles: dict[str, Role], *fqdns: str) -> World:
    """A world with these roles, nodes in deployment system, and a deployment lab below it."""
    made = World()
    made.put(Stored(Deployment(parent=None, state=DeploymentState.COMMITTED), 0), "system")
    made.put(Stored(Deployment(), 0), "lab")
    for name, role in roles.items():
        made.put(Stored(role, 0), name)
    for fqdn in fqdns or (N1, N2):
        made.put_node(fqdn, Node(alive=True), 0)
    return made


def role(*requires: str, flags: tuple[str, ...] = (), **more: object) -> Role:
    return Role(barclamp="test", jig="noop", requires=requires, flags=flags, **more)  # type: ignore[arg-type]


def bind(made: World, name: str, fqdn: str = N1, **options: object) -> binding.BindPlan:
    """Plan, and put what was planned into the world, as its transaction would."""
    plan = binding.plan(made, name, fqdn, now=1.0, **options)  # type: ignore[arg-type]
    for change in plan.changes:
        if isinstance(change, Create | Set) and isinstance(change.data, NodeRole):
            _, _, _, at, _, bound = change.path.split("/")
            made.put_noderole(at, bound, change.data, 0)
    return plan


def edges(made: World) -> set[tuple[str, str]]:
    return {(parent, vertex.name) for vertex in made.vertices() for parent in vertex.record.parents}


def test_what_is_found_nowhere_is_bound_on_the_same_node_parents_first() -> None:
    made = world({"app": role("db", "net"), "db": role("net"), "net": role()})
    plan = bind(made, "app")
    assert [name for name, _ in plan.noderoles] == [f"net@{N1}", f"db@{N1}", f"app@{N1}"]
    assert edges(made) == {(f"net@{N1}", f"db@{N1}"), (f"db@{N1}", f"app@{N1}"), (f"net@{N1}", f"app@{N1}")}
    assert {record.state for _, record in plan.noderoles} == {State.PROPOSED}
    assert any("found nowhere" in line for line in plan.explanations)


def test_a_parent_in_the_deployment_serves_unless_it_is_implicit() -> None:
    made = world({"client": role("server", "access"), "server": role(), "access": role(flags=("implicit",))})
    bind(made, "server", N2)
    bind(made, "access", N2)
    bind(made, "client", N1)
    assert made.vertex(f"client@{N1}").record.parents == (f"access@{N1}", f"server@{N2}")  # type: ignore[union-attr]


def test_the_nearest_deployment_wins_then_the_name_of_the_node() -> None:
    made = world({"client": role("server"), "server": role()}, N1, "a.example.com", "z.example.com", "b.example.com")
    bind(made, "server", "a.example.com")
    bind(made, "server", "z.example.com", deployment="lab")
    bind(made, "server", "b.example.com", deployment="lab")
    plan = bind(made, "client", N1, deployment="lab")
    assert plan.noderoles[0][1].parents == ("server@b.example.com",)


def test_parents_can_be_given() -> None:
    made = world({"client": role("server"), "server": role()}, N1, "a.example.com", "b.example.com")
    bind(made, "server", "a.example.com")
    bind(made, "server", "b.example.com")
    plan = bind(made, "client", N1, parents=["server@b.example.com"])
    assert plan.noderoles[0][1].parents == ("server@b.example.com",)
    with pytest.raises(NotFound, match=r"server@c\.example\.com"):
        bind(made, "client", "a.example.com", parents=["server@c.example.com"])


def test_a_provider_counts_as_what_it_provides() -> None:
    made = world(
        {"app": role("ntp-client"), "ntp-client": role(flags=("implicit",)), "chrony": role(provides=("ntp-client",))}
    )
    bind(made, "chrony")
    bind(made, "app")
    assert made.vertex(f"app@{N1}").record.parents == (f"chrony@{N1}",)  # type: ignore[union-attr]
    assert made.vertex(f"ntp-client@{N1}") is None


def test_every_member_of_a_cluster_is_a_parent_also_of_children_bound_before_it() -> None:
    made = world({"osd": role("mon"), "mon": role(flags=("cluster",))}, N1, N2, "n3.example.com")
    bind(made, "mon", N1)
    bind(made, "osd", "n3.example.com")
    child = made.vertex("osd@n3.example.com")
    assert child is not None
    assert [parent.name for parent in child.parents] == [f"mon@{N1}"]
    made.put_noderole(N1, "mon", replace(child.parents[0].record, state=State.ACTIVE), 4)
    made.put_noderole("n3.example.com", "osd", replace(child.record, state=State.ACTIVE), 4)
    assert not child.waiting
    bind(made, "mon", N2)
    assert [parent.name for parent in child.parents] == [f"mon@{N1}", f"mon@{N2}"]
    assert settle({}, 2.0, also=[child])[child].state is State.BLOCKED
    bind(made, "osd", N2)
    later = made.vertex(f"osd@{N2}")
    assert later is not None
    assert later.parents == child.parents
    assert later.record.parents == child.record.parents == ("mon@*system",), "the members are written nowhere"


def test_a_cluster_of_another_deployment_with_a_member_on_the_same_node_is_a_parent_as_a_whole() -> None:
    made = world({"nova": role("mon"), "mon": role(flags=("cluster",))}, N1, N2, "n3.example.com")
    for name in ("storage", "compute"):
        made.put(Stored(Deployment(), 0), name)
    for fqdn in (N1, N2):
        bind(made, "mon", fqdn, deployment="storage")
    bind(made, "nova", N2, deployment="compute")
    child = made.vertex(f"nova@{N2}")
    assert child is not None
    assert child.record.parents == ("mon@*storage",)
    bind(made, "mon", "n3.example.com", deployment="storage")
    assert [parent.name for parent in child.parents] == [f"mon@{N1}", f"mon@{N2}", "mon@n3.example.com"]


def test_a_cluster_on_the_same_node_stands_beside_the_one_of_the_nearest_deployment() -> None:
    made = world({"nova": role("mon"), "mon": role(flags=("cluster",))}, N1, N2)
    made.put(Stored(Deployment(), 0), "storage")
    bind(made, "mon", N1, deployment="lab")
    bind(made, "mon", N2, deployment="storage")
    bind(made, "nova", N2, deployment="lab")
    child = made.vertex(f"nova@{N2}")
    assert child is not None
    assert child.record.parents == ("mon@*lab", "mon@*storage")


def test_a_wanted_attribute_orders_after_who_declares_it_and_binds_nothing() -> None:
    roles = {
        "client": role(wants_attribs=("dns-servers", "nobody-has-it")),
        "server": role(attribs=(Attrib(name="dns-servers", map="dns/servers"),)),
    }
    made = world(roles)
    bind(made, "client", N1)
    assert not edges(made)
    bind(made, "server", N2)
    made.put_node("n3.example.com", Node(), 0)
    bind(made, "client", "n3.example.com")
    assert edges(made) == {(f"server@{N2}", "client@n3.example.com")}


@pytest.mark.parametrize(
    ("roles", "first", "second", "said"),
    [
        ({"a": role(conflicts=("b",)), "b": role()}, "b", "a", "a conflicts with b, which is bound on n1"),
        ({"a": role(conflicts=("b",)), "b": role()}, "a", "b", "b conflicts with a, which is bound on n1"),
        ({"a": role(provides=("b",)), "b": role()}, "a", "b", "stand in for each other"),
        ({"a": role(provides=("b",)), "b": role()}, "b", "a", "stand in for each other"),
        ({"b": role(), "a": role(flags=("abstract",)), "c": role(provides=("a",))}, "b", "a", "bind one .* first: c"),
        ({"b": role(), "a": role(flags=("task",))}, "b", "a", "a is a task of a task list; nodepool-ocb tasks run"),
        ({"b": role(), "a": role("gone")}, "b", "a", "a requires gone, which no imported barclamp defines"),
        ({"b": role(), "a": role("x"), "x": role("y"), "y": role("a")}, "b", "a", "a -> x -> y -> a"),
    ],
)
def test_what_the_seeds_forbid_is_refused_and_nothing_is_left(
    roles: dict[str, Role], first: str, second: str, said: str
) -> None:
    made = world(roles)
    bind(made, first)
    before = {vertex.name for vertex in made.vertices()}
    with pytest.raises(Conflict, match=said):
        bind(made, second)
    assert {vertex.name for vertex in made.vertices()} == before


def test_roles_that_stand_in_for_each_other_are_not_above_and_below_each_other() -> None:
    made = world(
        {"ntp-server": role("net", provides=("ntp-client",)), "net": role(), "ntp-client": role("net2"), "net2": role()}
    )
    bind(made, "ntp-client", N2)
    made.roles["net"] = Stored(role("other"), 0)
    made.roles["other"] = Stored(role("ntp-client"), 0)
    with pytest.raises(Conflict, match="stands in for the other"):
        bind(made, "ntp-server", N1)


def test_a_jig_that_nobody_has_is_refused_by_name() -> None:
    made = world({"a": role()})
    with pytest.raises(Conflict, match="needs jig noop"):
        binding.plan(made, "a", N1, now=1.0, jigs={"script"})


def test_an_unknown_role_or_node_or_deployment_is_not_found() -> None:
    made = world({"a": role()})
    for name, fqdn, deployment in (("b", N1, None), ("a", "n9.example.com", None), ("a", N1, "nowhere")):
        with pytest.raises(NotFound):
            binding.plan(made, name, fqdn, deployment=deployment, now=1.0)


@examples(70, long=200)
@given(st.integers(2, 12), st.randoms(use_true_random=False))
def test_the_same_graph_comes_of_any_order_in_which_roles_were_imported(size: int, chance: random.Random) -> None:
    roles = {
        f"r{n}": role(
            *(f"r{m}" for m in range(n) if chance.random() < 0.4),
            flags=tuple(flag for flag in ("implicit", "cluster") if chance.random() < 0.3),
            wants_attribs=tuple(f"a{m}" for m in range(n) if chance.random() < 0.2),
            attribs=(Attrib(name=f"a{n}", map=f"x/a{n}"),),
        )
        for n in range(size)
    }
    graphs = []
    for _ in range(3):
        shuffled = list(roles.items())
        chance.shuffle(shuffled)
        made = world(dict(shuffled))
        bind(made, f"r{size - 1}", N1)
        bind(made, f"r{size - 2}", N2)
        graphs.append(edges(made))
    assert graphs[0] == graphs[1] == graphs[2]


def test_unbinding_takes_what_is_below_on_the_node_and_refuses_what_others_need() -> None:
    made = world({"app": role("db"), "db": role()})
    bind(made, "db", N1)
    bind(made, "app", N1)
    db = made.vertex(f"db@{N1}")
    assert db is not None
    assert [v.name for v in binding.removable(db)] == [f"app@{N1}", f"db@{N1}"]
    made.put_noderole(N2, "app", NodeRole(state=State.TODO, since=0.0, parents=(f"db@{N1}",)), 0)
    with pytest.raises(Conflict, match=f"app@{N2} depends on db@{N1}"):
        binding.removable(db)
    made.put_noderole(N2, "app", NodeRole(state=State.PROPOSED, since=0.0, parents=(f"db@{N1}",)), 0)
    assert len(binding.removable(db)) == 3


def test_a_new_node_gets_bootstrap_or_discovery_roles_and_its_name_is_checked() -> None:
    made = world(
        {"admin": role(flags=("bootstrap",)), "managed": role("access", flags=("discovery",)), "access": role()}
    )
    plan = nodes.create(made, "n5.example.com", Node(), admin_domain="example.com", now=1.0)
    assert [name for name, _ in plan.noderoles] == ["access@n5.example.com", "managed@n5.example.com"]
    plan = nodes.create(made, "n6.example.com", Node(admin=True), admin_domain="example.com", now=1.0)
    assert [name for name, _ in plan.noderoles] == ["admin@n6.example.com"]
    with pytest.raises(Conflict, match="exists already"):
        nodes.create(made, N1, Node(), admin_domain=None, now=1.0)
    for bad, domain in (
        ("n1", None),
        ("N1.example.com", None),
        ("n1.example.org", "example.com"),
        ("-a.b", None),
        ("a..b", None),
    ):
        with pytest.raises(Invalid):
            nodes.create(made, bad, Node(), admin_domain=domain, now=1.0)


def test_a_new_node_gets_no_discovery_role_whose_jig_nobody_has() -> None:
    made = world(
        {
            "managed": Role(barclamp="b", jig="script", flags=("discovery",)),
            "exotic": Role(barclamp="b", jig="chef", flags=("discovery",)),
        }
    )
    plan = nodes.create(made, "n5.example.com", Node(), admin_domain=None, now=1.0, jigs={"script", "noop"})
    assert [name for name, _ in plan.noderoles] == ["managed@n5.example.com"]
    plan = nodes.create(made, "n5.example.com", Node(), admin_domain=None, now=1.0)
    assert [name for name, _ in plan.noderoles] == ["exotic@n5.example.com", "managed@n5.example.com"]


def test_a_parent_on_a_node_that_is_being_deleted_is_refused_by_name() -> None:
    made = world({"base": role(), "app": role("base")})
    made.put_node(N2, Node(alive=True, deleting=True), 1)
    made.put_noderole(N2, "base", NodeRole(state=State.ACTIVE, since=0.0), 0)
    with pytest.raises(
        Conflict, match=f"node {N2} is being deleted; wait until it is gone, or give another parent than base@{N2}"
    ):
        bind(made, "app", parents=[f"base@{N2}"])


def test_more_parents_than_a_claim_can_check_are_refused_at_the_bind() -> None:
    made = world({"osd": role("mon"), "mon": role(flags=("cluster",))}, N1)
    for number in range(binding.MOST_PARENTS + 1):
        made.put_node(f"m{number}.example.com", Node(), 0)
        made.put_noderole(f"m{number}.example.com", "mon", NodeRole(state=State.ACTIVE, since=0.0), 0)
    with pytest.raises(Conflict, match=f"{binding.MOST_PARENTS + 1} parents"):
        bind(made, "osd")


def test_nothing_is_bound_to_a_node_that_is_being_deleted() -> None:
    made = world({"base": role()})
    made.put_node(N1, Node(alive=True, deleting=True), 1)
    with pytest.raises(Conflict, match=f"^node {N1} is being deleted; wait until it is gone, or name another node$"):
        bind(made, "base")


def test_the_deletion_of_another_deployment_keeps_nothing_from_being_bound() -> None:
    made = world({"base": role()})
    made.put(Stored(Deployment(deleting=True), 1), "lab")
    assert [name for name, _ in bind(made, "base").noderoles] == [f"base@{N1}"]
    with pytest.raises(Conflict, match="deployment lab is being deleted"):
        bind(made, "base", N2, deployment="lab")


@pytest.mark.parametrize(("node", "alive"), [(Node(), False), (Node(alive=True), True), (Node(virtual=True), True)])
def test_a_new_node_is_alive_if_it_was_said_to_be_or_is_virtual(node: Node, alive: bool) -> None:
    plan = nodes.create(world({}), "n5.example.com", node, admin_domain=None, now=1.0)
    (made,) = (each.data for each in plan.changes if isinstance(each, Create) and isinstance(each.data, Node))
    assert made.alive is alive


def test_a_new_node_gets_no_address_of_another() -> None:
    made = world({})
    made.put_node(N1, Node(addresses=("10.0.0.1",)), 1)
    with pytest.raises(Conflict, match=f"node {N1} is at"):
        nodes.create(made, "n5.example.com", Node(addresses=("10.0.0.1",)), admin_domain=None, now=1.0)


def test_named_parents_that_stand_are_noderoles_that_exist_and_clusters_with_members() -> None:
    made = world({"base": role()})
    made.put_noderole(N1, "base", NodeRole.of(state=State.ACTIVE, since=0.0, serves=("base",)), 0)
    names = [f"base@{N1}", "base@*system"]
    assert standing(made, names) == names
    with pytest.raises(NotFound, match=f"parent app@{N1} does not exist"):
        standing(made, [f"app@{N1}"])
    with pytest.raises(NotFound, match=r"cluster app@\*system has no member"):
        standing(made, ["app@*system"])
