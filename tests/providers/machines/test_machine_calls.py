"""Calls to a provider of machines end in time, and answers are sound."""

from __future__ import annotations

import errno
import socket
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from msgspec.structs import replace

from nodepool_ocb.errors import Unavailable
from nodepool_ocb.pool.configuration import LaunchProvider
from nodepool_ocb.pool.views import ProviderQuota
from nodepool_ocb.providers import calls
from nodepool_ocb.providers.calls import MachineCalls
from nodepool_ocb.providers.machines import LaunchParty, Machine, MachineOrder, MachineRefused, MachineStamp
from nodepool_ocb.telemetry.redaction import Mask
from tests.providers.machines.orders import made, new_order, new_stamp, refused


class Odd:
    """A driver that does as the test says."""

    def __init__(self, act: Callable[[], Any]) -> None:
        self.act = act
        self.asked = 0

    def _answer(self) -> Any:
        self.asked += 1
        return self.act()

    def create(self, _: MachineOrder) -> Any:
        return self._answer()

    def find(self, _: MachineStamp) -> Any:
        return self._answer()

    def look(self, _: str) -> Any:
        return self._answer()

    def delete(self, _: str, __: MachineStamp) -> Any:
        return self._answer()

    def list(self) -> Iterable[Any]:
        answer: Iterable[Any] = self._answer()
        return answer

    def quota(self) -> Any:
        return self._answer()

    def close(self) -> None:
        self._answer()


def odd(act: Callable[[], Any], seconds: float = 5.0, rate: float = 0.0) -> tuple[MachineCalls, Odd]:
    driver = Odd(act)
    provider = LaunchProvider(name="west", driver="odd", rate_seconds=rate)
    return MachineCalls(provider, driver, Mask(frozenset({"hunter22"})), seconds), driver


def raising(error: BaseException) -> Callable[[], Any]:
    def act() -> Any:
        raise error

    return act


def test_a_hanging_call_ends_at_its_deadline_and_others_go_on() -> None:
    free = threading.Event()
    hanging, _ = odd(lambda: free.wait(60), seconds=0.2)
    other, _ = odd(lambda: None)
    begun = time.monotonic()
    assert "no answer within 0.2 s" in refused(hanging.look("x"), LaunchParty.PROVIDER)
    assert other.look("x") is None
    assert time.monotonic() - begun < 5.0
    free.set()


def test_a_creation_ends_soon_after_it_is_stopped() -> None:
    free, order = threading.Event(), new_order()
    hanging, _ = odd(lambda: free.wait(60))
    threading.Timer(0.1, order.stop.set).start()
    begun = time.monotonic()
    assert "stopped" in refused(hanging.create(order), LaunchParty.HOST)
    assert time.monotonic() - begun < 10.0
    free.set()


def test_a_creation_is_given_up_although_the_launch_has_more_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "CREATE_SECONDS", 0.1)
    monkeypatch.setattr(calls, "GRACE_SECONDS", 0.1)
    free = threading.Event()
    hanging, _ = odd(lambda: free.wait(60))
    assert "no answer within 0.2 s" in refused(hanging.create(new_order(timeout_seconds=3600.0)), LaunchParty.PROVIDER)
    free.set()


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        OSError(errno.EMFILE, "Too many open files"),
        OSError(errno.ENOMEM, "Cannot allocate memory"),
        socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution"),
        ValueError("wrapped", OSError(errno.ENFILE, "Too many open files in system")),
    ],
)
def test_a_fault_of_this_host_is_no_fault_of_the_provider(error: BaseException) -> None:
    provider, driver = odd(raising(error))
    for _ in range(calls.FAILURES + 3):
        refused(provider.look("x"), LaunchParty.HOST)
    assert driver.asked == calls.FAILURES + 3
    assert provider.fault is None


