"""New passwords of BMCs: set at a real one, also after a crash and a lost answer, so that one of two always logs in."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nodepool_ocb import power
from nodepool_ocb.model.power import Powered
from nodepool_ocb.power import Endpoint, FaultKind, Power, PowerFault
from nodepool_ocb.power.rotating import either, rotated
from nodepool_ocb.testing import bmcs
from nodepool_ocb.testing.bmcs import USER, IpmiBmc, RedfishBmc
from nodepool_ocb.testing.ports import free_port
from nodepool_ocb.testing.proxy import Proxy

FIRST, FRESH, OTHER = "First-1.password", "Fresh-2.password", "Other-3.password"
pytestmark = pytest.mark.skipif(bmcs.lacking() is not None, reason=str(bmcs.lacking()))


def opener(driver: str, address: str) -> Callable[[str], Power]:
    return lambda word: power.opened(Endpoint(driver=driver, address=address, username=USER, password=word))


def logs_in(opened: Callable[[str], Power], word: str) -> bool:
    refused = False
    with contextlib.closing(opened(word)) as found:
        try:
            found.status()
        except PowerFault as fault:
            refused = fault.fault is FaultKind.LOGIN
            if not refused:
                raise
    return not refused


@pytest.fixture(scope="module")
def redfish(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedfishBmc]:
    with RedfishBmc(tmp_path_factory.mktemp("redfish")) as bmc:
        yield bmc


@pytest.fixture
def ipmi(tmp_path: Path) -> Iterator[IpmiBmc]:
    with IpmiBmc(tmp_path / "ipmi", FIRST) as bmc:
        yield bmc


@pytest.fixture(params=["redfish", "ipmi"])
def opened(request: pytest.FixtureRequest) -> Callable[[str], Power]:
    bmc = request.getfixturevalue(request.param)
    if isinstance(bmc, RedfishBmc):
        bmc.set_password(FIRST)
        return opener("redfish", bmc.url)
    return opener("ipmi", bmc.address)


def ours() -> bool:
    return True


def test_a_bmc_gets_a_new_password_and_refuses_the_former_one(opened: Callable[[str], Power]) -> None:
    assert rotated(opened, FIRST, FRESH, ours) in (Powered.ON, Powered.OFF)
    assert logs_in(opened, FRESH)
    assert not logs_in(opened, FIRST)
    assert rotated(opened, FIRST, FRESH, ours) is not None, (
        "as after a crash: the BMC has it, the record does not say so"
    )
    found, fresh = either(opened, FIRST, FRESH)
    with contextlib.closing(found):
        assert (found.status() in (Powered.ON, Powered.OFF), fresh) == (True, True)
    found, fresh = either(opened, FRESH, OTHER)
    found.close()
    assert not fresh, "a password that no BMC was given yet"
    with pytest.raises(PowerFault) as raised:
        rotated(opened, FIRST, OTHER, ours)
    assert raised.value.fault is FaultKind.LOGIN


def test_a_request_of_another_annealer_changes_no_password(opened: Callable[[str], Power]) -> None:
    assert rotated(opened, FIRST, FRESH, lambda: False) is None
    assert logs_in(opened, FIRST)


def test_a_lost_answer_to_the_change_is_decided_by_the_next_login(
    redfish: RedfishBmc, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nodepool_ocb.power.redfish.CALL_SECONDS", 1.0)
    redfish.set_password(FIRST)
    proxy = Proxy(redfish.port)
    through = opener("redfish", f"http://127.0.0.1:{proxy.port}")
    lost = proxy.drop_answers_to(b"PATCH ")

    def opened(word: str) -> Power:
        if word == FRESH:
            assert lost.wait(10.0), "the answer was swallowed"
            proxy.heal()
        return through(word)

    try:
        assert rotated(opened, FIRST, FRESH, ours) in (Powered.ON, Powered.OFF)
    finally:
        proxy.close()
    assert redfish.accepts(FRESH)


def test_a_password_that_the_bmc_refuses_leaves_the_former_one_and_costs_no_login(redfish: RedfishBmc) -> None:
    redfish.set_password(FIRST)
    opened, tried = opener("redfish", redfish.url), []

    def noted(word: str) -> Power:
        tried.append(word)
        return opened(word)

    with pytest.raises(PowerFault) as raised:
        rotated(noted, FIRST, "x" * 40, ours)
    assert raised.value.fault is FaultKind.REFUSED
    assert "x" * 40 not in str(raised.value)
    assert redfish.accepts(FIRST)
    assert tried == [FIRST]


def test_a_bmc_that_is_away_is_not_asked_by_the_fresh_password() -> None:
    opened, tried = opener("redfish", f"http://127.0.0.1:{free_port()}"), []

    def noted(word: str) -> Power:
        tried.append(word)
        return opened(word)

    with pytest.raises(PowerFault) as raised:
        either(noted, FIRST, FRESH)
    assert (raised.value.fault, tried) == (FaultKind.UNREACHABLE, [FIRST])


def test_ipmi_shows_a_new_password_in_no_list_of_processes(
    ipmi: IpmiBmc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, program = tmp_path / "seen", tmp_path / "ipmitool"
    program.write_text(f'#!/bin/sh\ntr "\\0" " " </proc/$$/cmdline >>{seen}\necho "2 {USER} true"\ncat >/dev/null\n')
    program.chmod(0o755)
    monkeypatch.setattr("nodepool_ocb.power.ipmi.PROGRAM", str(program))
    with contextlib.closing(opener("ipmi", ipmi.address)(FIRST)) as found:
        found.set_password(FRESH)
    assert "exec /dev/stdin" in seen.read_text()
    assert FRESH not in seen.read_text()
