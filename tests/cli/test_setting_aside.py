"""``node hold``, ``deployment pause``, ``pause``, and where people read of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from click.testing import Result

from nodepool_ocb.cli.kit.performing import me
from nodepool_ocb.engine import claim
from nodepool_ocb.errors import Stale
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import State
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.world.load import load_world
from nodepool_ocb.views.tasks.histories import clock
from tests.cli.background_command import Later

N1 = "n1.example.com"
BASE = f"base@{N1}"
Ask = Callable[..., Any]
Ocb = Callable[..., Result]
FOR_LONG = ("--until", "2126-01-31T18:00Z")
SENTENCE = f"by {me()} until 2126-01-31T18:00:00Z: new disk"


@pytest.fixture
def tokyo(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Local time is nine hours ahead of UTC."""
    with monkeypatch.context() as patched:
        patched.setenv("TZ", "JST-9")
        time.tzset()
        yield
    time.tzset()


@pytest.fixture
def committed(world: Session, ask: Ask) -> Session:
    ask("deployment", "commit", "lab")
    return world


@pytest.mark.usefixtures("committed")
def test_every_view_of_a_held_node_shows_author_reason_and_end(ask: Ask, ocb: Ocb) -> None:
    ask("node", "hold", N1, "--reason", "new disk", *FOR_LONG)
    assert ask("node", "list")[0]["held"] == ask("node", "show", N1)["held"] == SENTENCE
    (row,) = ask("status")["aside"]
    assert (row["what"], row["reason"], row["advice"]) == (f"node {N1}", "new disk", f"nodepool-ocb node release {N1}")
    said = ocb("status").stdout
    assert said.index("SET ASIDE") < said.index("NODEROLES"), "it is read first"
    assert ask("noderole", "explain", BASE)["reasons"][0]["code"] == "NODE_HELD"
    ask("node", "release", N1)
    assert ask("node", "list")[0]["held"] is None
    assert ask("status")["aside"] == []
    assert ocb("node", "release", N1).stderr == "nothing to do\n"


@pytest.mark.usefixtures("committed")
def test_a_pause_of_a_deployment_and_of_everything_is_shown_and_ended(ask: Ask, ocb: Ocb) -> None:
    ask("deployment", "pause", "lab", "--reason", "new disk", *FOR_LONG)
    assert [row["paused"] for row in ask("deployment", "list")] == [None, SENTENCE]
    ask("pause", "--reason", "storage")
    assert {row["name"]: row["paused"] for row in ask("deployment", "list")}["lab"] == f"by {me()}: storage"
    assert [row["what"] for row in ask("status")["aside"]] == ["everything", "deployment lab"]
    assert "2126-01-31 18:00:00" in ocb("status").stdout
    reasons = ask("noderole", "explain", BASE)["reasons"]
    assert [reason["advice"] for reason in reasons[:2]] == ["nodepool-ocb resume", "nodepool-ocb deployment resume lab"]
    ask("resume")
    ask("deployment", "resume", "lab")
    assert ask("status")["aside"] == []


@pytest.mark.usefixtures("committed", "tokyo")
@pytest.mark.parametrize(
    ("line", "what", "lift"),
    [
        (f"node hold {N1}", f"node {N1} is held: nothing new begins there", f"node release {N1}"),
        (
            "deployment pause lab",
            "deployment lab is paused: annealers begin nothing new there",
            "deployment resume lab",
        ),
        ("pause", "everything is paused: annealers begin nothing new", "resume"),
        ("daemon pause builder@h", "builders of host h begin nothing new", "daemon resume builder@h"),
        ("image pause jammy", "image jammy is paused: no build of it begins", "image unpause jammy"),
    ],
)
def test_hold_and_pause_report_their_effect_and_their_end(
    ocb: Ocb, world: Session, line: str, what: str, lift: str
) -> None:
    world.ensure(paths.builds("jammy"))
    given = (*line.split(), "--reason", "new disk")
    assert what not in ocb(*given, "--dry-run").stderr
    assert f"{what}, until a command ends it: nodepool-ocb {lift}\n" in ocb(*given).stderr
    said = ocb(*given, *FOR_LONG).stderr
    assert f"{what}, until 2126-02-01 03:00:00; to end it before: nodepool-ocb {lift}\n" in said


@pytest.mark.usefixtures("committed", "tokyo")
def test_tables_have_local_time_and_sentences_that_are_kept_have_utc(ask: Ask, ocb: Ocb) -> None:
    ask("node", "hold", N1, "--reason", "new disk", *FOR_LONG)
    assert "2126-02-01 03:00:00" in ocb("status").stdout
    assert ask("node", "show", N1)["held"] == SENTENCE
    at = ask("history")[-1]["at"]
    local = datetime.fromtimestamp(at, timezone(timedelta(hours=9)))
    assert f"{local:%Y-%m-%d %H:%M:%S}" in ocb("history").stdout.splitlines()[-1]
    assert f"{local:%Y-%m-%d %H:%M:%S}" in ocb("events", "--since", "1h").stdout.splitlines()[-1]
    assert clock(45296.789) == "21:34:56.789"


