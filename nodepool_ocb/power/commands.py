"""One step of a request: the command, and the wait for its effect. A BMC may accept a command that has none."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

from nodepool_ocb.model.power import Powered, PowerStep
from nodepool_ocb.power.driver import FaultKind, Power, PowerFault

LOOK_SECONDS: Final = 1.0  # between two looks


def carried_out(
    power: Power,
    step: PowerStep,
    network: bool,
    ours: Callable[[], bool],
    stop: threading.Event,
    seconds: float,
) -> Powered:
    """Do a step, and wait for its effect; gives the state. Raises PowerFault, with ``NO_EFFECT`` where it does not come.

    ``seconds``: the longest wait. ``network``: a machine that is switched on boots from the network. ``ours``: whether the
    request is still this caller's, asked before a command is sent; if not, or if ``stop`` is set, it ends with the state so far.
    """
    state = power.status()
    if step is PowerStep.LOOK:
        return state
    wanted = Powered.ON if step is PowerStep.ON else Powered.OFF
    if state is wanted or stop.is_set() or not ours():
        return state
    if wanted is Powered.ON and network:  # not where it is on: a repetition would order one more such boot
        power.network_once()
    power.on() if wanted is Powered.ON else power.off()
    return _awaited(power, wanted, stop, seconds)


def _awaited(power: Power, wanted: Powered, stop: threading.Event, seconds: float) -> Powered:
    """Look again and again; a look that fails is no end before the time is up."""
    deadline = time.monotonic() + seconds
    while True:
        trouble: PowerFault | None = None
        state = Powered.UNKNOWN
        try:
            state = power.status()
        except PowerFault as fault:
            trouble = fault
        if state is wanted or stop.is_set():
            return state
        if time.monotonic() >= deadline:
            if trouble is not None:
                raise trouble
            raise PowerFault(
                FaultKind.NO_EFFECT,
                f"power {wanted} was accepted and had no effect: after {seconds:.0f} s its state is {state}; look at the"
                " machine's BMC and its power supply",
            )
        stop.wait(min(LOOK_SECONDS, seconds / 4))
