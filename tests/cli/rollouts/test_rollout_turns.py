"""Commands that would move by hand what a rollout commits in its turn."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from nodepool_ocb.engine.commands import apply_to
from nodepool_ocb.engine.noderole import Event
from nodepool_ocb.errors import Stale
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Json, Set, State
from nodepool_ocb.operations.commits import reservations
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.world.load import load_world
from tests.cli.rollouts.driving import LAB, Driver
from tests.fixtures.commands import Ocb
from tests.fixtures.deletions import transactions_of

Ask = Callable[..., Json]
FIRST = "lab/0000000000"
OS, WORK = "os@ntp01.example.com", "work@compute21.example.com"


def states(session: Session) -> dict[str, State]:
    return {vertex.name: vertex.record.state for vertex in load_world(session).vertices()}


def broken(session: Session, name: str) -> None:
    vertex = load_world(session).vertex(name)
    assert vertex is not None
    path = paths.noderole(vertex.role, vertex.node.name)
    session.commit([Set(path, replace(vertex.record, state=State.ERROR), vertex.version)])


@pytest.mark.parametrize(
    "line", [f"deployment commit {LAB}", "node commit ntp01.example.com", f"noderole commit {WORK}",
             f"noderole retry {OS}", "noderole retry --failed", f"noderole redeploy {OS} --yes"],
)  # fmt: skip
def test_what_a_rollout_commits_in_its_turn_is_moved_by_hand_only_with_force(
    site: Session, ocb: Ocb, ask: Ask, file: str, line: str
) -> None:
    ask("rollout", "start", file)
    if "retry" in line or "redeploy" in line:
        broken(site, OS)
    before = states(site)
    refused = ocb(*line.split())
    assert (refused.exit_code, f"rollout {FIRST} is under way and sends" in refused.stderr) == (4, True), refused.output
    assert states(site) == before
    assert ocb(*line.split(), "--force").exit_code == 0
    assert states(site) != before


def test_a_site_file_moves_nothing_that_a_rollout_sends_and_is_told_what_it_does_to_it(
    site: Session, ocb: Ocb, ask: Ask, file: str, tmp_path: Path
) -> None:
    ask("rollout", "start", file)
    wanted = tmp_path / "site.yaml"
    wanted.write_text("site: 1\nnodes: {ntp01.example.com: {noderoles: {os: {state: COMMITTED}}}}\n")
    refused = ocb("apply", "-f", str(wanted))
    assert (refused.exit_code, f"rollout {FIRST} is under way and sends {OS}" in refused.stderr) == (4, True)
    assert "--force" not in refused.stderr, "apply has no such option"
    wanted.write_text(f"site: 1\ndeployments: {{{LAB}: {{state: PROPOSED}}}}\n")
    assert (
        f"note: rollout {FIRST} is under way: the noderoles that it has sent wait"
        in ocb("apply", "-f", str(wanted)).stderr
    )
    assert set(states(site).values()) == {State.PROPOSED}


def test_annealers_are_let_in_again_and_the_rest_is_left_to_the_rollout(
    site: Session, ocb: Ocb, ask: Ask, file: str
) -> None:
    ask("rollout", "start", file)
    answer = ocb("deployment", "propose", LAB)
    assert f"note: rollout {FIRST} is under way: the noderoles that it has sent wait" in answer.stderr
    assert f"nodepool-ocb deployment commit {LAB} --no-noderoles" in answer.stderr
    assert ocb("deployment", "set", LAB, "work", "x=1").stderr.count(f"rollout {FIRST} is under way") <= 1
    assert ocb("deployment", "commit", LAB, "--no-noderoles").exit_code == 0
    assert set(states(site).values()) == {State.PROPOSED}


def test_what_a_rollout_is_done_with_is_moved_as_ever(site: Session, ocb: Ocb, ask: Ask, file: str) -> None:
    ask("rollout", "start", file)
    ended = Driver(site).run()
    assert ended.over
    broken(site, OS)
    assert ocb("noderole", "retry", OS).exit_code == 0


def test_no_rollout_begins_between_the_look_and_the_writing(site: Session, ask: Ask, file: str) -> None:
    world = load_world(site)
    vertices = [vertex for vertex in world.vertices() if vertex.record.state is State.PROPOSED]
    changes = apply_to(world, vertices, Event.COMMIT, site.now())
    moved = transactions_of(site, world, reservations.guarded(world, vertices, changes, force=False))
    first = next(iter(moved))
    ask("rollout", "start", file)
    with pytest.raises(Stale):
        site.commit(first)
    assert set(states(site).values()) == {State.PROPOSED}