@pytest.mark.usefixtures("committed")
def test_another_persons_reason_is_a_conflict_and_stays(ask: Ask, ocb: Ocb, monkeypatch: pytest.MonkeyPatch) -> None:
    ask("node", "hold", N1, "--reason", "new disk", *FOR_LONG)
    monkeypatch.setattr("nodepool_ocb.cli.kit.performing.me", lambda: "somebody-else")
    refused = ocb("node", "hold", N1, "--reason", "cables")
    assert (refused.exit_code, SENTENCE in refused.stderr) == (4, True)
    assert ask("node", "show", N1)["hold"]["reason"] == "new disk"


@pytest.mark.usefixtures("committed")
@pytest.mark.parametrize(
    ("line", "exit_code", "said"),
    [
        ("--reason x --for 1h --until 2126-01-31", 2, "contradict"),
        ("--reason x --until 2020-01-31", 1, "give a time in the future"),
        ("", 2, "--reason"),
    ],
)
def test_a_hold_without_a_reason_or_an_end_to_come_is_refused(ocb: Ocb, line: str, exit_code: int, said: str) -> None:
    answer = ocb("node", "hold", N1, *line.split())
    assert (answer.exit_code, said in answer.stderr) == (exit_code, True)


def test_a_wait_for_what_is_held_says_so_and_goes_on(committed: Session, ask: Ask, ocb: Ocb, becomes: Any) -> None:
    ask("node", "hold", N1, "--reason", "new disk", *FOR_LONG)
    waited = Later(lambda: ocb("noderole", "wait", BASE, "--timeout", "20"))
    becomes(BASE, State.ACTIVE)
    assert waited.result().exit_code == 0
    short = ocb("noderole", "wait", f"top@{N1}", "--timeout", "0.2")
    assert (short.exit_code, f"waiting: node {N1} is held {SENTENCE}" in short.stderr) == (5, True), short.stderr
    assert committed.get(paths.node(N1)) is not None


@pytest.mark.usefixtures("committed")
def test_the_daemons_of_a_host_are_paused_and_resumed_by_name_though_none_is_running(ask: Ask, ocb: Ocb) -> None:
    ask("daemon", "pause", "annealer@host1", "builder@host1", "--reason", "new disk", *FOR_LONG)
    rows = ask("status")["aside"]
    assert [row["what"] for row in rows] == ["annealers of host host1", "builders of host host1"]
    assert rows[0]["advice"] == "nodepool-ocb daemon resume annealer@host1"
    assert ask("daemon", "resume", "annealer@host1", "builder@host1")["changes"][0]["name"] == "annealer@host1"
    assert ask("status")["aside"] == []
    for nobody in ("nobody", "annealer@", "annealer@a/b", "clock@host1"):
        assert ocb("daemon", "pause", nobody, "--reason", "x").exit_code == 3


def test_a_pause_of_daemons_is_written_once_and_not_by_a_dry_run(world: Session, ocb: Ocb) -> None:
    pause = ("daemon", "pause", "annealer@host1", "--reason", "new disk", *FOR_LONG)
    assert ocb(*pause, "--dry-run").exit_code == 10
    assert world.get(paths.daemon_pauses("annealer")) is None
    assert ocb(*pause).exit_code == 0
    assert ocb(*pause).stderr.startswith("nothing to do\n")
    znode = world.get(paths.daemon_pause("annealer", "host1"))
    assert znode is not None
    assert znode.version == 0


@pytest.mark.usefixtures("committed")
def test_holding_a_node_reports_its_current_work(ocb: Ocb, becomes: Any) -> None:
    becomes(BASE, State.TRANSITION, run="r1")
    hold = ("node", "hold", N1, "--reason", "new disk")
    said = f"{BASE} goes on to its end; to end it now: nodepool-ocb noderole cancel {BASE}\n"
    assert said in ocb(*hold).stderr
    becomes(BASE, State.TRANSITION, run="r1", cancel_reason="enough")
    assert said not in ocb(*hold).stderr, "it is to end already"


@pytest.mark.parametrize("line", ["deployment pause lab", "pause", f"node hold {N1}"])
def test_a_claim_that_was_decided_before_is_refused_by_zookeeper_afterwards(
    committed: Session, ask: Ask, becomes: Any, line: str
) -> None:
    becomes(BASE, State.TODO)
    seen = load_world(committed)
    vertex = seen.vertex(BASE)
    assert vertex is not None
    changes = claim.claiming(seen, claim.take(seen, vertex, "a", "0000000001", time.time()))
    ask(*line.split(), "--reason", "new disk")
    with pytest.raises(Stale):
        committed.commit(changes)
    assert committed.get(paths.claim(N1)) is None
