"""Who waits is told how far it is: in lines that stay few, with a summary at the end, and when somebody interrupts it."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from nodepool_ocb.cli.pictures.waits import LiveProgress
from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.model.records import Json, State
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.views.pictures.tally import Tally
from tests.cli.background_command import begun
from tests.fixtures.commands import Ocb

N1 = "n1.example.com"


def test_in_a_pipe_many_changes_make_few_lines_and_a_note_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    with LiveProgress() as progress:
        for number in range(1000):
            progress.tell(Tally("ACTIVE", {"ACTIVE": number, "running": 1000 - number}))
            progress.note(["base@n1 is in ERROR"])
    assert capsys.readouterr().err.splitlines() == ["0 of 1,000 ACTIVE, 1,000 running; 0:00", "base@n1 is in ERROR"]


def test_in_a_pipe_nothing_is_said_twice_and_the_longer_it_lasts_the_rarer(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [1000.0]
    monkeypatch.setattr("nodepool_ocb.cli.pictures.waits.time", SimpleNamespace(monotonic=lambda: clock[0]))
    with LiveProgress() as progress:
        for number in (0, 0, 0, 1):
            progress.tell(Tally("ACTIVE", {"ACTIVE": number, "TODO": 9 - number}))
            clock[0] += 10.0
        clock[0] += 600.0
        for number in range(2, 9):
            progress.tell(Tally("ACTIVE", {"ACTIVE": number, "TODO": 9 - number}))
            clock[0] += 10.0
    said = [line.partition(" of ")[0] for line in capsys.readouterr().err.splitlines()]
    assert said == ["0", "1", "2", "6"], "ten minutes on, one in half a minute"


def test_an_interrupted_wait_says_that_the_work_goes_on_and_how_to_look_again(
    world: Session, ask: Callable[..., Json], zk_settings: ZooKeeperSettings
) -> None:
    assert world.connected
    ask("deployment", "commit", "lab")
    with begun(zk_settings.hosts, "deployment", "wait", "lab") as (process, _, said):
        while not re.fullmatch(r"0 of 3 ACTIVE, 1 TODO, 2 BLOCKED; 0:\d\d\n", line := said.readline()):
            assert line, "it says how far it is"
        process.send_signal(signal.SIGINT)
        rest = said.read()
    assert "the commit goes on; to look again: nodepool-ocb deployment wait lab" in rest
    assert "Traceback" not in rest
    assert process.returncode == 130


@pytest.mark.usefixtures("world")
def test_at_the_end_what_failed_is_a_table_and_the_rest_is_counted(ocb: Ocb, becomes: Callable[..., None]) -> None:
    assert ocb("deployment", "commit", "lab").exit_code == 0
    becomes(f"base@{N1}", State.ACTIVE)
    becomes(f"middle@{N1}", State.ERROR, reason="disk full")
    answer = ocb("noderole", "wait", f"base@{N1}", f"middle@{N1}")
    lines = answer.stdout.splitlines()
    assert answer.exit_code == 6
    assert lines[1].split()[:2] == [f"middle@{N1}", "ERROR"]
    assert lines[-1].startswith("1 of 2 ACTIVE, 1 ERROR; ")
    assert f"base@{N1}" not in answer.stdout
