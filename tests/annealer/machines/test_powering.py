"""Requests to switch machines, carried out by real annealers at real BMCs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from nodepool_ocb.engine import powering
from nodepool_ocb.model import paths
from nodepool_ocb.model.power import MachinePower, PowerAction, Powered, PowerRequest, PowerResult, PowerStep
from nodepool_ocb.model.records import Create, Set
from nodepool_ocb.store.world.load import load_world
from nodepool_ocb.testing import bmcs
from nodepool_ocb.testing.bmcs import PASSWORD, USER, IpmiBmc
from nodepool_ocb.testing.zookeeper.server import Server
from tests.journeys.fleet import Fleet

pytestmark = pytest.mark.skipif(bmcs.lacking() is not None, reason=str(bmcs.lacking()))


@pytest.fixture
def fleet(zookeeper: Server, chroot: str, tmp_path: Path) -> Iterator[Fleet]:
    with Fleet(zookeeper, chroot, tmp_path, machines=1) as made:
        yield made


@pytest.fixture
def bmc(tmp_path: Path) -> Iterator[IpmiBmc]:
    with IpmiBmc(tmp_path / "bmc") as made:
        yield made


class Switch:
    """The power record of the machine of a fleet."""

    def __init__(self, fleet: Fleet, bmc: IpmiBmc, **own: Any) -> None:
        self.fleet, (self.node,) = fleet, fleet.nodes
        password = fleet.folder / "password"
        password.write_text(PASSWORD)
        given = {"address": bmc.address, "username": USER, "password": {"$secret": f"file:{password}"}, **own}
        fleet.session.commit([Create(paths.power(self.node), MachinePower(driver="ipmi", **given))])
        self._asked = 0

    def ask(self, action: PowerAction, **own: Any) -> str:
        """Write a request; gives its id."""
        self._asked += 1
        id, now = f"{self._asked:016x}", self.fleet.session.now()
        made = PowerRequest(id=id, action=action, by="ann", since=now, until=now + 600.0, **own)
        stored = powering.record_of(load_world(self.fleet.session), self.node)
        after = replace(powering.asked(replace(stored.record, request=None), made), result=stored.record.result)
        self.fleet.session.commit([Set(paths.power(self.node), after, stored.version)])
        return id

    def write(self, **fields: Any) -> None:
        """Change fields of the record."""
        stored = powering.record_of(load_world(self.fleet.session), self.node)
        self.fleet.session.commit([Set(paths.power(self.node), replace(stored.record, **fields), stored.version)])

    @property
    def record(self) -> MachinePower:
        return powering.record_of(load_world(self.fleet.session), self.node).record

    def end(self, id: str) -> PowerResult:
        """Wait for the end of a request."""

        def ended() -> bool:
            return self.record.request is None and self.record.result is not None and self.record.result.id == id

        self.fleet.until(ended, "the request ends")
        result = self.record.result
        assert result is not None
        return result


def begin(fleet: Fleet) -> None:
    """An annealer that may read the file of the password, and waits one second for an effect."""
    annealer = fleet.annealer(sweep_seconds=1.0, power_effect_seconds=1.0)
    annealer.configure(secrets={"directory": str(fleet.folder)})
    annealer.begin()


def test_a_machine_is_switched_on_from_the_network_and_off_again(fleet: Fleet, bmc: IpmiBmc) -> None:
    switch = Switch(fleet, bmc)
    begin(fleet)
    result = switch.end(switch.ask(PowerAction.ON, network=True))
    assert (result.done, result.reason) == (True, None)
    assert (bmc.value("power"), bmc.value("boot"), switch.record.powered) == ("1", "pxe", Powered.ON)
    assert switch.end(switch.ask(PowerAction.OFF)).done
    assert (bmc.value("power"), switch.record.powered) == ("0", Powered.OFF)


def test_a_command_without_an_effect_is_distinguished_from_a_wrong_password(fleet: Fleet, bmc: IpmiBmc) -> None:
    switch = Switch(fleet, bmc)
    begin(fleet)
    bmc.ignore()
    result = switch.end(switch.ask(PowerAction.ON))
    assert not result.done
    assert "power on was accepted and had no effect" in (result.reason or "")
    (fleet.folder / "password").write_text("another-password")
    result = switch.end(switch.ask(PowerAction.ON))
    assert not result.done
    assert "refuses user admin" in (result.reason or "")
    assert "another-password" not in str(switch.record)


def test_a_cycle_whose_annealer_died_goes_on_with_the_half_that_is_left(fleet: Fleet, bmc: IpmiBmc) -> None:
    """The former annealer had recorded that the machine was off; it is not switched off again."""
    switch = Switch(fleet, bmc)
    (bmc.folder / "state" / "power").write_text("0\n")
    id = switch.ask(PowerAction.CYCLE, annealer="gone", step=PowerStep.ON)
    begin(fleet)
    assert switch.end(id).done
    assert bmc.commands("power") == ["1"]


@pytest.mark.long
def test_a_bmc_gets_a_new_password_also_if_the_annealer_died_after_it_was_set(fleet: Fleet, tmp_path: Path) -> None:
    first, fresh = "First-1.password", "Fresh-2.password"
    (fleet.folder / "fresh").write_text(fresh)
    secret = {"$secret": f"file:{fleet.folder / 'fresh'}"}
    with IpmiBmc(tmp_path / "own", first) as bmc:
        switch = Switch(fleet, bmc, fresh=secret)
        (fleet.folder / "password").write_text(first)
        begin(fleet)
        assert switch.end(switch.ask(PowerAction.ROTATE)).done
        assert (switch.record.password, switch.record.fresh) == (secret, None)
        assert switch.end(switch.ask(PowerAction.LOOK)).done, "by the new password"
        former = {"$secret": f"file:{fleet.folder / 'password'}"}
        switch.write(password=former, fresh=secret)
        assert switch.end(switch.ask(PowerAction.ROTATE, annealer="gone", step=PowerStep.ROTATE)).done
        assert (switch.record.password, switch.record.fresh) == (secret, None)
        switch.write(password=former, fresh=secret)
        assert switch.end(switch.ask(PowerAction.ON)).done, "any command tries both"
        assert (switch.record.password, switch.record.fresh) == (secret, None)
        (fleet.folder / "fresh").write_text("Wrong-3.password")
        switch.write(password=former, fresh=secret)
        result = switch.end(switch.ask(PowerAction.ROTATE))
        assert "refuses user admin" in (result.reason or "")
        assert (switch.record.password, switch.record.fresh) == (former, secret), "a failure forgets neither"


def test_a_machine_whose_power_off_failed_after_its_use_is_switched_off_when_its_bmc_obeys(
    fleet: Fleet, bmc: IpmiBmc
) -> None:
    """Its pool asked for that before the annealer began; the request failed."""
    switch = Switch(fleet, bmc)
    (bmc.folder / "state" / "power").write_text("1\n")
    now = fleet.session.now()
    failed = PowerResult(id="f" * 16, action=PowerAction.OFF, done=False, reason="bmc is away", at=now - 3000.0)
    switch.write(off_since=now - 3100.0, result=failed)
    begin(fleet)
    fleet.until(lambda: switch.record.off_since is None, "it is off")
    assert (bmc.value("power"), bmc.commands("power"), switch.record.powered) == ("0", ["0"], Powered.OFF)
    result = switch.record.result
    assert result is not None
    assert (result.done, result.action) == (True, PowerAction.OFF)
