"""``noderole check --wait``: what it tells, however soon what drifted runs again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from nodepool_ocb.model import paths
from nodepool_ocb.model.drift import PendingCheck
from nodepool_ocb.model.records import Create, NodeRole, Run, Set, State
from nodepool_ocb.operations import following
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.world.load import load_world
from tests.fixtures.commands import Ocb

NAME = "looked@n1.example.com"
BARCLAMP = """
barclamp: {name: looking}
roles: [{name: looked, jig: script, script: "true", check: "exit 2"}]
"""


@pytest.fixture
def becomes(ocb: Ocb, zk_session: Session, tmp_path: Path) -> Callable[..., None]:
    """Have an annealer write a noderole that can be checked; ``runs``: by name, the outcome and the epoch."""
    (tmp_path / "looking.yml").write_text(BARCLAMP)
    for line in (
        f"barclamp import {tmp_path / 'looking.yml'}",
        "deployment create lab",
        "node create n1.example.com --deployment lab",
        "node bind n1.example.com looked",
        "deployment commit lab",
    ):
        assert ocb(*line.split()).exit_code == 0

    def put(state: State = State.ACTIVE, runs: tuple[tuple[str, str, int], ...] = (), **fields: object) -> None:
        vertex = load_world(zk_session).vertex(NAME)
        assert vertex is not None
        record = NodeRole.of(state=state, since=1.0, deployment="lab", **fields)  # type: ignore[arg-type]
        changes = [Set(paths.noderole(*paths.split_noderole(NAME)), record, vertex.version)]
        kept = [
            Create(
                paths.run(*paths.split_noderole(NAME), name),
                Run(
                    annealer="a",
                    started=1.0,
                    ended=float(epoch),
                    outcome=outcome,
                    generation=1,
                    epoch=epoch,
                    tail=outcome,
                ),
            )
            for name, outcome, epoch in runs
        ]
        zk_session.commit([*changes, *kept])

    return put


@pytest.fixture
def check(ocb: Ocb, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Ask for a check and wait for it; something happens between the two."""

    def run(meanwhile: Callable[[], None]) -> Result:
        worlds = following.worlds
        monkeypatch.setattr(following, "worlds", lambda *given: (meanwhile(), worlds(*given))[1])
        return ocb("noderole", "check", NAME, "--wait", "--timeout", "20")

    return run


@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize(
    ("outcome", "exit_code", "said"),
    [
        ("drifted", 10, "0 in sync, 1 drifted, 0 unknown"),
        ("in-sync", 0, "1 in sync, 0 drifted, 0 unknown"),
        ("abandoned", 1, "0 in sync, 0 drifted, 1 unknown"),
    ],
)
def test_what_was_found_is_told_though_it_ran_again_before_anybody_looked(
    becomes: Callable[..., None], check: Callable[..., Result], begun: bool, outcome: str, exit_code: int, said: str
) -> None:
    runs = (("4-check", "drifted" if outcome == "in-sync" else "in-sync", 4),)
    if begun:
        becomes(State.TRANSITION, runs, refresh=True, run="6-check", epoch=6, check=PendingCheck(run="5", epoch=5))
    else:
        becomes(runs=runs, run="5", epoch=5)
    answer = check(lambda: becomes(runs=(("6-check", outcome, 6), ("7", "succeeded", 7)), run="7", epoch=7))
    assert (answer.exit_code, said in answer.stderr) == (exit_code, True), answer.output


def test_where_no_check_ran_the_one_before_it_does_not_count(
    becomes: Callable[..., None], check: Callable[..., Result]
) -> None:
    becomes(runs=(("4-check", "drifted", 4),), run="5", epoch=5)
    answer = check(lambda: becomes(runs=(("6", "succeeded", 6),), run="6", epoch=6))
    assert (answer.exit_code, "1 unknown" in answer.stderr) == (1, True), answer.output


def test_a_wait_for_a_check_reports_progress_and_repeats_its_reason_at_the_time_out(
    becomes: Callable[..., None], ocb: Ocb
) -> None:
    becomes(runs=(("5", "succeeded", 5),), run="5", epoch=5)
    assert ocb("node", "hold", "n1.example.com", "--reason", "new disk").exit_code == 0
    answer = ocb("noderole", "check", NAME, "--wait", "--timeout", "0.1")
    assert answer.exit_code == 5
    assert "0 of 1 checked, 1 waiting; 0:00" in answer.stderr
    lines = [line for line in answer.stderr.splitlines() if line.startswith("waiting: node n1.example.com is held by")]
    assert len(lines) == 2, "when it begins to wait, and at its end"


def test_a_wait_for_a_held_node_repeats_its_reason_at_the_time_out(becomes: Callable[..., None], ocb: Ocb) -> None:
    becomes(runs=(("5", "succeeded", 5),), run="5", epoch=5)
    assert ocb("node", "hold", "n1.example.com", "--reason", "new disk").exit_code == 0
    answer = ocb("noderole", "refresh", NAME, "--wait", "--timeout", "0.1")
    assert answer.exit_code == 5
    *lines, error = answer.stderr.splitlines()
    assert len([line for line in lines if line.startswith("waiting: node n1.example.com is held by")]) == 2
    assert error.startswith("error: ")


def test_a_check_by_a_selector_gives_the_reason_for_the_noderoles_that_it_leaves_out(
    becomes: Callable[..., None], ocb: Ocb
) -> None:
    becomes(runs=(("5", "succeeded", 5),), run="5", epoch=5)
    for node in ("n2.example.com", "n3.example.com"):
        assert ocb("node", "create", node, "--address", f"{node}:22", "--deployment", "lab").exit_code == 0
        assert ocb("node", "bind", node, "looked").exit_code == 0
    answer = ocb("noderole", "check", "-l", "role:looked")
    assert answer.exit_code == 0, answer.output
    assert "2 noderoles cannot be checked now: looked@n2.example.com is PROPOSED, and only ACTIVE" in answer.stderr
    assert answer.stderr.rstrip().endswith("; and 1 other reason")