@pytest.mark.parametrize(
    "error", [ValueError("no"), SystemExit("bye"), OSError(errno.ECONNREFUSED, "refused"), TimeoutError()]
)
def test_an_exception_of_a_driver_is_a_fault_of_the_provider(error: BaseException) -> None:
    provider, _ = odd(raising(error))
    assert f"the driver raised {type(error).__name__}" in refused(provider.look("x"), LaunchParty.PROVIDER)


def test_after_failures_in_a_row_the_provider_is_asked_later(
    monkeypatch: pytest.MonkeyPatch, until: Callable[..., None]
) -> None:
    monkeypatch.setattr(calls, "FIRST_SECONDS", 0.3)
    provider, driver = odd(raising(ValueError("no")))
    for _ in range(calls.FAILURES):
        refused(provider.look("x"))
    asked = driver.asked
    assert "failed 3 times in a row" in refused(provider.look("x"), LaunchParty.PROVIDER)
    assert driver.asked == asked
    assert provider.fault is not None
    driver.act = lambda: None
    until(lambda: provider.look("x") is None)
    assert provider.fault is None


def test_a_refusal_of_one_machine_does_not_open_the_circuit() -> None:
    provider, _ = odd(lambda: MachineRefused("this one"))
    for _ in range(calls.FAILURES + 2):
        assert refused(provider.look("x"), LaunchParty.MACHINE) == "this one"
    assert provider.fault is None


def test_calls_that_hang_are_bounded(monkeypatch: pytest.MonkeyPatch, until: Callable[..., None]) -> None:
    monkeypatch.setattr(calls, "ABANDONED", 2)
    monkeypatch.setattr(calls, "FAILURES", 1000)
    free = threading.Event()
    provider, driver = odd(lambda: free.wait(60) and None, seconds=0.05)
    for _ in range(2):
        assert "no answer" in refused(provider.look("x"))
    assert "2 calls have not ended" in refused(provider.look("x"))
    assert driver.asked == 2
    free.set()
    until(lambda: provider.look("x") is None)


def test_calls_begin_at_the_rate_of_the_provider() -> None:
    provider, _ = odd(lambda: None, rate=0.1)
    begun = time.monotonic()
    for _ in range(4):
        provider.look("x")
    assert time.monotonic() - begun >= 0.3


def test_credentials_are_hidden_in_reasons() -> None:
    provider, _ = odd(raising(ValueError("login admin:hunter22 failed")))
    assert "hunter22" not in refused(provider.look("x"))


GOOD = Machine(external_id="i-1", name="n", stamp=new_stamp(), address="10.0.0.1", port=22)


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        (7, "int, which is no Machine"),
        (replace(GOOD, external_id=""), "`external_id` is empty"),
        (replace(GOOD, external_id=7), "a machine that is none"),
        (replace(GOOD, external_id="x" * 5000), "has 5000 characters"),
        (replace(GOOD, name="a\x1b[2J"), "control characters"),
        (replace(GOOD, state="melting"), "`state` is melting"),
        (replace(GOOD, address="-oProxyCommand=x"), "neither an address nor a name"),
        (replace(GOOD, public_ipv4="a b"), "is no address"),
        (replace(GOOD, port=0), "`port` is 0"),
        (replace(GOOD, resources={"cores": float("nan")}), "cores: nan"),
        (replace(GOOD, resources={"cores": -1.0}), "cores: -1"),
        (replace(GOOD, resources={f"r{n}": 1.0 for n in range(5000)}), "`resources` has 5000 entries"),
        (replace(GOOD, host_keys=("ssh-rsa AAAA\nevil ssh-rsa BBBB",)), "which is not TYPE BASE64"),
        (replace(GOOD, host_keys=tuple(f"ssh-rsa AAAA{n:04}" for n in range(99))), "99 keys"),
        (replace(GOOD, properties={"a": "x" * 100_000}), "`properties` has"),
        (replace(GOOD, properties={"a": object()}), "a machine that is none"),
        (replace(GOOD, since=float("inf")), "`since` is inf"),
    ],
)
def test_nonsense_of_a_driver_is_refused(answer: Any, fault: str) -> None:
    provider, _ = odd(lambda: answer)
    assert fault in refused(provider.look("x"))


