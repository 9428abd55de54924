"""``node dead`` and ``node alive``: who may say so, and where people read it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from click.testing import Result

from nodepool_ocb.cli.kit.performing import me
from nodepool_ocb.engine.noderole import State
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Run
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.client.session import Session

N1 = "n1.example.com"
Ask = Callable[..., Any]
Ocb = Callable[..., Result]


@pytest.mark.usefixtures("world")
def test_every_view_of_a_marked_node_shows_author_reason_and_end(ask: Ask, ocb: Ocb) -> None:
    ask("deployment", "commit", "lab")
    ask("node", "dead", N1, "--reason", "new disk", "--until", "2126-01-31T18:00Z")
    sentence = f"marked by {me()} until 2126-01-31T18:00:00Z: new disk"
    assert ask("node", "list")[0]["reason"] == sentence
    assert ask("status")["nodes"]["not_alive"][0]["reason"] == sentence
    mark = ask("node", "show", N1)["mark"]
    assert (mark["kind"], mark["by"], mark["reason"]) == ("person", me(), "new disk")
    shown = ocb("node", "show", N1).stdout
    assert "new disk" in shown
    assert '"kind"' not in shown, "a mark is a sentence, and no record"
    assert sentence in ocb("noderole", "explain", f"base@{N1}").stdout


@pytest.mark.usefixtures("world")
def test_the_machine_does_not_lift_a_persons_mark_and_the_person_does(ask: Ask, ocb: Ocb) -> None:
    ask("node", "dead", N1, "--as-machine", "--reason", "shuts down")
    assert ask("node", "show", N1)["mark"]["until"]
    ask("node", "alive", N1, "--as-machine")
    ask("node", "set", N1, "alive=false")
    refused = ocb("node", "alive", N1, "--as-machine")
    assert (refused.exit_code, "only a person lifts that" in refused.stderr) == (4, True)
    ask("node", "alive", N1)
    shown = ask("node", "show", N1)
    assert (shown["alive"], shown["mark"]) == (True, None)


@pytest.mark.parametrize("line", [f"node dead {N1}", f"node set {N1} alive=false"])
def test_a_mark_ends_the_run_that_is_under_way_and_records_it(
    world: Session, becomes: Callable[..., None], ocb: Ocb, line: str
) -> None:
    assert ocb("node", "alive", N1).exit_code == 0
    becomes(f"base@{N1}", State.TRANSITION, run="0000000001-a", epoch=1, generation=1)
    answer = ocb(*line.split())
    assert answer.exit_code == 0, answer.output
    znode = world.get(paths.run("base", N1, "0000000001-a"))
    assert znode is not None
    assert codec.decode(Run, znode).outcome == "died"
    assert ocb("history", N1, "--limit", "1").exit_code == 0


@pytest.mark.usefixtures("world")
@pytest.mark.parametrize(
    ("line", "exit_code", "said"),
    [
        ("--for 1h --until 2126-01-31", 2, "contradict"),
        ("--for soon", 2, "90m"),
        ("--until 2020-01-31", 1, "give a time in the future"),
    ],
)
def test_a_time_that_is_none_is_refused(ocb: Ocb, line: str, exit_code: int, said: str) -> None:
    answer = ocb("node", "dead", N1, *line.split())
    assert (answer.exit_code, said in answer.stderr) == (exit_code, True)
