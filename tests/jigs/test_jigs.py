"""The jigs that act on no machine, and how all are found."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from nodepool_ocb.catalogue import code
from nodepool_ocb.config import Settings
from nodepool_ocb.jigs import Detached, Failed, Order, Succeeded, installed
from nodepool_ocb.jigs.role_provided import RoleProvidedJig
from nodepool_ocb.jigs.test import TestJig
from nodepool_ocb.model.records import Json, Node, Role


def order(attributes: dict[str, Json] | None = None, timeout_seconds: float = 5.0, **parameters: Json) -> Order:
    return Order(
        node="n1.example.com",
        record=Node(),
        role="r",
        definition=Role(barclamp="b", jig="test", parameters=parameters),
        generation=1,
        epoch=1,
        run="1-a",
        attributes=attributes or {},
        timeout_seconds=timeout_seconds,
    )


def test_every_jig_is_found_by_its_name() -> None:
    jigs, _ = installed(Settings())
    assert {"noop", "test", "role-provided", "script"} <= set(jigs)
    assert all(jig.name == name for name, jig in jigs.items())
    assert [name for name, jig in jigs.items() if jig.instant] == ["noop"]
    assert jigs["noop"].run(order({"a": 1}), threading.Event()) == Succeeded({"a": 1}, written={})


@pytest.mark.parametrize(
    ("order_", "outcome"),
    [
        (order({"a": 1}), Succeeded({"a": 1}, written={})),
        (order(fail=True), Failed("asked to fail", exit_code=1)),
        (order(fail="no disk"), Failed("no disk", exit_code=1)),
        (order({"fail": False}, fail=True), Succeeded({"fail": False}, written={})),
        (order(hang=True, timeout_seconds=0.1), Failed("timed out after 0.1 s")),
        (order(delay=9, timeout_seconds=0.1), Failed("timed out after 0.1 s")),
        (order(delay="soon"), Failed("delay must be a number of seconds, not 'soon'")),
    ],
)
def test_jig_test_behaves_as_its_parameters_say(order_: Order, outcome: Any) -> None:
    assert TestJig(Settings()).run(order_, threading.Event()) == outcome


def test_jig_test_lets_go_when_it_is_stopped() -> None:
    stop = threading.Event()
    stop.set()
    assert TestJig(Settings()).run(order(hang=True), stop) == Detached()


class Mute(BaseException):
    def __str__(self) -> str:
        raise RuntimeError


class Provided(code.Role):
    def run(self, order: Order) -> Mapping[str, Json]:
        if order.attributes.get("raise"):
            raise ValueError("no such zone")
        if order.attributes.get("mute"):
            raise Mute
        time.sleep(order.attributes.get("sleep", 0))
        return {**order.attributes, "done": True}


@pytest.fixture
def provided(monkeypatch: pytest.MonkeyPatch) -> RoleProvidedJig:
    monkeypatch.setattr(code, "find", lambda name, barclamp: Provided(name) if barclamp else None)
    return RoleProvidedJig(Settings())


def test_a_role_does_its_own_work(provided: RoleProvidedJig) -> None:
    assert provided.run(order({"a": 1}), threading.Event()) == Succeeded({"a": 1, "done": True})
    assert provided.run(order({"sleep": 1}, timeout_seconds=0.1), threading.Event()) == Failed("timed out after 0.1 s")


def test_a_role_that_raises_leaves_its_traceback_in_the_log_of_the_run(
    provided: RoleProvidedJig, tmp_path: Path
) -> None:
    outcome = provided.run(replace(order({"raise": True}), log=tmp_path / "n1" / "r.log"), threading.Event())
    assert isinstance(outcome, Failed)
    assert (outcome.reason, outcome.exit_code, outcome.log) == ("ValueError: no such zone", None, tmp_path / "n1/r.log")
    for text in (outcome.tail, outcome.log.read_text() if outcome.log else ""):
        assert text.startswith("Traceback (most recent call last):\n")
        assert 'raise ValueError("no such zone")' in text
        assert text.endswith("\nValueError: no such zone\n")


def test_any_exception_of_a_role_fails_its_run_at_once(provided: RoleProvidedJig) -> None:
    outcome = provided.run(order({"mute": True}, timeout_seconds=60.0), threading.Event())
    assert isinstance(outcome, Failed)
    assert outcome.reason == "Mute: it cannot be shown as text"


def test_a_role_without_code_is_said() -> None:
    outcome = RoleProvidedJig(Settings()).run(order(), threading.Event())
    assert isinstance(outcome, Failed)
    assert "nodepool_ocb.roles" in outcome.reason
