"""Lines of serial consoles, as firmware, boot loaders, kernels and systemd print them."""

from __future__ import annotations

import time

import pytest

from nodepool_ocb.provisioning.evidence import console


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        (
            "[    2.345678] Kernel panic - not syncing: VFS: Unable to mount root fs on unknown-block(0,0)",
            "its kernel panicked",
        ),
        ("[   12.0] BUG: unable to handle page fault for address: ffff8", "its kernel has a fault"),
        ("Oops: 0000 [#1] PREEMPT SMP PTI", "its kernel has a fault"),
        ("\x1b[1;31mYou are in emergency mode. After logging in, type", "its system stopped in emergency mode"),
        ("ALERT!  UUID=ab does not exist.  Dropping to a shell!", "its system finds no root disk"),
        ("(initramfs) ", "its system finds no root disk"),
        ("No bootable device.", "its firmware finds no system"),
        ("Boot failed: not a bootable disk", "its firmware finds no system"),
        ("grub rescue> ", "its boot loader finds no disk"),
        ("error: no such device: 1234.", "its boot loader finds no disk"),
        ("BdsDxe: failed to load Boot0001: Access Denied", "Secure Boot refuses it"),
        ("  PXE-E16: No valid offer received.", "no DHCP server answers it"),
        ("No configuration methods succeeded (https://ipxe.org/040ee119)", "no DHCP server answers it"),
        ("PXE-E32: TFTP open timeout", "no TFTP server answers it"),
        ("http://10.0.0.2/boot/a.ipxe... Connection timed out (https://ipxe.org/4c0a6035)", "iPXE fails"),
        ("[ 3.1] Out of memory: Killed process 12 (cp)", "its memory is too small"),
    ],
)
def test_a_known_line_is_named(line: str, fault: str) -> None:
    said = console.observed(line)
    assert said is not None
    assert said.startswith(f'{fault}: "')
    assert "\x1b" not in said


@pytest.mark.parametrize(
    "line",
    [
        "---[ end Kernel panic - not syncing: VFS ]---",
        "[    0.0] Command line: panic=30 console=ttyS0 quiet",
        "Reached target emergency.target - Emergency Mode unit file",
        "http://10.0.0.2/boot/a.ipxe... ok",
        "",
    ],
)
def test_other_lines_are_left_to_the_log(line: str) -> None:
    assert console.observed(line) is None


def test_a_long_line_is_shortened() -> None:
    said = console.observed("Kernel panic - not syncing: " + "x" * 5000) or ""
    assert len(said) < 260


def test_a_machine_that_sends_many_lines_costs_little() -> None:
    began = time.process_time()
    for line in ("", "x", "http://x" * 100):
        for _ in range(5000):
            console.observed(line)
    assert time.process_time() - began < 1.0, "4 s where each line is compared with each known one"
