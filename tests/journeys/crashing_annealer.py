"""An annealer that dies while it drives a rollout: python dying.py ...

With MOMENT=n in the environment it kills itself (SIGKILL), or with FREEZE=1 stops itself (SIGSTOP), at the n-th of its
driver's moments, counted from 1: the lock is taken, the rollout is about to be read, a transaction is about to be sent, is
sent, is answered. Each moment is also written to the file MOMENTS, as far as it gets.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

from nodepool_ocb.store import rollouts
from nodepool_ocb.store.locks import Lock, Locks
from nodepool_ocb_annealer.driving.drivers import Drivers
from nodepool_ocb_annealer.main import main

_moments = 0


def moment(what: str) -> None:
    """One more; perhaps the last."""
    global _moments
    _moments += 1
    if "MOMENTS" in os.environ:
        with Path(os.environ["MOMENTS"]).open("a") as file:
            file.write(f"{_moments} {what}\n")
    if _moments == int(os.environ.get("MOMENT", "0")):
        os.kill(os.getpid(), signal.SIGSTOP if "FREEZE" in os.environ else signal.SIGKILL)


def watch() -> None:
    """Count the moments of whatever is driven from now on."""
    take, read, write, written = Locks.take, rollouts.read, Drivers._write, Drivers._written

    def taking(locks: Locks, *arguments: Any) -> Lock | None:
        lock = take(locks, *arguments)
        if lock is not None:
            moment("the lock is taken")
        return lock

    def reading(*arguments: Any) -> Any:
        moment("it is about to be read")
        return read(*arguments)

    def writing(rolling: Drivers[Any], *arguments: Any) -> None:
        moment("a transaction is about to be sent")
        write(rolling, *arguments)
        moment("it was sent, and maybe not written yet")

    def answered(rolling: Drivers[Any], *arguments: Any) -> None:
        moment("a transaction was answered")
        written(rolling, *arguments)

    Locks.take, rollouts.read = taking, reading  # type: ignore[method-assign, assignment]
    Drivers._write, Drivers._written = writing, answered  # type: ignore[method-assign, assignment]


if __name__ == "__main__":
    watch()
    main()