def test_a_machine_with_another_stamp_is_not_taken_for_the_ordered_one() -> None:
    provider, _ = odd(lambda: GOOD)
    assert "another stamp" in refused(provider.create(new_order()))
    assert "another stamp" in refused(provider.find(new_stamp()))
    assert GOOD.stamp is not None
    assert made(provider.create(new_order(stamp=GOOD.stamp))) == GOOD


def test_the_words_of_a_fault_are_one_line_of_bounded_length() -> None:
    provider, _ = odd(lambda: replace(GOOD, fault="no\nroom \x1b[31m" + "x" * 5000))
    fault = made(provider.look("x")).fault
    assert fault is not None
    assert fault.startswith("no room \\x1b[31m")
    assert len(fault) <= 1000


@pytest.mark.parametrize(
    "answer",
    [
        ProviderQuota(limits={"instances": float("nan")}),
        ProviderQuota(foreign={"ram": -1}),
        ProviderQuota(limits={f"r{n}": 1.0 for n in range(5000)}),
        {"instances": 1},
    ],
)
def test_a_quota_that_is_none_is_refused(answer: Any) -> None:
    provider, _ = odd(lambda: answer)
    refused(provider.quota())


def test_of_a_list_only_sound_machines_with_a_stamp_are_given() -> None:
    provider, _ = odd(lambda: [GOOD, replace(GOOD, stamp=None), 7, replace(GOOD, port=-1)])
    assert provider.list() == (GOOD,)


def test_a_list_without_an_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "LISTED", 100)
    provider, _ = odd(lambda: iter(lambda: GOOD, None))
    with pytest.raises(Unavailable, match="more than 100 machines"):
        provider.list()


def test_a_driver_that_makes_machines_lends_none() -> None:
    provider, driver = odd(raising(ValueError()))
    assert not provider.lends
    assert provider.check("x", ()) is None
    assert driver.asked == 0


def test_a_provider_that_raises_or_hangs_is_closed() -> None:
    odd(raising(ValueError()))[0].close()


def test_replaced_calls_are_closed_after_the_last_call_under_way_and_after_each_later_one(
    until: Callable[..., None],
) -> None:
    begun, go_on, closed = threading.Event(), threading.Event(), []

    def act() -> None:
        begun.set()
        go_on.wait(10.0)

    provider, driver = odd(act)
    driver.close = lambda: closed.append(1)  # type: ignore[method-assign]
    asking = threading.Thread(target=provider.find, args=(new_stamp(),))
    asking.start()
    assert begun.wait(10.0)
    provider.retire()
    assert not closed
    go_on.set()
    asking.join(10.0)
    until(lambda: len(closed) == 1)
    provider.find(new_stamp())
    until(lambda: len(closed) == 2)


def test_replaced_calls_without_a_call_under_way_are_closed_at_once() -> None:
    closed = threading.Event()
    provider, driver = odd(lambda: None)
    driver.close = closed.set  # type: ignore[method-assign]
    provider.retire()
    assert closed.wait(10.0)


def test_a_driver_that_cannot_renew_slots_gets_an_order_for_each() -> None:
    order = new_order()
    opened, driver = odd(lambda: Machine(external_id="m1", name="m1", stamp=order.stamp))
    assert [made(each).external_id for each in opened.renew([order, order])] == ["m1", "m1"]
    assert driver.asked == 2


def test_a_driver_that_renews_other_slots_than_were_ordered_is_refused() -> None:
    opened, driver = odd(lambda: None)
    driver.renew = lambda orders: orders[1:]  # type: ignore[attr-defined]
    for each in opened.renew([new_order(), new_order()]):
        assert refused(each, LaunchParty.MACHINE) == "the driver gave 1 answers to 2 orders"
