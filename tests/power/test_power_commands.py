"""One step of a request, at a power that a test makes: the commands that are sent, and the end."""

from __future__ import annotations

import threading

import pytest

from nodepool_ocb.model.power import Powered, PowerStep
from nodepool_ocb.power import FaultKind, PowerFault
from nodepool_ocb.power.commands import carried_out


class Switch:
    """A machine; ``obeys``: commands have an effect. ``silent_after``: so many looks are answered."""

    def __init__(self, state: Powered, *, obeys: bool = True, silent_after: int = 10**9) -> None:
        self.state, self.obeys, self.silent_after = state, obeys, silent_after
        self.sent: list[str] = []

    def status(self) -> Powered:
        self.silent_after -= 1
        if self.silent_after < 0:
            raise PowerFault(FaultKind.UNREACHABLE, "bmc does not answer")
        return self.state

    def on(self) -> None:
        self._do("on", Powered.ON)

    def off(self) -> None:
        self._do("off", Powered.OFF)

    def network_once(self) -> None:
        self.sent.append("network")

    def set_password(self, password: str) -> None: ...

    def close(self) -> None: ...

    def _do(self, word: str, state: Powered) -> None:
        self.sent.append(word)
        self.state = state if self.obeys else self.state


def step(power: Switch, step: PowerStep, *, network: bool = False, ours: bool = True, stopped: bool = False) -> Powered:
    stop = threading.Event()
    if stopped:
        stop.set()
    return carried_out(power, step, network, lambda: ours, stop, 0.1)


def test_a_machine_is_switched_once_and_one_that_is_there_already_gets_no_command() -> None:
    power = Switch(Powered.OFF)
    assert step(power, PowerStep.ON, network=True) is Powered.ON
    assert power.sent == ["network", "on"]
    assert step(power, PowerStep.ON) is Powered.ON
    assert step(power, PowerStep.LOOK) is Powered.ON
    assert power.sent == ["network", "on"]
    assert step(power, PowerStep.OFF, network=True) is Powered.OFF
    assert power.sent == ["network", "on", "off"], "a machine that is switched off has no boot"


def test_a_machine_that_is_on_gets_no_order_for_a_further_network_boot() -> None:
    power = Switch(Powered.ON)
    assert step(power, PowerStep.ON, network=True) is Powered.ON
    assert power.sent == []


@pytest.mark.parametrize("gone", [{"ours": False}, {"stopped": True}])
def test_a_request_that_is_another_ones_now_switches_nothing(gone: dict[str, bool]) -> None:
    power = Switch(Powered.OFF)
    assert step(power, PowerStep.ON, **gone) is Powered.OFF
    assert power.sent == []
    assert step(power, PowerStep.ON, network=True, ours=False) is Powered.OFF
    assert power.sent == []


def test_a_command_without_effect_and_a_bmc_that_fell_silent_are_two_faults() -> None:
    with pytest.raises(PowerFault) as raised:
        step(Switch(Powered.OFF, obeys=False), PowerStep.ON)
    assert raised.value.fault is FaultKind.NO_EFFECT
    with pytest.raises(PowerFault) as raised:
        step(Switch(Powered.OFF, obeys=False, silent_after=1), PowerStep.ON)
    assert raised.value.fault is FaultKind.UNREACHABLE


def test_one_look_that_fails_ends_no_step() -> None:
    power = Switch(Powered.OFF)
    looks = iter([Powered.OFF, None, Powered.ON])

    def status() -> Powered:
        found = next(looks)
        if found is None:
            raise PowerFault(FaultKind.UNREACHABLE, "bmc does not answer")
        return found

    power.status = status  # type: ignore[method-assign]
    assert step(power, PowerStep.ON) is Powered.ON
