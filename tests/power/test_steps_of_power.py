"""The steps of requests of power, with a BMC that counts its orders."""

from __future__ import annotations

import threading

import pytest

from nodepool_ocb.model.power import Powered, PowerStep
from nodepool_ocb.power.commands import carried_out


class CountingBmc:
    """A machine whose BMC obeys at once."""

    def __init__(self, state: Powered) -> None:
        self.state, self.orders = state, list[str]()

    def status(self) -> Powered:
        return self.state

    def network_once(self) -> None:
        self.orders.append("network")

    def on(self) -> None:
        self.orders.append("on")
        self.state = Powered.ON

    def off(self) -> None:
        self.orders.append("off")
        self.state = Powered.OFF

    def set_password(self, password: str) -> None:
        raise NotImplementedError

    def close(self) -> None:
        pass


@pytest.mark.parametrize(("state", "orders"), [(Powered.OFF, ["network", "on"]), (Powered.ON, [])])
def test_a_step_that_is_repeated_orders_no_second_boot_from_the_network(state: Powered, orders: list[str]) -> None:
    bmc = CountingBmc(state)
    assert carried_out(bmc, PowerStep.ON, True, lambda: True, threading.Event(), 5.0) is Powered.ON
    assert bmc.orders == orders
