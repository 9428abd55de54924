"""The log of a run on the command line: where it comes from, what is said of it, and what it never does."""

from __future__ import annotations

import pty
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.http.certificates import OwnCertificate
from nodepool_ocb.http.logs import LogPage
from nodepool_ocb.http.page import PrivatePages
from nodepool_ocb.http.server import Pages
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Claim, Create, Daemon, Delete, Json, NodeRole, Run, State
from nodepool_ocb.operations.runlogs import RunSeen, succeeding
from nodepool_ocb.store import logkeys
from nodepool_ocb.store.client.session import Session
from tests.cli.background_command import COMMAND, begun
from tests.fixtures.commands import Ocb

N1 = "n1.example.com"
BASE = f"base@{N1}"
RUN = Run(annealer="far-1-2", started=1.0, ended=2.0, outcome="succeeded", generation=1, epoch=1, exit_code=0)
Becomes = Callable[..., None]
Ask = Callable[..., Json]


class Annealer:
    """On the host ``far``, with pages that other hosts reach; it plays the run r1 of base."""

    def __init__(self, session: Session, folder: Path) -> None:
        self.session, self.folder, self.idle, self.gone = session, folder, False, False
        self.file = folder / N1 / "base-r1.log"
        self.file.parent.mkdir(parents=True)
        self.certificate = OwnCertificate()
        page = LogPage(lambda: folder, lambda _: self.idle)
        self._pages = Pages(
            "0x7f000001:0", {}, PrivatePages({"logs": page}, self.certificate, logkeys.Readers(session))
        )
        self.pages = self._pages.address
        session.ensure(paths.daemons("annealer"))

    def registers(self, pages: str | None) -> None:
        record = Daemon(
            host="far",
            pid=1,
            version="1",
            started=1.0,
            pages=pages,
            log_dir=str(self.folder),
            certificate=self.certificate.digest,
        )
        self.session.commit([Create(paths.daemon("annealer", "far-1-2"), record)])

    def leaves(self) -> None:
        self.session.commit([Delete(paths.daemon("annealer", "far-1-2"), 0)])

    def claims(self) -> None:
        claim = Claim(annealer="far-1-2", noderole=BASE, run="r1", epoch=1, since=1.0)
        self.session.commit([Create(paths.claim(N1), claim, ephemeral=True)])

    def ends(self, **fields: object) -> None:
        self.idle = not self.gone  # who is gone says no more
        self.session.commit([Create(paths.run("base", N1, "r1"), replace(RUN, **fields))])

    def close(self) -> None:
        self.gone = True
        self._pages.close()


@pytest.fixture
def annealer(world: Session, tmp_path: Path) -> Iterator[Annealer]:
    made = Annealer(world, tmp_path / "runs")
    yield made
    made.close()


def test_the_output_of_a_run_comes_from_the_pages_of_its_annealer_with_the_path_there(
    annealer: Annealer, ocb: Ocb, ask: Ask
) -> None:
    annealer.registers(annealer.pages)
    annealer.file.write_bytes(b"the whole \xff\x1b[2J\n")
    annealer.ends(tail="the end")
    answer = ocb("noderole", "log", BASE)
    assert answer.stdout == "the whole \\xff\\x1b[2J\n", "shown, not sent"
    assert f"succeeded, exit code 0; from https://{annealer.pages}" in answer.stderr
    assert f"whole output in far:{annealer.file}" in answer.stderr
    assert ocb("noderole", "log", BASE, "r1", "--raw").stdout_bytes == b"the whole \xff\x1b[2J\n"
    assert ocb("noderole", "log", BASE, "--path").stdout == f"far:{annealer.file}\n"
    document = ask("noderole", "log", BASE)
    assert (document["whole"], document["log"]) == (True, f"far:{annealer.file}")
    assert document["output"] == "the whole \ufffd\x1b[2J\n"


def test_pages_on_a_loopback_address_of_another_host_are_not_asked_and_the_recorded_end_is_shown(
    annealer: Annealer, ocb: Ocb, tmp_path: Path
) -> None:
    annealer.registers("127.0.0.1:1")
    file = tmp_path / "run.log"
    file.write_text("of this host, and of something else\n")
    annealer.ends(tail="the end\n", log=f"far:{file}")
    answer = ocb("noderole", "log", BASE)
    assert answer.stdout == "the end\n"
    assert "serves its pages to that host alone, on 127.0.0.1:1: set http.listen to an address of it" in answer.stderr
    assert f"the end, as recorded; whole output in far:{file}" in answer.stderr
    answer = ocb("noderole", "log", BASE, "--path")
    assert (answer.exit_code, answer.stdout) == (0, f"far:{file}\n")
    assert "warning: no annealer could be asked" in answer.stderr


