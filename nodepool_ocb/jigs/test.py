"""Jig test: acts on nothing and behaves as its parameters say, to try out a graph before it meets machines.

The parameters are those of the role; attributes of the same names at the top override them.

- ``delay``: seconds.
- ``fail``: true, or a text that is the reason.
- ``hang``: true: until the time-out.
- ``drift``: true: a check finds some.
"""

from __future__ import annotations

import threading

from nodepool_ocb.config import Settings
from nodepool_ocb.jigs.jig import Detached, Failed, Order, Outcome, Succeeded
from nodepool_ocb.model.records import Json


class TestJig:
    __test__ = False  # for pytest: no test case, despite its name
    name = "test"
    instant = False
    attaches = False
    checks = True

    def __init__(self, settings: Settings) -> None: ...

    def configure(self, settings: Settings) -> None: ...

    def run(self, order: Order, stop: threading.Event) -> Outcome:
        delay = order.timeout_seconds if _setting(order, "hang") else _setting(order, "delay") or 0
        if isinstance(delay, bool) or not isinstance(delay, int | float):
            return Failed(f"delay must be a number of seconds, not {delay!r}")
        if stop.wait(min(delay, order.timeout_seconds)):
            return Detached()
        if delay >= order.timeout_seconds:
            return Failed(f"timed out after {order.timeout_seconds:g} s")
        if fail := _setting(order, "fail"):
            return Failed(fail if isinstance(fail, str) else "asked to fail", exit_code=1)
        if order.check and _setting(order, "drift"):
            return Failed("exit code 2", exit_code=2, tail="asked to find drift")
        return Succeeded(order.attributes, written={})

    def cancel(self, order: Order) -> None: ...

    def close(self) -> None: ...


def _setting(order: Order, name: str) -> Json:
    return order.attributes.get(name, order.definition.parameters.get(name))
