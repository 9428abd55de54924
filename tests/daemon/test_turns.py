"""The turn of every daemon: what it calls, on which thread, and what others get to know of it."""

from __future__ import annotations

import logging
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from nodepool_ocb.daemon.registration import Registration, of_this_process
from nodepool_ocb.daemon.turns import AGAIN_SECONDS, Turns
from nodepool_ocb.errors import NameTaken, NoCluster, Unavailable
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Daemon
from nodepool_ocb.model.rights import ClientKind
from nodepool_ocb.store import daemons
from nodepool_ocb.store.client.session import Session

HOUR = 3600.0


class Played:
    """A daemon that notes what is asked of it; ``raises`` is raised by the next that reads."""

    sweep_seconds = HOUR

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.trouble: str | None = None
        self.raises: Exception | None = None

    def load(self) -> None:
        self._note("load")

    def refresh(self) -> None:
        self._note("refresh")

    def sweep(self) -> None:
        self._note("sweep")

    def decide(self) -> float:
        self.calls.append("decide")
        return 7.0

    def trouble_changed(self, trouble: str | None) -> None:
        self.calls.append(f"trouble {trouble}")

    def doing(self) -> str:
        return "at work"

    def drain(self, seconds: float) -> None:
        self.calls.append(f"drain {seconds >= 0.0}")

    def asked(self) -> str:
        """What was called since the last time."""
        calls, self.calls = self.calls, []
        return " ".join(calls)

    def _note(self, call: str) -> None:
        self.calls.append(call)
        if (raised := self.raises) is not None:
            self.raises = None
            raise raised


@pytest.fixture
def controller() -> Played:
    return Played()


@pytest.fixture
def session() -> Any:
    """One that nothing happens to."""
    return SimpleNamespace(id=1, trusted=True, dead=False, closed=False)


@pytest.fixture
def turns(session: Any, controller: Played) -> Turns:
    """Of a daemon whose registration stands, and is never written."""
    made = Registration(session, ClientKind.ANNEALER, "a", of_this_process())
    made.write = lambda: None  # type: ignore[method-assign]
    return Turns(session, made, controller)


# -- the threading rule --


def test_a_posted_call_is_made_by_the_next_turn_on_its_thread_before_anything_is_read(
    turns: Turns, controller: Played
) -> None:
    called_on: list[int] = []

    def call() -> None:
        called_on.append(threading.get_ident())
        controller.calls.append("posted")

    worker = threading.Thread(target=turns.post, args=(call,))
    worker.start()
    worker.join()
    assert turns.wake.is_set()
    assert not called_on
    turns.turn()
    assert called_on == [threading.get_ident()]
    assert controller.asked() == "posted load decide"


def test_a_posted_call_that_raises_costs_no_other(
    turns: Turns, controller: Played, caplog: pytest.LogCaptureFixture
) -> None:
    turns.post(lambda: {}["no luck"])
    turns.post(lambda: controller.calls.append("posted"))
    turns.turn()
    assert controller.asked() == "posted load decide"
    assert "handling an answer raised; the next turn goes on" in caplog.text


def test_it_knows_its_thread(turns: Turns) -> None:
    answers: list[bool] = []
    turns.turn()
    worker = threading.Thread(target=lambda: answers.append(turns.here()))
    worker.start()
    worker.join()
    assert turns.here()
    assert answers == [False]


# -- what is read --


def test_a_new_session_is_loaded_and_then_only_what_changed_is_read(
    turns: Turns, controller: Played, session: Any
) -> None:
    assert turns.turn() == 7.0
    turns.turn()
    session.id = 2
    turns.turn()
    assert controller.asked() == "load decide refresh decide load decide"


def test_what_could_not_be_loaded_is_loaded_again_soon(turns: Turns, controller: Played) -> None:
    controller.raises = Unavailable("no answer")
    assert turns.turn() == AGAIN_SECONDS
    turns.turn()
    assert controller.asked() == "load load decide"


def test_a_sweep_comes_when_it_is_due_and_once(turns: Turns, controller: Played) -> None:
    turns.turn()
    turns.sweep_soon()
    assert turns.wake.is_set()
    turns.turn()
    turns.turn()
    assert controller.asked() == "load decide sweep decide refresh decide"


def test_the_next_turn_is_no_later_than_the_next_sweep(turns: Turns, controller: Played) -> None:
    controller.sweep_seconds = 1.0
    assert 0.0 < turns.turn() <= 1.1


def test_a_sweep_that_fails_is_not_tried_in_each_turn(turns: Turns, controller: Played) -> None:
    turns.turn()
    turns.sweep_soon()
    controller.raises = Unavailable("no answer")
    turns.turn()
    turns.turn()
    assert controller.asked() == "load decide sweep refresh decide"


def test_another_configuration_may_ask_for_a_load(turns: Turns, controller: Played) -> None:
    turns.turn()
    turns.load_again()
    turns.turn()
    assert controller.asked() == "load decide load decide"


