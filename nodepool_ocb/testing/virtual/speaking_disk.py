"""The first sector of a disk that writes a line to the serial console when it is booted by BIOS, and then halts."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Final

_SECTOR: Final = 512
_ORIGIN: Final = 0x7C00
_CODE: Final = bytes.fromhex(
    "31c0 8ed8"  # ds = 0
    "be0000"  # si = the line; its address is filled in below
    "ac 84c0 7406"  # next: al = byte at si; end at 0
    "baf803 ee ebf5"  # write al to the first serial port; next
    "f4 ebfd"  # end: halt
)


def write(path: Path, line: str) -> Path:
    """Make a disk image of 1 MiB that says this line of ASCII; gives the path."""
    code = _CODE.replace(b"\xbe\x00\x00", b"\xbe" + struct.pack("<H", _ORIGIN + len(_CODE)))
    text = f"{line}\r\n".encode("ascii") + b"\0"
    if len(code + text) > _SECTOR - 66:
        raise ValueError(f"the line is too long for the first sector of a disk: {len(line)} characters")
    with path.open("wb") as disk:
        disk.write((code + text).ljust(_SECTOR - 2, b"\0") + b"\x55\xaa")
        disk.truncate(1 << 20)
    return path
