"""Firmware of UEFI that boots over HTTP: it fetches iPXE by HTTP, and iPXE its script. TFTP has no part in it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from nodepool_ocb.engine.world import Stored
from nodepool_ocb.model.boot import Bootenv, BootenvKind
from nodepool_ocb.model.records import Node
from nodepool_ocb.testing.virtual.machine import Firmware, VirtualHardware, VirtualMachine
from nodepool_ocb.testing.virtual.network import machines_turn, why_not
from tests.provisioning.adminnode import admin_node

MISSING: Final = why_not("dnsmasq", "nginx", "cpio") or (
    None if Path("/usr/lib/ipxe/ipxe.efi").exists() else "no iPXE here"
)
N1, MAC1 = "n1.example.com", "52:54:00:00:00:01"
#: OVMF tries HTTP if its client of PXE is off.
NO_PXE: Final = tuple(
    word for version in (4, 6) for word in ("-fw_cfg", f"name=opt/org.tianocore/IPv{version}PXESupport,string=n")
)
HARDWARE: Final = VirtualHardware(macs=(MAC1,), memory_mb=512, firmware=Firmware.UEFI, ipxe_card=False, more=NO_PXE)


@pytest.mark.long
@pytest.mark.skipif(MISSING is not None, reason=MISSING or "")
def test_a_machine_with_uefi_http_boot_gets_ipxe_and_its_script_by_http(tmp_path: Path) -> None:
    with machines_turn(), admin_node(tmp_path) as admin:
        script = "#!ipxe\necho this is {node}\nsleep 600\n"
        admin.world.put(Stored(Bootenv(kind=BootenvKind.RESCUE, script=script), 0), "said")
        admin.world.put_node(N1, Node(macs=(MAC1,), networks={"admin": ("10.1.0.21",)}, bootenv="said"), 1)
        assert admin.publish() == 0, admin.output
        with VirtualMachine(admin.network, "n1", HARDWARE) as machine:
            machine.on()
            machine.await_that(lambda: f"this is {N1}" in machine.said, 500.0, "script of the node")
        requests = admin.read("log/access.log")
        assert '"GET /ipxe.efi HTTP/1.1" 200' in requests
        assert '"GET /boot/52-54-00-00-00-01.ipxe HTTP/1.1" 200' in requests
        assert "sent /" not in admin.read("log/dnsmasq.log"), "no file came by TFTP"