def test_nothing_is_read_while_zookeeper_does_not_answer_and_posted_calls_are_made(
    turns: Turns, controller: Played, session: Any
) -> None:
    session.trusted = False
    turns.post(lambda: controller.calls.append("posted"))
    assert turns.turn() == AGAIN_SECONDS
    assert controller.asked() == "posted"


def test_another_cluster_ends_the_session_before_anything_is_written(
    turns: Turns, controller: Played, session: Any
) -> None:
    closed: list[bool] = []
    session.close = lambda: closed.append(True)
    controller.raises = NoCluster("it is another one")
    with pytest.raises(NoCluster):
        turns.turn()
    assert closed == [True]
    assert controller.asked() == "load"


# -- trouble and the end --


def test_trouble_is_logged_once_and_so_is_its_end(
    turns: Turns, controller: Played, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    controller.trouble = "no key"
    turns.turn()
    assert turns.wake.is_set(), "what follows from it does not wait"
    turns.turn()
    controller.trouble = None
    turns.turn()
    assert controller.asked() == "load decide trouble no key refresh decide refresh decide trouble None"
    assert [record.message for record in caplog.records] == [
        "not ready: no key",
        "ready again; this fault is over: no key",
    ]


def test_a_daemon_that_drains_is_asked_to_in_each_turn_and_says_so(turns: Turns, controller: Played) -> None:
    turns.turn()
    assert not turns.draining
    turns.stop.set()
    turns.turn()
    turns.turn()
    assert turns.draining
    assert turns.drained_for(0.0)
    assert not turns.drained_for(HOUR)
    assert controller.asked() == "load decide drain True refresh decide drain True refresh decide"


# -- what it registers --


@pytest.fixture
def registration(zk_session: Session) -> Registration:
    return Registration(zk_session, ClientKind.BUILDER, "b", of_this_process(slots=1), taken=lambda _: "another has it")


def registered(session: Session) -> Daemon | None:
    return daemons.read(session, ClientKind.BUILDER).get("b")


def test_a_changed_registration_is_written_by_the_next_turn(zk_session: Session, registration: Registration) -> None:
    controller = Played()
    turns = Turns(zk_session, registration, controller)
    turns.turn()
    assert registered(zk_session) == registration.record
    registration.change(slots=2)
    controller.trouble = "no room"
    turns.turn()
    found = registered(zk_session)
    assert found is not None
    assert (found.slots, found.trouble) == (2, "no room")


def test_that_turns_fail_is_written_between_them_once_it_is_registered(
    zk_session: Session, registration: Registration
) -> None:
    turns = Turns(zk_session, registration, Played())
    turns.failing("no luck")
    assert registered(zk_session) is None
    turns.failing(None)
    turns.turn()
    turns.failing("no luck")
    found = registered(zk_session)
    assert found is not None
    assert found.trouble == "no luck"
    turns.failing(None)
    turns.turn()
    found = registered(zk_session)
    assert found is not None
    assert found.trouble is None


def test_a_drain_is_registered_at_once_but_never_by_a_daemon_that_was_not_registered(
    zk_session: Session, registration: Registration
) -> None:
    states: list[str | None] = []

    class Draining(Played):
        def drain(self, seconds: float) -> None:
            assert seconds >= 0.0
            states.append(found.state if (found := registered(zk_session)) else None)

    new = Turns(zk_session, registration, Draining())
    new.stop.set()
    new.turn()
    new.turn()
    assert states == [None, "draining"]


def test_what_stands_is_asked_for_only_where_it_may_be_something_else(
    zk_session: Session, registration: Registration
) -> None:
    registration.write()
    first = zk_session.get(paths.daemon("builder", "b"))
    registration.compare(registration.record)
    zk_session._client.delete(paths.daemon("builder", "b"))
    registration.write()
    assert registered(zk_session) is None
    registration.compare(None)
    registration.write()
    assert registered(zk_session) == registration.record
    assert first is not None


def test_what_an_earlier_session_of_the_process_left_is_replaced(
    zk_settings: Any, zk_session: Session, registration: Registration
) -> None:
    with Session(zk_settings) as other:
        Registration(other, ClientKind.BUILDER, "b", of_this_process()).write()
        zk_session._former.add(other.id)
        registration.write()
    assert registered(zk_session) == registration.record


def test_what_another_process_registered_under_a_lasting_identity_is_left_as_it_is(
    zk_settings: Any, zk_session: Session, registration: Registration
) -> None:
    with Session(zk_settings) as other:
        theirs = Registration(other, ClientKind.BUILDER, "b", of_this_process(slots=9))
        theirs.write()
        with pytest.raises(NameTaken, match="another has it"):
            registration.write()
        assert registered(zk_session) == theirs.record


def test_an_identity_of_this_process_alone_is_taken_from_whoever_has_it(zk_settings: Any, zk_session: Session) -> None:
    with Session(zk_settings) as other:
        Registration(other, ClientKind.ANNEALER, "a", of_this_process()).write()
        ours = Registration(zk_session, ClientKind.ANNEALER, "a", of_this_process(slots=3))
        ours.write()
    found = daemons.read(zk_session, ClientKind.ANNEALER)["a"]
    assert found == ours.record
