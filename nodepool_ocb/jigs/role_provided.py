"""Jig role-provided: the work is a method of the role's own Python class (entry point ``nodepool_ocb.roles``).

It runs in the annealer, not on the machine, and may run twice: it must be idempotent. Python cannot end a thread from
outside. So a time-out or a stop gives an outcome, and the thread continues; its result is thrown away.
"""

from __future__ import annotations

import queue
import threading
import time
from typing import Final

from nodepool_ocb.catalogue import code
from nodepool_ocb.config import Settings
from nodepool_ocb.jigs.jig import Detached, Failed, Order, Outcome, Succeeded
from nodepool_ocb.jigs.raised import failed

LOOK_SECONDS: Final = 0.2  # between two looks at ``stop``


class RoleProvidedJig:
    name = "role-provided"
    instant = False
    attaches = False

    def __init__(self, settings: Settings) -> None: ...

    def configure(self, settings: Settings) -> None: ...

    def run(self, order: Order, stop: threading.Event) -> Outcome:
        provided = code.find(order.role, order.definition.barclamp)
        if provided is None:
            missing = f"install a package with the entry point {order.role} in nodepool_ocb.roles"
            return Failed(f"role {order.role} brings no code: {missing}")
        answers: queue.SimpleQueue[Outcome] = queue.SimpleQueue()
        work = threading.Thread(target=_work, args=(provided, order, answers), daemon=True, name=f"role {order.role}")
        work.start()
        deadline = time.monotonic() + order.timeout_seconds
        while not stop.is_set():
            left = deadline - time.monotonic()
            if left <= 0:
                return Failed(f"timed out after {order.timeout_seconds:g} s")
            try:
                return answers.get(timeout=min(LOOK_SECONDS, left))
            except queue.Empty:
                continue
        return Detached()

    def cancel(self, order: Order) -> None: ...

    def close(self) -> None: ...


def _work(provided: code.Role, order: Order, answers: queue.SimpleQueue[Outcome]) -> None:
    try:
        answers.put(Succeeded(dict(provided.run(order))))
    except BaseException as error:  # the code of a role: any exception is its failure
        answers.put(failed(error, order.log, order.log_bytes, mask=order.mask))
