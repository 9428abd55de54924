"""What a jig of another package leaves in the log of a run when it raises."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from nodepool_ocb.jigs.jig import Order
from nodepool_ocb.model.records import Node, Role
from nodepool_ocb_annealer.runs import foreign

LOG_BYTES = 4000


class Raising:
    """A jig whose service never answers."""

    def run(self, _: Order, __: threading.Event) -> Any:
        raise RuntimeError("the API is away")


def test_a_run_that_raises_at_every_attempt_keeps_its_log_within_its_size(tmp_path: Path) -> None:
    jig: Any = Raising()
    order = Order(
        node="n1.x.y",
        record=Node(),
        role="r",
        definition=Role(barclamp="b", jig="raising"),
        generation=1,
        epoch=1,
        previous_epoch=0,
        run="0000000001",
        attributes={},
        timeout_seconds=60.0,
        log=tmp_path / "run.log",
        log_bytes=LOG_BYTES,
    )
    for _ in range(40):
        assert isinstance(foreign.asked("raising", jig, order, threading.Event()), foreign.Odd)
    text = (tmp_path / "run.log").read_bytes()
    assert b"the API is away" in text
    assert len(text) == LOG_BYTES