def test_an_annealer_that_is_gone_leaves_the_end_of_what_was_given_already(
    annealer: Annealer, becomes: Becomes, zk_settings: ZooKeeperSettings
) -> None:
    annealer.registers(annealer.pages)
    annealer.claims()
    becomes(BASE, State.TRANSITION, run="r1")
    lines = [f"line {number}\n" for number in range(200)]
    annealer.file.write_text("".join(lines[:100]))
    with begun(zk_settings.hosts, "noderole", "log", BASE, "-f") as (_, printed, said):
        got = [printed.readline() for _ in range(100)]
        annealer.close()
        annealer.leaves()
        annealer.ends(tail="".join(lines[50:]))
        becomes(BASE, State.ACTIVE, run="r1")
        got += printed.readlines()
        assert got == lines, "nothing twice, and no gap"
        assert "no annealer runs on far now that could be asked; the rest, as recorded" in said.read()


@pytest.mark.parametrize(("state", "refresh"), [(State.TODO, False), (State.ACTIVE, True)])
def test_log_of_a_noderole_that_waits_says_so_and_begins_with_its_run(
    annealer: Annealer, becomes: Becomes, zk_settings: ZooKeeperSettings, state: State, refresh: bool
) -> None:
    annealer.registers(annealer.pages)
    becomes(BASE, state, refresh=refresh)
    with begun(zk_settings.hosts, "noderole", "log", BASE, "-f") as (following, printed, said):
        assert said.readline() == f"{BASE} waits ({state}): its output comes when it runs\n"
        assert "explain" in said.readline()
        annealer.claims()
        becomes(BASE, State.TRANSITION, run="r1")
        annealer.file.write_text("begun\n")
        assert printed.readline() == "begun\n"
        annealer.ends(outcome="failed", exit_code=3)
        becomes(BASE, State.ERROR, run="r1")
        assert printed.read() == ""
        assert "failed, exit code 3; from https://" in said.readlines()[-1]
    assert following.returncode == 0


def test_a_run_that_printed_nothing_has_no_log_and_that_is_said(annealer: Annealer, ocb: Ocb, ask: Ask) -> None:
    annealer.registers(annealer.pages)
    annealer.ends()
    answer = ocb("noderole", "log", BASE)
    assert (answer.exit_code, answer.stdout) == (0, "")
    assert "succeeded, exit code 0; this run has no log, since jig noop wrote no output" in answer.stderr
    document = ask("noderole", "log", BASE)
    assert (document["whole"], document["log"], document["output"]) == (True, None, "")
    place = ocb("noderole", "log", BASE, "--path")
    assert (place.exit_code, place.stdout) == (3, "")
    assert f"run r1 of {BASE} has no log, since jig noop wrote no output" in place.stderr


@pytest.mark.parametrize("outcome", ["lost", "fenced", "abandoned"])
def test_of_a_run_without_a_result_nothing_is_said_about_its_output(annealer: Annealer, ocb: Ocb, outcome: str) -> None:
    annealer.registers(annealer.pages)
    annealer.ends(outcome=outcome, exit_code=None)
    said = ocb("noderole", "log", BASE).stderr
    assert "wrote no output" not in said
    assert "base-r1 is not there; no output is kept" in said


def test_of_a_run_that_was_cancelled_it_is_not_said_that_it_wrote_nothing(
    annealer: Annealer, ocb: Ocb, ask: Ask
) -> None:
    annealer.registers(annealer.pages)
    annealer.ends(outcome="failed", exit_code=None, reason="it hangs")
    said = ocb("noderole", "log", BASE).stderr
    assert "wrote no output" not in said
    assert "no output is kept" in said
    assert ask("noderole", "log", BASE)["whole"] is False


