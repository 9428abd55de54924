"""A slot's thread: whatever a jig, ZooKeeper or this host does, its run has an answer that says whether it may have begun."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from nodepool_ocb.config import AnnealerSettings
from nodepool_ocb.engine import claim, inputs
from nodepool_ocb.engine.run import RunEvent
from nodepool_ocb.errors import Denied, Invalid, Spoiled, Stale, Unavailable
from nodepool_ocb.jigs.jig import Detached, Failed, Fenced, Lost, Outcome, Succeeded, Unknown, Unreachable
from nodepool_ocb.jigs.ssh.faults import OwnFault
from nodepool_ocb.model import paths
from nodepool_ocb.model.drift import PendingCheck
from nodepool_ocb.model.records import State
from nodepool_ocb.secrecy.errors import Sealed
from nodepool_ocb.secrecy.opening import Secrets
from nodepool_ocb_annealer.runs import attributes, running
from nodepool_ocb_annealer.runs.attempts import Attempt, SlotAnswer
from nodepool_ocb_annealer.runs.running import JigRunner
from tests.engine.worlds import put, world


class Jig:
    """Gives, or raises, ``answer``; ``orders`` has what it was asked."""

    instant, attaches, checks = False, True, False

    def __init__(self, answer: object = None) -> None:
        self.answer: Any = answer
        self.orders: list[Any] = []
        self.then = lambda: None

    def run(self, order: Any, _stop: threading.Event) -> Any:
        self.orders.append(order)
        self.then()
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer

    def cancel(self, order: Any) -> Any:
        return self.run(order, threading.Event())


class OwnJig(Jig):
    """As one of the project."""


OwnJig.__module__ = "nodepool_ocb.jigs.own"


class Bench:
    """A runner with one jig, and an attempt on a@n that its turn thread has claimed."""

    def __init__(self, jig: Jig, monkeypatch: pytest.MonkeyPatch, log_dir: Path | None = None, **record: Any) -> None:
        self.world, self.jig = world(), jig
        self.session: Any = SimpleNamespace(
            trusted=True, id=7, now=lambda: 50.0, get_many=lambda each: [None] * len(each)
        )
        vertex = put(self.world, "a@n", State.ACTIVE if record.get("check") else State.TODO, **record)
        grant = claim.take(self.world, vertex, "a", "0000000001-a1", 1.0)
        jigs: Any = {"noop": jig}
        self.attempt = Attempt(grant, self.world.role_of(vertex), 7, jigs)
        settings = AnnealerSettings(log_dir=str(log_dir) if log_dir else None)
        self.runner = JigRunner(self.session, settings, jigs, Secrets())
        self.sources = inputs.sources(self.world, vertex, self.attempt.role)
        self.noted: list[tuple[Any, ...]] = []
        monkeypatch.setattr(self.runner._forbidden, "note", lambda *given: self.noted.append(given))

    def run(self) -> SlotAnswer | None:
        return self.runner.run(self.attempt, self.sources, 0.0)

    def end(self, reason: str | None = "time is up") -> SlotAnswer | None:
        return self.runner.end(self.attempt, reason, 0.0)


def answered(answer: SlotAnswer | None) -> SlotAnswer:
    assert answer is not None
    return answer


@pytest.mark.parametrize(
    ("outcome", "event", "begun"),
    [
        (Succeeded({}, exit_code=0, tail="", log=None), RunEvent.ENDED, False),
        (Failed("exit code 1", 1), RunEvent.ENDED, False),
        (Lost("it is gone"), RunEvent.ENDED, False),
        (Fenced(9), RunEvent.ENDED, False),
        (Unreachable("connect", "no route", begun=True), RunEvent.UNREACHED, True),
        (Unreachable("connect", "no route", begun=False), RunEvent.UNREACHED, False),
        (Unknown("no room", begun=True), RunEvent.FAULT, True),
        (Unknown("no room", begun=False), RunEvent.FAULT, False),
    ],
)
def test_the_answer_of_a_jig_is_that_of_its_run(
    monkeypatch: pytest.MonkeyPatch, outcome: Outcome, event: RunEvent, begun: bool
) -> None:
    bench = Bench(OwnJig(outcome), monkeypatch)
    found = answered(bench.run())
    assert (found.event, found.outcome, found.begun, found.ordered) == (event, outcome, begun, True)
    assert (found.ended, found.foreign, found.recorded) == (50.0, False, False)
    (order,) = bench.jig.orders
    grant = bench.attempt.grant
    assert (order.node, order.role, order.run, order.epoch, order.previous_epoch, order.generation, order.check) == (
        "n", "a", grant.run, grant.epoch, None, grant.record.generation, False,
    )  # fmt: skip
    assert (order.definition, order.timeout_seconds, order.log) == (
        bench.attempt.role,
        bench.attempt.role.timeout_seconds,
        None,
    )


def test_results_of_a_run_come_with_its_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(OwnJig(Succeeded({"seen": 1}, exit_code=0, tail="", log=None)), monkeypatch)
    found = answered(bench.run())
    assert found.sent is not None
    assert paths.wall("a", "n") in {change.path for change in found.results.changes}


def test_what_cannot_be_kept_fails_the_run_with_its_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(OwnJig(Succeeded({}, exit_code=0, tail="words", log=None)), monkeypatch)

    def fails(*_: object) -> None:
        raise ValueError("no sense")

    monkeypatch.setattr(attributes, "results", fails)
    found = answered(bench.run())
    assert found.event is RunEvent.ENDED
    assert found.outcome == Failed("its returned attributes cannot be kept: ValueError: no sense", 0, "words")


def test_a_jig_that_lets_go_unasked_is_a_fault_and_when_asked_it_has_left(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(OwnJig(Detached("it let go")), monkeypatch)
    found = answered(bench.run())
    assert (found.event, found.outcome, found.begun) == (RunEvent.FAULT, Unknown("it let go"), True)
    bench.jig.then = bench.attempt.stop.set  # type: ignore[method-assign]
    assert answered(bench.run()).event is RunEvent.LEFT
    assert len(bench.jig.orders) == 2
    assert answered(bench.run()).event is RunEvent.LEFT
    assert len(bench.jig.orders) == 2, "a run that is to be left gets no order"
    bench.attempt.gone.set()
    assert bench.run() is None


def test_nothing_is_ordered_while_the_claim_may_be_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(OwnJig(Failed("x")), monkeypatch)
    monkeypatch.setattr(running, "TRUST_SECONDS", 0.001)
    for field, doubtful, well in (("trusted", False, True), ("id", 8, 7)):
        setattr(bench.session, field, doubtful)
        waits: list[float] = []

        def wait(seconds: float, field: str = field, well: object = well, waits: list[float] = waits) -> bool:
            waits.append(seconds)
            if len(waits) == 3:
                setattr(bench.session, field, well)
            return False

        monkeypatch.setattr(bench.attempt.gone, "wait", wait)
        bench.run()
        assert waits == [0.001] * 3
    assert len(bench.jig.orders) == 2


@pytest.mark.parametrize(
    ("error", "recorded", "reaching", "said"),
    [
        (OSError("no room"), False, False, "OSError: no room"),
        (MemoryError("full"), False, False, "MemoryError: full"),
        (RuntimeError("can't start new thread"), False, False, "RuntimeError: can't start new thread"),
        (RuntimeError("else"), True, False, "RuntimeError: else"),
        (KeyError("x"), True, False, "KeyError: 'x'"),
        (OwnFault("connect", "no room"), False, True, "connect: no room"),
        (SystemExit(3), True, False, "SystemExit: 3"),
    ],
)
@pytest.mark.parametrize("ends", [False, True])
def test_an_exception_of_a_jig_of_the_project_is_a_fault_of_this_host(
    monkeypatch: pytest.MonkeyPatch, error: BaseException, recorded: bool, reaching: bool, said: str, ends: bool
) -> None:
    bench = Bench(OwnJig(error), monkeypatch)
    found = answered(bench.end() if ends else bench.run())
    assert (found.event, found.outcome) == (RunEvent.FAULT, Unknown(said, begun=True, reaching=reaching))
    assert (found.begun, found.recorded, found.foreign, found.ended) == (True, recorded, False, 50.0)
    assert found.ordered is not ends


@pytest.mark.parametrize("ends", [False, True])
def test_an_exception_of_a_jig_of_others_is_its_own_fault(monkeypatch: pytest.MonkeyPatch, ends: bool) -> None:
    bench = Bench(Jig(KeyError("x")), monkeypatch)
    found = answered(bench.end() if ends else bench.run())
    assert (found.event, found.begun, found.foreign) == (RunEvent.FAULT, True, True)
    assert "jig noop" in found.reason


@pytest.mark.parametrize(
    ("refusal", "event", "outcome"),
    [
        (Unreachable("connect", "no route"), RunEvent.UNREACHED, Unreachable("connect", "no route")),
        (Fenced(9), RunEvent.ENDED, Fenced(9)),
        (None, RunEvent.ENDED, Failed("time is up", tail="")),
    ],
)
def test_a_run_that_is_ended_has_failed_for_the_reason_given(
    monkeypatch: pytest.MonkeyPatch, refusal: object, event: RunEvent, outcome: Outcome
) -> None:
    found = answered(Bench(OwnJig(refusal), monkeypatch).end())
    assert (found.event, found.outcome) == (event, outcome)
    assert found.begun is (event is RunEvent.UNREACHED)


def test_a_run_of_another_jig_is_lost_when_it_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(OwnJig(None), monkeypatch)
    bench.attempt.jig = "noop"
    found = answered(bench.end(None))
    assert found.outcome == Lost("it was ended: its role has jig noop now, and had noop")
    bench.attempt.gone.set()
    assert bench.end() is None


@pytest.mark.parametrize(
    ("error", "event", "begun", "more"),
    [
        (Stale("it moved on", "/x"), RunEvent.UNREAD, False, {}),
        (Unavailable("no connection"), RunEvent.UNREAD, False, {}),
        (Denied("no right"), RunEvent.UNREAD, False, {}),
        (Spoiled("no JSON", "/ocb/x"), RunEvent.SPOILED, False, {"spoiled": "/ocb/x"}),
        (Invalid("a circle"), RunEvent.ENDED, None, {}),
        (KeyError("x"), RunEvent.SEALED, False, {"own": True}),
        (OSError("no room"), RunEvent.FAULT, False, {}),
    ],
)
def test_a_run_that_cannot_be_prepared_was_not_begun(
    monkeypatch: pytest.MonkeyPatch, error: Exception, event: RunEvent, begun: bool | None, more: dict[str, Any]
) -> None:
    bench = Bench(OwnJig(Failed("x")), monkeypatch)

    def fails(*_: object) -> None:
        raise error

    monkeypatch.setattr(attributes, "read", fails)
    found = answered(bench.run())
    assert (found.event, found.ordered, found.begun, bench.jig.orders) == (event, False, False, [])
    assert str(error) in found.reason
    if begun is not None:
        assert isinstance(found.outcome, Unknown)
        assert found.outcome.begun is begun
    else:
        assert isinstance(found.outcome, Failed)
    assert {name: getattr(found, name) for name in more} == more


@pytest.mark.parametrize("own", [True, False])
def test_a_secret_that_cannot_be_opened_puts_the_run_off_and_fails_a_check_that_nobody_can_do(
    monkeypatch: pytest.MonkeyPatch, own: bool
) -> None:
    for check in (None, PendingCheck()):
        bench = Bench(OwnJig(Failed("x")), monkeypatch, **({"check": check, "refresh": True} if check else {}))

        def fails(*_: object, own: bool = own) -> None:
            raise Sealed("no key for db", own=own)

        monkeypatch.setattr(bench.runner._secrets, "opened", fails)
        found = answered(bench.run())
        if check and not own:
            assert (found.event, found.outcome) == (RunEvent.ENDED, Failed("no key for db"))
        else:
            assert (found.event, found.outcome, found.own) == (
                RunEvent.SEALED,
                Unknown("no key for db", begun=False),
                own,
            )


def test_a_file_that_was_refused_is_noted_with_its_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(OwnJig(Failed("no such root", forbidden="tasks.roots")), monkeypatch)
    assert answered(bench.run()).event is RunEvent.ENDED
    assert bench.noted == [("a@n", bench.attempt.grant.record.generation, "tasks.roots", "no such root")]


def test_a_jig_that_cannot_check_fails_the_check(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(OwnJig(Succeeded({})), monkeypatch, check=PendingCheck(), refresh=True)
    found = answered(bench.run())
    assert (found.event, found.outcome, found.ordered) == (RunEvent.ENDED, Failed("jig noop cannot check"), False)
    bench.jig.checks = True  # type: ignore[misc]
    monkeypatch.setattr(attributes, "changed_secrets", lambda *_: ["db", "web"])
    found = answered(bench.run())
    assert (found.event, found.outcome, bench.jig.orders) == (RunEvent.ENDED, Failed(f"db, web: {running.FORMER}"), [])
    monkeypatch.setattr(attributes, "changed_secrets", lambda *_: [])
    found = answered(bench.run())
    assert (found.event, len(bench.jig.orders), bench.jig.orders[0].check) == (RunEvent.ENDED, 1, True)


def test_the_log_of_a_run_lies_in_the_folder_of_its_node(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bench = Bench(OwnJig(Failed("x")), monkeypatch, tmp_path)
    bench.run()
    file = bench.jig.orders[0].log
    assert file.parent == tmp_path / "n"
    assert bench.attempt.grant.run in file.name
    file.parent.mkdir()
    file.write_text("its words\n")
    bench.jig.answer = None
    found = answered(bench.end())
    assert found.outcome == Failed("time is up", tail="its words\n", log=file)
