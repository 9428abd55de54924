"""Lines of a serial console that name a failed boot: one table, and the sentence that quotes such a line. Pure.

The table has known lines alone. A line that it lacks stays in the log of the run, and is quoted by no sentence.
"""

from __future__ import annotations

import re
from typing import Final

LINE_CHARACTERS: Final = 200  # of a quoted line
LONGEST_LINE: Final = 1000  # of a line that is looked at

#: A known line, and the fault that it shows. The first that is found in a line counts.
KNOWN: Final[tuple[tuple[re.Pattern[str], str], ...]] = tuple(
    (re.compile(line, re.IGNORECASE), fault)
    for line, fault in (
        (r"end kernel panic", ""),  # the last line of a panic, without its reason
        (r"kernel panic - not syncing", "its kernel panicked"),
        (r"\bBUG: unable to handle|\bOops: |general protection fault", "its kernel has a fault"),
        (r"Out of memory: Killed process|System is deadlocked on memory", "its memory is too small"),
        (r"You are in emergency mode|Entering emergency mode", "its system stopped in emergency mode"),
        (r"You are in rescue mode|Entering rescue mode", "its system stopped in rescue mode"),
        (r"\(initramfs\)|ALERT!.* does not exist|Gave up waiting for root", "its system finds no root disk"),
        (r"No bootable (device|option|image|medium)|Boot failed: not a bootable disk", "its firmware finds no system"),
        (r"Missing operating system|Operating system not found", "its firmware finds no system"),
        (r"error: (no such (device|partition|disk)|unknown filesystem)|grub rescue>", "its boot loader finds no disk"),
        (
            r"Security Violation|Verification failed: \(0x1A\)|bad shim signature|failed to load .*Access Denied",
            "Secure Boot refuses it",
        ),
        (
            r"No configuration methods succeeded|PXE-E(51|53|16)|No DHCP or proxyDHCP offers",
            "no DHCP server answers it",
        ),
        (r"PXE-E(32|11|18|23)|TFTP (open|read) timeout", "no TFTP server answers it"),
        (r"https?://\S+\.\.\. .*\(https?://ipxe\.org/|Could not (boot|start) image|Exec format error", "iPXE fails"),
        (r"PXE-E61|Media test failure, check cable", "its network card has no link"),
    )
)

#: Each known line has one of these, in small letters. A line without them is left at once, for a machine may send many.
WORDS: Final = (
    *("panic", "bug:", "oops:", "protection fault", "out of memory", "deadlocked", "emergency mode", "rescue mode"),
    *("(initramfs)", "does not exist", "waiting for root", "no bootable", "not a bootable", "operating system"),
    *("error: ", "grub rescue>", "security violation", "verification failed", "bad shim", "access denied"),
    *("no configuration", "pxe-e", "no dhcp", "tftp ", "ipxe.org", "could not ", "exec format", "media test"),
)

_ESCAPE: Final = re.compile(r"\x1b(\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)|[ -/]*[0-~])")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]+")
_STAMP: Final = re.compile(r"^\s*\[\s*\d+\.\d+\]\s*")  # of the kernel


def plain(line: str) -> str:
    """A line without the orders to a terminal and without the kernel's time.

    >>> plain("\\x1b[0;31m[    1.234567] Kernel panic\\x1b[0m\\r")
    'Kernel panic'
    """
    text = _CONTROL.sub(" ", _ESCAPE.sub("", line[:LONGEST_LINE])).strip()
    return _STAMP.sub("", text)


def observed(line: str) -> str | None:
    """The fault that a line shows, with the line; None for any other line.

    >>> observed("[    1.2] Kernel panic - not syncing: VFS: Unable to mount root fs")
    'its kernel panicked: "Kernel panic - not syncing: VFS: Unable to mount root fs"'
    >>> observed("---[ end Kernel panic - not syncing: VFS ]---"), observed("Booting from ROM..")
    (None, None)
    """
    small = line.lower()
    if "\x1b" not in small and not any(word in small for word in WORDS):
        return None
    text = plain(line)
    for pattern, fault in KNOWN:
        if pattern.search(text):
            short = text if len(text) <= LINE_CHARACTERS else f"{text[:LINE_CHARACTERS]}..."
            return f'{fault}: "{short}"' if fault else None
    return None
