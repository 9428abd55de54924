"""References that no annealer can resolve: they harm the noderoles that use them, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Create, Json, Set, State
from nodepool_ocb.store.world.load import load_world
from nodepool_ocb.testing.zookeeper.server import Server
from nodepool_ocb.views.explanation import holding
from tests.journeys.fleet import Fleet, vertex_of

#: A reference as it stands in ZooKeeper → what the reason names.
BAD: Final = {"file:/x\0": "file:/x", "vault:a/b#c": "secrets.vault is not set", "env:OTHER": "env:OTHER"}


@pytest.fixture
def two(zookeeper: Server, chroot: str, tmp_path: Path) -> Iterator[Fleet]:
    with Fleet(zookeeper, chroot, tmp_path, machines=2) as fleet:
        yield fleet


def reasons(fleet: Fleet, noderole: str) -> str:
    """Why it does not run, as `explain` has it."""
    world = load_world(fleet.session)
    return " ".join(each.text for each in holding(world, vertex_of(world, noderole), fleet.session.now()))


def test_a_bad_reference_holds_its_noderole_and_nothing_else_until_it_is_mended(two: Fleet) -> None:
    fleet = two
    places = {}
    for number, (reference, named) in enumerate(BAD.items()):
        fleet.add_role(f"bad{number}", fleet.work(0.0))
        for fqdn in fleet.nodes:
            value: Json = {"db": {"password": {"$secret": reference}}}
            place = paths.user(f"bad{number}", fqdn)
            places[fleet.bind(f"bad{number}", fqdn)] = place, named
            fleet.session.commit([Create(place, value)])
    annealer = fleet.annealer().begin()
    fleet.add_role("plain", fleet.work(0.0))
    plain = [fleet.bind("plain", fqdn) for fqdn in fleet.nodes]
    for noderole in plain:
        fleet.until_state(noderole, State.ACTIVE)
    for noderole, (_, named) in places.items():
        fleet.until(lambda noderole=noderole, named=named: named in reasons(fleet, noderole), f"{noderole}: {named}")
    assert annealer.ready()
    assert {daemon.trouble for daemon in load_world(fleet.session).annealers.values()} == {None}
    assert annealer.metric("nodepool_ocb_host_faults_total") == 0
    assert "Traceback" not in annealer.said
    assert not fleet.starts().keys() & places.keys()
    for place, _ in places.values():
        fleet.session.commit([Set(place, {}, 0)])
    fleet.until_all_active()
