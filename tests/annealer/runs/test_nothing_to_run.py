"""A run whose jig has nothing to run ends at once, and is told from one that was given something."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from nodepool_ocb.config import AnnealerSettings, Settings
from nodepool_ocb.engine import inputs
from nodepool_ocb.engine.run import RunEvent
from nodepool_ocb.jigs.noop import NoopJig
from nodepool_ocb.model.records import Role
from nodepool_ocb.secrecy.opening import Secrets
from nodepool_ocb_annealer.runs.attempts import Attempt, SlotAnswer
from nodepool_ocb_annealer.runs.slots import SlotPool


def test_it_ends_at_once_and_was_given_nothing() -> None:
    context: Any = SimpleNamespace(
        session=SimpleNamespace(now=lambda: 5.0),
        settings=AnnealerSettings(),
        jigs={"noop": NoopJig(Settings())},
        secrets=Secrets(),
    )
    working = SlotPool(context)
    attempt: Any = SimpleNamespace(checking=False, role=Role(barclamp="b", jig="noop"), jig="noop")
    answers: list[SlotAnswer] = []
    working.start(cast("Attempt", attempt), answers.append)
    [answer] = answers
    assert (answer.event, answer.ended) == (RunEvent.ENDED, 5.0)
    assert (answer.results.number, answer.results.instant) == (inputs.of_instant("noop"), True)
    assert answer.results.changes == []
