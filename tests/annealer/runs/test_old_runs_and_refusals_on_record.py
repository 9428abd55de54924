"""What a run leaves beside its result: old records and logs that go, and a refused file in the journal."""

from __future__ import annotations

import logging
import socket
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from nodepool_ocb.config import AnnealerSettings
from nodepool_ocb.daemon.timers import Timers
from nodepool_ocb.errors import Stale
from nodepool_ocb.model import paths
from nodepool_ocb.model.journal import REFUSE_FILE
from nodepool_ocb.model.records import Create, Run
from nodepool_ocb.store import journal
from nodepool_ocb.store.client.session import Session
from nodepool_ocb_annealer.runs import forbidden, logs, tidying
from nodepool_ocb_annealer.runs.forbidden import Forbidden
from nodepool_ocb_annealer.runs.tidying import CHECKS_KEPT, LOOK_SHARE, RUNS_KEPT, TIDY_SECONDS, Tidying, TidyResult
from nodepool_ocb_annealer.timer_kinds import Timer, TimerKind

TIDY = Timer(TimerKind.TIDY)

NOW = 1000.0  # of the clock that stands still


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time stands still: no wait depends on the load of the machine."""
    for module in (tidying,):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: NOW, time=time.time))


def runs(session: Session, fqdn: str = "n1") -> list[str]:
    return sorted(session.children(paths.runs("a", fqdn)) or ())


def recorded(session: Session, number: int, checks: int = 0, fqdn: str = "n1") -> list[str]:
    """So many runs and checks of a@<fqdn>, the oldest first."""
    record = Run(annealer="a", started=1.0, ended=2.0, outcome="succeeded", generation=1, epoch=1)
    names = [f"{at:010}-a{at}" for at in range(number)] + [f"{at:010}-a{at}-check" for at in range(checks)]
    session.ensure(paths.runs("a", fqdn))
    session.commit([Create(paths.run("a", fqdn, name), record) for name in names])
    return names


def test_of_each_noderole_the_newest_runs_and_checks_stay(zk_session: Session, tmp_path: Path) -> None:
    names = recorded(zk_session, RUNS_KEPT + 3, CHECKS_KEPT + 2)
    recorded(zk_session, 2, fqdn="n2")
    others = runs(zk_session, "n2")
    look = tidying._tidy(zk_session, AnnealerSettings(log_dir=str(tmp_path)), {"a@n1", "a@n2", "a@gone"}, None)
    assert look == TidyResult(set(), None)
    assert runs(zk_session) == sorted([*names[3 : RUNS_KEPT + 3], *names[-CHECKS_KEPT:]])
    assert runs(zk_session, "n2") == others


def log(folder: Path, number: int) -> Path:
    (folder / "n1").mkdir(exist_ok=True)
    file = folder / "n1" / f"a-{number:010}-a{number:x}.log"
    file.write_text("x")
    return file


def test_a_look_at_the_logs_takes_time_and_spares_those_of_runs_that_go_on(zk_session: Session, tmp_path: Path) -> None:
    first, second, third = (log(tmp_path, number) for number in (1, 2, 3))
    settings = AnnealerSettings(log_dir=str(tmp_path), log_keep=1)
    look = tidying._tidy(zk_session, settings, set(), {"0000000001-a1"})
    assert look.left == set()
    assert look.took_seconds is not None
    assert 0.0 <= look.took_seconds < 30.0
    assert [file.exists() for file in (first, second, third)] == [True, False, True]
    assert logs.tidy(AnnealerSettings(log_dir=None), (), 0.0) == 0
    assert logs.tidy(settings, (), time.time()) == 1
    assert not first.exists()


@pytest.mark.parametrize("error", [Stale("another deletes them", "/x"), KeyError("a fault of ours")])
def test_what_could_not_be_tidied_is_left_for_the_next_look(
    zk_session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fails(*_: object) -> None:
        raise error

    monkeypatch.setattr(tidying, "drop_old_runs", fails)
    settings = AnnealerSettings(log_dir=str(tmp_path))
    assert tidying._tidy(zk_session, settings, {"a@n1"}, None) == TidyResult({"a@n1"}, None)
    look = tidying._tidy(zk_session, settings, {"a@n1"}, set())
    assert look.left == {"a@n1"}
    assert look.took_seconds is not None


class Asked:
    """A tidying whose worker is asked and does not answer."""

    def __init__(self, session: Any = None, runs: Any = set) -> None:
        self.timers: Timers[Timer] = Timers()
        self.context: Any = SimpleNamespace(
            session=session, settings=AnnealerSettings(), timers=self.timers, post=lambda call: call()
        )
        self.tidying = Tidying(self.context, runs)
        self.asked: list[Any] = []
        self.tidying._workers.close()
        self.free = True
        self.tidying._workers = SimpleNamespace(ask=self._ask, close=lambda: None)  # type: ignore[assignment]

    def _ask(self, work: Any, _: Any) -> bool:
        if self.free:
            self.asked.append(work)
        return self.free

    def wait(self) -> float | None:
        now = NOW
        wait = self.timers.seconds(now, at_most=1e9)
        list(self.timers.due(float("inf")))
        return None if wait == 1e9 else wait


def grant(generation: int = 1, previous_epoch: int | None = None, check: object = None) -> Any:
    record = SimpleNamespace(generation=generation, check=check)
    return SimpleNamespace(record=record, previous_epoch=previous_epoch, vertex=SimpleNamespace(name="a@n1"))


def test_what_the_process_before_left_is_looked_at_soon() -> None:
    wait = Asked().wait()
    assert wait is not None
    assert TIDY_SECONDS - 0.5 < wait <= TIDY_SECONDS


@pytest.mark.parametrize(
    ("ended", "noted"),
    [
        (grant(), False),
        (grant(generation=RUNS_KEPT), False),
        (grant(generation=RUNS_KEPT + 1), True),
        (grant(previous_epoch=3), True),
        (grant(check=object()), True),
    ],
)
def test_a_noderole_is_noted_where_it_may_have_too_many_records(ended: Any, noted: bool) -> None:
    one = Asked()
    one.wait()
    one.tidying.ended(ended)
    assert one.tidying._noted == ({"a@n1"} if noted else set())
    assert (one.wait() is not None) is noted


def test_a_log_that_may_have_been_left_is_looked_at_when_the_pause_is_over() -> None:
    one = Asked()
    one.wait()
    one.tidying.ended(grant(), logs=True)
    assert (one.wait() or 0.0) <= TIDY_SECONDS
    one.tidying._look_at = NOW + 30.0
    one.tidying.ended(grant(), logs=True)
    assert 29.0 < (one.wait() or 0.0) <= 30.0


def test_one_look_goes_on_at_a_time_and_takes_all_that_was_noted() -> None:
    session = object()
    one = Asked(session, runs=lambda: {"r1"})
    one.tidying._noted = {"a@n1"}
    one.tidying.due()
    one.tidying.due()
    (work,) = one.asked
    assert work.args == (session, one.context.settings, {"a@n1"}, {"r1"})
    assert one.tidying._noted == set()
    one.tidying._look_at = NOW + 30.0
    one.tidying._tidied(TidyResult({"a@n2"}, None))
    assert one.tidying._noted == {"a@n2"}
    assert (one.wait() or 99.0) <= TIDY_SECONDS
    one.tidying.due()
    assert one.asked[1].args[3] is None, "the logs are not looked at yet"


def test_the_pause_after_a_look_at_the_logs_grows_with_its_time() -> None:
    one = Asked()
    one.wait()
    one.tidying._tidied(TidyResult(set(), 2.0))
    pause = one.tidying._look_at - NOW
    assert 2.0 * LOOK_SHARE - 1.0 < pause <= 2.0 * LOOK_SHARE
    wait = one.wait()
    assert wait is not None
    assert 3599.0 < wait <= 3600.0
    one.tidying._tidied(TidyResult(set(), None))
    assert pause - 5.0 < (one.wait() or 0.0) <= pause


def test_without_a_thread_everything_is_kept_for_the_next_time() -> None:
    one = Asked()
    one.free = False
    one.tidying._noted = {"a@n1"}
    one.wait()
    one.tidying.due()
    assert (one.tidying._noted, one.tidying._under_way) == ({"a@n1"}, False)
    assert (one.wait() or 99.0) <= TIDY_SECONDS


# -- files that a run may not read --


def test_a_file_that_was_refused_stands_in_the_journal_once_for_each_generation(
    zk_session: Session, caplog: pytest.LogCaptureFixture
) -> None:
    noted = Forbidden(zk_session)
    with caplog.at_level(logging.WARNING, forbidden.log.name):
        for generation in (1, 1, 2):
            noted.note("a@n1", generation, "tasks.roots", "x" * 2000)
    assert [each.getMessage() for each in caplog.records] == [f"a@n1: {'x' * 2000}"] * 2
    found = [each.entry for each in journal.read(zk_session, journal.numbers(zk_session)) if each.entry is not None]
    assert len(found) == 2
    entry = found[0]
    assert (entry.login, entry.host, entry.verb, entry.subjects, entry.reason) == (
        "annealer", socket.gethostname(), REFUSE_FILE, ("a@n1",), "x" * 1000,
    )  # fmt: skip
    assert abs(entry.at - zk_session.now()) < 60.0


def test_a_refusal_that_cannot_be_written_is_logged_and_raises_nothing(
    zk_session: Session, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*_: object) -> None:
        raise Stale("no room", "/x")

    monkeypatch.setattr(journal, "write", fails)
    with caplog.at_level(logging.WARNING, forbidden.log.name):
        Forbidden(zk_session).note("a@n1", 1, "tasks.roots", "no")
    assert [each.getMessage() for each in caplog.records][1] == "a@n1: its refusal is not in the journal: no room"


def test_no_more_refusals_than_may_be_are_remembered(zk_session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forbidden, "REMEMBERED", 2)
    noted = Forbidden(zk_session)
    for generation in (1, 2, 3, 3, 1):
        noted.note("a@n1", generation, "tasks.roots", "no")
    assert len(journal.numbers(zk_session)) == 4
