"""After the end of its session a launcher begins nothing at a provider, and tells the calls under way to give up."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, Final

import pytest

from nodepool_ocb.config import LauncherSettings, Settings, ZooKeeperSettings
from nodepool_ocb.daemon.registration import of_this_process
from nodepool_ocb.model import paths
from nodepool_ocb.pool.configuration import LaunchProvider, PoolConfiguration, PoolLabel, PoolLabelPolicy, ProviderPool
from nodepool_ocb.providers.calls import MachineCalls
from nodepool_ocb.providers.machines import MachineOrder, MachineRefused
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.testing.proxy import Proxy
from nodepool_ocb_launcher.context import LauncherContext
from nodepool_ocb_launcher.launcher import Launcher
from tests.launcher.launcher_fleet import LauncherFleet

SECONDS: Final = 30.0


class SlowProvider:
    """A provider of machines whose creations end when they are told to give up."""

    def __init__(self) -> None:
        self.orders: list[MachineOrder] = []
        self.ended = threading.Event()

    def create(self, order: MachineOrder) -> MachineRefused:
        self.orders.append(order)
        while not order.stop.wait(0.05) and not self.ended.is_set():
            pass
        return MachineRefused("stopped")

    def find(self, _stamp: object) -> None:
        return None

    def list(self) -> tuple[Any, ...]:
        return ()

    def quota(self) -> MachineRefused:
        return MachineRefused("unknown")

    def close(self) -> None:
        self.ended.set()


class CutLauncher:
    """A launcher in this process, behind a proxy; its turns run when the test says so."""

    def __init__(self, fleet: LauncherFleet, proxy: Proxy) -> None:
        self.fleet, self.proxy, self.provider = fleet, proxy, SlowProvider()
        pool = ProviderPool(name="main", provider="north", labels={"small": PoolLabel(name="small")})
        north = LaunchProvider(name="north", driver="fake", pools={"main": pool})
        file = PoolConfiguration(labels={"small": PoolLabelPolicy(name="small")}, providers={"north": north})
        self.calls = MachineCalls(north, self.provider)  # type: ignore[arg-type]
        self.session = Session(
            ZooKeeperSettings(hosts=proxy.hosts + fleet.chroot, session_timeout_seconds=2.0),
            on_lost=lambda: self.launcher.lost(),
        )
        settings = Settings(launcher=LauncherSettings(drain_seconds=0.5), admin_domain="example.com")
        context = LauncherContext(self.session, settings, file, {"north": self.calls}, lambda: None)
        self.launcher = Launcher(context, of_this_process())

    def turns_until(self, happened: threading.Event) -> str:
        """Turns until a call begins; gives the path of the lock of the node."""

        def turn() -> bool:
            self.launcher.turns.turn()
            return happened.wait(0.05)

        self.fleet.until(turn, "the call begins")
        (node,) = self.fleet.nodes()
        return paths.pool_node_lock(node)

    def end_session(self, lock: str) -> None:
        """Cut the connection until the lock is gone."""
        assert self.fleet.session.children(lock)
        self.proxy.cut()
        self.fleet.until(lambda: not self.fleet.session.children(lock), "the session is over")


@contextmanager
def cut_launcher(fleet: LauncherFleet) -> Iterator[CutLauncher]:
    with Proxy(*fleet.server.ports) as proxy:
        made = CutLauncher(fleet, proxy)
        made.session.start()
        try:
            yield made
        finally:
            made.launcher.close()
            made.session.close()


def test_no_machine_is_ordered_after_the_session_ended_during_the_wait_for_the_rate(
    launchers: LauncherFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    with cut_launcher(launchers) as cut:
        waiting, over = threading.Event(), threading.Event()

        def wait() -> None:
            waiting.set()
            assert over.wait(SECONDS)

        def create(*asked: Any) -> Any:
            monkeypatch.setattr(cut.calls, "_pace", SimpleNamespace(wait=wait))
            return ordering(*asked)

        launchers.request("small")
        ordering = cut.calls.create
        monkeypatch.setattr(cut.calls, "create", create)
        lock = cut.turns_until(waiting)
        cut.end_session(lock)
        over.set()
        launchers.until(lambda: not cut.launcher.works.busy, "the work has ended")
        assert cut.provider.orders == []


def test_a_call_under_way_is_told_to_give_up_as_soon_as_the_session_is_known_to_be_lost(
    launchers: LauncherFleet,
) -> None:
    with cut_launcher(launchers) as cut:
        ordered = threading.Event()
        launchers.request("small")
        begin = cut.provider.create
        cut.provider.create = lambda order: (ordered.set(), begin(order))[1]  # type: ignore[method-assign]
        lock = cut.turns_until(ordered)
        cut.end_session(lock)
        cut.proxy.heal()
        assert cut.provider.orders[0].stop.wait(SECONDS), "no turn follows: the loss alone must do it"
