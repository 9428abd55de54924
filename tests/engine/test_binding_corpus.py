"""Binding real barclamps: no circle, and one graph whichever order the roles came in."""

from __future__ import annotations

import random

import networkx
import pytest

from nodepool_ocb.catalogue import barclamp
from nodepool_ocb.engine import binding
from nodepool_ocb.engine.world import Stored, World
from nodepool_ocb.errors import Conflict
from nodepool_ocb.model.records import Create, Deployment, DeploymentState, Node, NodeRole, Role
from tests.fixtures.corpora import CORPORA, needs

CORPUS = CORPORA / "opencrowbar" / "barclamps"
FQDN = "n1.example.com"

pytestmark = needs("opencrowbar/barclamps")


@pytest.fixture(scope="module")
def roles() -> dict[str, Role]:
    return dict(barclamp.load([CORPUS]).roles)


def bound(roles: dict[str, Role], order: list[str], name: str) -> set[tuple[str, str]]:
    world = World()
    world.put(Stored(Deployment(parent=None, state=DeploymentState.COMMITTED), 0), "system")
    for role in order:
        world.put(Stored(roles[role], 0), role)
    world.put_node(FQDN, Node(), 0)
    for change in binding.plan(world, name, FQDN, now=1.0).changes:
        if isinstance(change, Create) and isinstance(change.data, NodeRole):
            world.put_noderole(FQDN, change.path.rsplit("/", 1)[1], change.data, 0)
    return {(parent, vertex.name) for vertex in world.vertices() for parent in vertex.record.parents}


def test_the_graph_of_the_roles_has_no_circle(roles: dict[str, Role]) -> None:
    graph = networkx.DiGraph((need, name) for name, role in roles.items() for need in role.requires)
    assert networkx.is_directed_acyclic_graph(graph)
    assert sum(not name.startswith("barclamp-") for name in roles) == 64


def test_every_role_binds_to_the_same_graph_whichever_order_roles_came_in_or_is_refused_in_words(
    roles: dict[str, Role],
) -> None:
    chance = random.Random(4)
    refused = []
    for name in sorted(roles):
        graphs = []
        for _ in range(3):
            order = list(roles)
            chance.shuffle(order)
            try:
                graphs.append(bound(roles, order, name))
            except Conflict as conflict:
                graphs.append({("refused", str(conflict))})
        assert graphs[0] == graphs[1] == graphs[2], name
        if any(parent == "refused" for parent, _ in graphs[0]):
            refused.append(name)
        else:
            assert networkx.is_directed_acyclic_graph(networkx.DiGraph(graphs[0])), name
    assert "crowbar-managed-node" not in refused
    assert "crowbar-installed-node" not in refused
