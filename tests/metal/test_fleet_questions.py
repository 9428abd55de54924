"""Questions of the driver metal to the turn of a launcher, on a real server."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from nodepool_ocb.engine.world import World
from nodepool_ocb.errors import Conflict
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Node, Set
from nodepool_ocb.pool.metal.plans import MetalPlan
from nodepool_ocb.providers.machines import LaunchParty, MachineRefused
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.world.cache import Cache
from nodepool_ocb_launcher.questions import FleetQuestions
from tests.metal.metal_site import MetalSite


class OneTurn:
    """Questions with turns that the test takes."""

    def __init__(self, session: Session) -> None:
        self.site = MetalSite(session, 1)
        self.questions = FleetQuestions(session, lambda: None)
        self.cache = Cache(session, World(), lambda: None)
        self.cache.load()
        self.answers: list[Any] = []

    def ask(self, question: Callable[[World, float], MetalPlan], seconds: float = 30.0) -> threading.Thread:
        """Ask on a thread, as a worker does."""

        def work() -> None:
            try:
                self.answers.append(self.questions.ask(question, seconds))
            except Exception as error:
                self.answers.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        return thread


@pytest.fixture
def turn(zk_session: Session) -> OneTurn:
    return OneTurn(zk_session)


def test_a_plan_that_another_writer_refuted_is_decided_again(turn: OneTurn, until: Callable[..., None]) -> None:
    (fqdn,) = turn.site.names
    seen: list[int] = []

    def question(world: World, _: float) -> MetalPlan:
        view = world.nodes[fqdn]
        seen.append(view.version)
        changed = Node(rack="r1")
        return MetalPlan(answer=view.version, changes=(Set(paths.node(fqdn), changed, view.version),))

    turn.site.set(paths.node(fqdn), Node, rack="r0")  # the turn has not seen this yet
    worker = turn.ask(question)
    until(lambda: turn.questions.waiting)
    assert turn.questions.answer(turn.cache), "it is to be decided again"
    assert not turn.answers
    turn.cache.refresh()
    assert not turn.questions.answer(turn.cache)
    worker.join(10.0)
    assert (seen, turn.answers) == ([0, 1], [1])
    assert turn.site.node(fqdn).rack == "r1"


def test_an_answer_that_does_not_come_in_time_is_a_refusal_with_the_cause(
    turn: OneTurn, until: Callable[..., None]
) -> None:
    worker = turn.ask(lambda *_: MetalPlan(waits="its run is being ended"), 1.0)
    until(lambda: turn.questions.waiting)
    turn.questions.answer(turn.cache)
    worker.join(10.0)
    silent = turn.ask(lambda *_: MetalPlan(), 0.1)
    silent.join(10.0)
    assert turn.answers == [
        MachineRefused("its run is being ended"),
        MachineRefused("ZooKeeper did not answer within 0.1 s", LaunchParty.HOST),
    ]
    assert not turn.questions.waiting


def test_a_defect_ends_the_question_and_not_the_turn(turn: OneTurn, until: Callable[..., None]) -> None:
    def defect(*_: object) -> MetalPlan:
        raise ZeroDivisionError

    def refusal(*_: object) -> MetalPlan:
        raise Conflict("it may not be")

    for question in (defect, refusal):
        worker = turn.ask(question)
        until(lambda: turn.questions.waiting)
        assert not turn.questions.answer(turn.cache)
        worker.join(10.0)
    assert isinstance(turn.answers[0], ZeroDivisionError)
    assert turn.answers[1] == MachineRefused("it may not be")


def test_a_new_session_ends_all_questions_as_a_fault_of_this_host(turn: OneTurn, until: Callable[..., None]) -> None:
    worker = turn.ask(lambda *_: MetalPlan())
    until(lambda: turn.questions.waiting)
    turn.questions.drop("the session with ZooKeeper has ended")
    worker.join(10.0)
    assert turn.answers == [MachineRefused("the session with ZooKeeper has ended", LaunchParty.HOST)]
