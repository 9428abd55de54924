"""OpenCrowbar's own barclamps: every one is imported, its slips are named, and its graph is the same in any order."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from nodepool_ocb.catalogue import barclamp, rules
from nodepool_ocb.catalogue.barclamp import Imported
from nodepool_ocb.engine import binding
from nodepool_ocb.engine.world import Stored, World
from nodepool_ocb.model.records import Create, Deployment, DeploymentState, Node, NodeRole
from tests.fixtures.corpora import CORPORA, needs

CORPUS = CORPORA / "opencrowbar" / "barclamps"
pytestmark = needs("opencrowbar/barclamps")

N1 = "n1.example.com"


@pytest.fixture(scope="module")
def imported() -> Imported:
    return barclamp.load([CORPUS])


def test_every_document_is_imported_and_none_of_its_roles_is_refused(imported: Imported) -> None:
    assert imported.problems == ()
    own = [name for name, role in imported.roles.items() if name != f"barclamp-{role.barclamp}"]
    assert len(own) == 64
    assert rules.check(imported.roles) == []


@pytest.mark.parametrize(
    "slip",
    [
        "requires[0]: `milestone` is a flag, not a role",
        "attribute test-discovery-delay is declared twice",
        "the default does not fit its own schema: fuel-6.0/example_holder: unknown key `example_holder`",
        "depends on provisioner-docker-setup and conflicts with it",
    ],
)
def test_the_known_slips_are_named_with_file_and_line(imported: Imported, slip: str) -> None:
    (warning,) = [sentence for sentence in imported.warnings if slip in sentence]
    file, line, _ = warning.split(":", 2)
    assert Path(file).parent == CORPUS
    assert int(line) > 1


def test_what_it_says_is_there(imported: Imported) -> None:
    servers = rules.attribute(imported.roles, "ntp-server", "ntp_servers_external")
    assert (servers.map, servers.default) == ("crowbar/ntp/external_servers", [])
    assert servers.schema["items"]["pattern"] == "[0-9a-f:.]*"
    keys = rules.attribute(imported.roles, "crowbar-access", "crowbar-access_keys").schema
    assert keys["additionalProperties"] == {"type": ["string", "null"]}
    assert rules.template(imported.roles, "consul")["consul"]["bootstrap_expect"] == 1
    assert "destructive" in imported.roles["provisioner-os-install"].flags


def test_each_document_alone_is_imported_too() -> None:
    for path in sorted(CORPUS.iterdir()):
        alone = barclamp.load([path])
        assert alone.problems == (), path.name
        assert alone.roles, path.name


def graph(imported: Imported, order: list[str], *bound: str) -> dict[str, NodeRole]:
    """The noderoles that come of binding these roles, when the catalogue came in this order."""
    world = World()
    world.put(Stored(Deployment(parent=None, state=DeploymentState.COMMITTED), 0), "system")
    for name in order:
        world.put(Stored(imported.roles[name], 0), name)
    world.put_node(N1, Node(alive=True), 0)
    for name in bound:
        for change in binding.plan(world, name, N1, now=1.0).changes:
            if isinstance(change, Create) and isinstance(change.data, NodeRole):
                world.put_noderole(N1, change.path.rpartition("/")[2], change.data, 0)
    return {vertex.name: vertex.record for vertex in world.vertices()}


@pytest.mark.parametrize(
    "bound",
    [
        ("crowbar-managed-node",),
        ("crowbar-installed-node",),
        ("saltstack", "sysdig"),
        ("rabbitmq-server", "docker-ready"),
    ],
)
def test_the_graph_is_the_same_whichever_order_roles_came_in(imported: Imported, bound: tuple[str, ...]) -> None:
    names = sorted(imported.roles)
    wanted = graph(imported, names, *bound)
    assert set(bound) <= {name.partition("@")[0] for name in wanted}
    for seed in range(20):
        random.Random(seed).shuffle(names)
        assert graph(imported, names, *bound) == wanted
