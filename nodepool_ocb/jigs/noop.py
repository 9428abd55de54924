"""Jig noop: succeeds immediately. For roles that wait for others, or that work through their hooks."""

from __future__ import annotations

import threading

from nodepool_ocb.config import Settings
from nodepool_ocb.jigs.jig import Order, Outcome, Succeeded


class NoopJig:
    name = "noop"
    instant = True
    attaches = True

    def __init__(self, settings: Settings) -> None: ...

    def configure(self, settings: Settings) -> None: ...

    def run(self, order: Order, stop: threading.Event) -> Outcome:  # noqa: ARG002
        return Succeeded(order.attributes, written={})

    def cancel(self, order: Order) -> None: ...

    def close(self) -> None: ...
