"""Of two annealers one lacks the key file: who has it does what needs it, and its noderole says why the other left it alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Create, State
from nodepool_ocb.secrecy import keyring
from nodepool_ocb.store.world.load import load_world
from nodepool_ocb.views.explanation import holding
from tests.journeys.fleet import Fleet, vertex_of

LACKS = "secrets.key_file is not set"


@pytest.mark.long
def test_a_run_with_a_secret_ends_on_who_has_the_key_also_after_its_death(fleet: Fleet, tmp_path: Path) -> None:
    node, go_on = fleet.nodes[0], tmp_path / "go-on"
    keyring.generate(tmp_path / "key")
    sealed = keyring.load(str(tmp_path / "key")).encrypt("db/password", "hunter22")
    fleet.add_role("db", fleet.work(0.0, f'while [ ! -e "{go_on}" ]; do sleep 0.05; done'))
    fleet.add_role("plain", fleet.work(0.0))
    noderole = fleet.bind("db", node)
    fleet.session.commit([Create(paths.user("db", node), {"db": {"password": sealed}})])
    without = fleet.annealer().begin()
    fleet.until(lambda: LACKS in reasons(fleet, noderole), "explain says what it lacks")
    assert without.ready(), "one secret does not make it unfit"
    assert {daemon.trouble for daemon in load_world(fleet.session).annealers.values()} == {None}
    assert fleet.state(noderole) is State.TODO
    plain = fleet.bind("plain", node)
    fleet.until_state(plain, State.ACTIVE)

    having = fleet.annealer()
    having.configure(secrets={"key_file": str(tmp_path / "key")})
    having.begin()
    fleet.until_started(noderole)
    assert fleet.held_by() is having
    having.kill()
    fleet.until(lambda: LACKS in str(fleet.record(noderole).reason), "who cannot take it over says why")
    assert fleet.state(noderole) is State.TRANSITION, "it goes on there"
    epoch = fleet.record(noderole).epoch
    assert LACKS in reasons(fleet, noderole)
    having.begin()
    fleet.until(lambda: fleet.held_by() is having, "it has its run again", seconds=60.0)
    go_on.touch()
    fleet.until_state(noderole, State.ACTIVE)
    assert fleet.starts()[noderole] == 1, "nobody began it anew"
    assert fleet.record(noderole).epoch - epoch < 8, "tried later and later, not in a loop"
    assert without.running()
    assert fleet.faults() == []


def reasons(fleet: Fleet, noderole: str) -> str:
    """Why it does not run, as `explain` has it."""
    world = load_world(fleet.session)
    return " ".join(each.text for each in holding(world, vertex_of(world, noderole), fleet.session.now()))