@pytest.mark.parametrize("prints", [True, False])
def test_following_waits_for_the_first_byte_of_a_run_and_ends_with_a_silent_one(
    annealer: Annealer, becomes: Becomes, ocb: Ocb, zk_settings: ZooKeeperSettings, prints: bool
) -> None:
    annealer.registers(annealer.pages)
    annealer.claims()
    becomes(BASE, State.TRANSITION, run="r1")
    assert "still running; nothing has been printed yet\n" in ocb("noderole", "log", BASE).stderr
    with begun(zk_settings.hosts, "noderole", "log", BASE, "-f") as (following, printed, said):
        assert said.readline() == "nothing has been printed yet; waiting, from byte 0 on\n"
        if prints:
            annealer.file.write_text("begun\n")
            assert printed.readline() == "begun\n"
        annealer.ends()
        becomes(BASE, State.ACTIVE, run="r1")
        assert printed.read() == ""
        assert ("from https://" if prints else "this run has no log") in said.readlines()[-1]
    assert following.returncode == 0


def test_a_noderole_that_is_deleted_before_it_runs_has_no_log_to_wait_for(
    annealer: Annealer, becomes: Becomes, zk_settings: ZooKeeperSettings
) -> None:
    top = f"top@{N1}"
    becomes(top, State.TODO)
    with begun(zk_settings.hosts, "noderole", "log", top, "-f") as (following, _, said):
        assert "waits (TODO)" in said.readline()
        path = paths.noderole("top", N1)
        annealer.session.commit([Delete(f"{path}/runs", 0), Delete(path, 1)])
        assert f"{top} was deleted before it ran" in said.read()
    assert following.returncode == 3


def test_a_run_that_was_not_is_told_with_those_that_were(annealer: Annealer, ocb: Ocb) -> None:
    annealer.ends()
    answer = ocb("noderole", "log", BASE, "r9")
    assert (answer.exit_code, f"{BASE} has no run r9; it has: r1" in answer.stderr) == (3, True), answer.output
    assert ocb("noderole", "log", BASE, "--path", "-f").exit_code == 2


def test_an_interrupted_follower_reports_that_the_run_continues(
    annealer: Annealer, becomes: Becomes, zk_settings: ZooKeeperSettings
) -> None:
    annealer.registers(annealer.pages)
    annealer.claims()
    becomes(BASE, State.TRANSITION, run="r1")
    annealer.file.write_text("begun\n")
    with begun(zk_settings.hosts, "noderole", "log", BASE, "-f") as (following, printed, said):
        assert printed.readline() == "begun\n"
        following.send_signal(signal.SIGINT)
        assert f"{BASE} goes on; to end the run: nodepool-ocb noderole cancel {BASE}" in said.read()
    assert following.returncode == 130


@pytest.mark.parametrize("verb", ["noderole log base@n1.example.com", "image log jammy"])
def test_raw_bytes_are_for_files_and_never_for_a_terminal(verb: str) -> None:
    ours, theirs = pty.openpty()
    with open(ours, "rb", buffering=0), open(theirs, "wb", buffering=0) as terminal:
        answer = subprocess.run(
            [*COMMAND, *verb.split(), "--raw"], stdout=terminal, stderr=subprocess.PIPE, text=True, check=False
        )
    assert answer.returncode == 2
    assert "send it to a file or a pipe" in answer.stderr


def test_a_run_is_gone_on_with_only_where_it_was_taken_over_in_its_generation() -> None:
    taken = replace(RUN, outcome="abandoned")
    now = NodeRole(state=State.TRANSITION, since=1.0, run="r2", generation=1)
    assert succeeding(RunSeen("r1", now, None, taken)) == "r2"
    assert succeeding(RunSeen("r1", now, None, RUN)) is None, "it ended, and another began"
    assert succeeding(RunSeen("r1", replace(now, generation=2), None, taken)) is None, "somebody meant another"
    assert succeeding(RunSeen("r2", now, None, taken)) is None
    assert succeeding(RunSeen("r1", None, None, taken)) is None


def test_what_is_claimed_now_says_nothing_of_a_run_before() -> None:
    now = NodeRole(state=State.TRANSITION, since=1.0, run="r2", generation=1)
    claim = Claim(annealer="near-3-4", noderole=BASE, run="r2", epoch=2, since=1.0)
    seen = RunSeen("r1", now, claim, RUN)
    assert (seen.ended, seen.annealer) == (True, "far-1-2")
    assert (RunSeen("r2", now, claim).ended, RunSeen("r2", now, claim).annealer) == (False, "near-3-4")
