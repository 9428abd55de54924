"""Annealers have due documents published, and record the publications that the run gives back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from nodepool_ocb.engine.world import World
from nodepool_ocb.model import paths
from nodepool_ocb.model.boot import Publication, Publisher
from nodepool_ocb.model.networks import Network
from nodepool_ocb.model.records import Create, Delete
from nodepool_ocb.provisioning import boot, publications, publishing
from nodepool_ocb.provisioning.servers import listening
from nodepool_ocb.store.world.load import load_world
from nodepool_ocb.testing.zookeeper.server import Server
from tests.journeys.fleet import Fleet

MAC = "52:54:00:00:00:01"

#: As the shipped script, without a server: it keeps the documents, and gives back their digests.
SCRIPT = """\
read_attribute provisioner/documents "" >"$HOME/documents"
published=$(awk '/^N / { printf "%s\\"%s\\": \\"%s\\"", comma, $2, $3; comma = ", " }' "$HOME/documents")
write_attribute --json provisioner/published "{$published}"
write_attribute provisioner/directory d1
if ! grep -q . "$HOME/documents"; then
  write_attribute --json provisioner/addresses '["10.1.0.2"]'
  heard='{"interface": "eth0", "own": "10.1.0.2/24", "server": "10.1.0.66", "offered": "10.1.0.99"}'
  write_attribute --json provisioner/heard "[$heard]"
fi
"""


@pytest.fixture
def two(zookeeper: Server, chroot: str, tmp_path: Path) -> Iterator[Fleet]:
    """The first machine has the database of the other."""
    with Fleet(zookeeper, chroot, tmp_path, machines=2) as fleet:
        yield fleet


def test_a_changed_node_is_published_and_a_strange_server_is_counted_without_a_word_from_anyone(two: Fleet) -> None:
    server, machine = two.nodes
    two.session.ensure(paths.PUBLICATIONS, paths.NETWORKS)
    two.session.commit([Create(paths.network("admin"), Network(subnet="10.1.0.0/24"))])
    two.add_role(boot.DHCP, two.work(0.0, SCRIPT))
    name = two.bind(boot.DHCP, server)
    two.set_node(machine, macs=(MAC,), bootenv="rescue")

    def world() -> World:
        return load_world(two.session)

    def published() -> bool:
        now = world()
        return name in now.of(publications.Publisher) and not list(publications.due(now, name))

    with two.annealer(sweep_seconds=1.0, probe_seconds=1.0, dhcp_listen_seconds=2.0) as annealer:
        two.until(published, "the first documents are published")
        first = world().of(Publication)[name, machine].record
        assert (first.bootenv, first.directory) == ("rescue", "d1")
        assert first.digest == boot.wanted(world(), machine).digest
        two.set_node(machine, bootenv="local")
        two.until(published, "the change is published")
        now = world()
        assert publications.unpublished(now, machine) == ()
        assert now.of(Publication)[name, machine].record.bootenv == "local"
        assert now.of(Publication)[name, machine].record.digest != first.digest
        given = two.session.get(paths.given(boot.DHCP, server))
        assert given is None or b"documents" not in given.data, "the documents are no input that is recorded"
        two.until(lambda: listening.strangers(world()), "it looks for servers of DHCP that are not ours")
        assert [each.server for each in listening.strangers(world())] == ["10.1.0.66"]
        two.until(lambda: annealer.metric("nodepool_ocb_strange_dhcp_servers") == 1, "the metric counts it")


def test_a_run_gives_back_no_more_than_publications() -> None:
    world, name = World(), f"{boot.DHCP}@a1.example.com"
    odd = {"published": {"../x": "1", "n1.example.com": 7, "n2.example.com": "x" * 65}, "directory": "d1"}
    (publisher,) = publishing.records(world, name, {"provisioner": odd}, 1.0)
    assert isinstance(publisher, Create)
    assert publisher.path == paths.publisher(name)
    listed = {"provisioner": {"published": ["n1.example.com"], "directory": "d1"}}
    for wrong in ({}, {"provisioner": 1}, listed, {"provisioner": {"published": {}, "directory": "d" * 65}}):
        assert publishing.records(world, name, wrong, 1.0) == []
    many = {"published": {f"n{n}.example.com": "1" for n in range(1000)}, "directory": "d1"}
    assert len(publishing.records(world, name, {"provisioner": many}, 1.0)) == publishing.BATCH + 1
    gone = {"published": {"n1.example.com": "-"}, "directory": "d1"}
    assert not [
        each for each in publishing.records(world, name, {"provisioner": gone}, 1.0) if isinstance(each, Delete)
    ]


def test_the_address_of_a_server_is_recorded_if_it_is_one() -> None:
    name = f"{boot.DHCP}@a1.example.com"

    def recorded(http: object) -> str:
        given = {"published": {}, "directory": "d1", "http": http}
        (made,) = publishing.records(World(), name, {"provisioner": given}, 1.0)
        assert isinstance(made, Create)
        assert isinstance(made.data, Publisher)
        return made.data.address

    assert recorded("http://10.1.0.2:8480") == "http://10.1.0.2:8480"
    assert [recorded(odd) for odd in ("file:///etc/shadow", "http://a/b c", "http://" + "a" * 101, 7, None)] == [""] * 5


def test_the_path_of_a_log_is_kept_and_other_values_are_not() -> None:
    for path, kept in (
        ("/var/lib/log/access.log", True),
        ("relative", False),
        ("/a b", False),
        ("/x" * 200, False),
        (7, False),
    ):
        given = {"published": {}, "directory": "d1", "log": path}
        (made,) = publishing.records(World(), f"{boot.DHCP}@a1.example.com", {"provisioner": given}, 1.0)
        assert isinstance(made, Create)
        assert isinstance(made.data, Publisher)
        assert made.data.log == (path if kept else "")
