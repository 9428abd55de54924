"""The spellings of one machine in power settings; names that a silent server of DNS does not answer."""

from __future__ import annotations

import socket
import threading
from typing import Any

import pytest

from nodepool_ocb.errors import Invalid
from nodepool_ocb.model.power import MachinePower
from nodepool_ocb.operations.power import sharing
from nodepool_ocb.power import resolving


def setting(text: str) -> MachinePower:
    """DRIVER ADDRESS [=RESOLVED] [OPTION=VALUE]..."""
    driver, address, *rest = text.split()
    resolved = tuple(each[1:] for each in rest if each.startswith("="))
    options = dict(each.split("=") for each in rest if not each.startswith("="))
    return MachinePower(driver=driver, address=address, resolved=resolved, options=options)


def shared(one: str, other: str) -> bool:
    try:
        sharing.refuse({"n1": setting(one)}, {"n2": setting(other)})
    except Invalid as refused:
        said = str(refused)
        return said.startswith(f"n2: {' '.join(other.split()[:2])}") and "is the power of n1, too" in said
    return False


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("ipmi bmc1", "ipmi BMC1.:623"),
        ("ipmi bmc1", "ipmi bmc1:0623"),
        ("redfish https://bmc1", "redfish https://bmc1:0443"),
        ("ipmi bmc1 =10.9.0.1", "ipmi 10.9.0.1"),
        ("ipmi bmc1 =10.9.0.1", "ipmi alias =10.9.0.1"),
        ("ipmi fd00:0::9", "ipmi [fd00::9]:623"),
        ("ipmi bmc1", "redfish https://bmc1"),
        ("ipmi bmc1", "redfish https://bmc1:443/ system=1"),
        ("redfish http://bmc1:80", "ipmi bmc1"),
        ("redfish https://bmc1 =10.9.0.1", "ipmi 10.9.0.1:623"),
        ("redfish https://bmc1", "redfish https://bmc1/redfish/v1/ verify=no"),
        ("redfish https://bmc1:8443 =10.9.0.1", "redfish https://10.9.0.1:8443"),
        ("redfish https://bmc1:8443", "redfish https://bmc1:8443 system=1"),
        ("redfish https://bmc1 system=1", "redfish https://bmc1 system=/redfish/v1/Systems/1"),
        ("ipmi 10.9.0.1", "ipmi [::ffff:10.9.0.1]"),
        ("ssh h1 on=x", "ssh root@H1:22 on=x"),
        ("qemu unix:/run/A", "qemu unix:/run/A"),
        ("qemu h1:4444 =10.0.0.1", "qemu 10.0.0.1:4444"),
    ],
)
def test_two_spellings_of_one_machine_are_recognised(one: str, other: str) -> None:
    assert shared(one, other)
    assert shared(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("ipmi bmc1", "ipmi bmc2"),
        ("ipmi bmc1 =10.9.0.1", "ipmi bmc2 =10.9.0.2"),
        ("ipmi gate:6231", "ipmi gate:6232"),
        ("ipmi gate:6231", "redfish https://gate"),
        ("redfish https://gate:8443", "ipmi gate"),
        ("redfish https://chassis system=1", "redfish https://chassis system=2"),
        ("redfish https://chassis:8443 system=1", "redfish https://other:8443"),
        ("redfish https://gate/a", "redfish https://gate/b"),
        ("ssh h1 on=x", "ssh h1 on=y"),
        ("ssh ann@h1 on=x", "ssh bob@h1 on=x"),
        ("ssh h1 on=x", "ipmi h1"),
        ("qemu unix:/run/a", "qemu unix:/run/A"),
    ],
)
def test_settings_of_two_machines_are_taken(one: str, other: str) -> None:
    assert not shared(one, other)
    assert not shared(other, one)


def test_machines_that_persons_switch_share_nothing() -> None:
    by_hand = MachinePower(driver="manual")
    sharing.refuse({"n1": by_hand}, {"n2": by_hand})


def test_a_silent_server_of_dns_costs_the_time_of_all_names_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = threading.Event()

    def answer(name: str, *_: Any, **__: Any) -> list[Any]:
        if name == "known":
            return [(0, 0, 0, "", ("10.9.0.1", 0)), (0, 0, 0, "", ("10.9.0.1", 0))]
        if name == "unknown":
            raise socket.gaierror
        asked.wait(30.0)
        return []

    monkeypatch.setattr(socket, "getaddrinfo", answer)
    monkeypatch.setattr(resolving, "SECONDS", 0.3)
    try:
        assert resolving.addresses(["known", "silent1", "silent2", "unknown"]) == {"known": ("10.9.0.1",)}
    finally:
        asked.set()
