"""The disk of an installation: one disk of the machine must match all hints, and be large enough. Pure.

Without an inventory the installer judges in the same way on the machine, before it writes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from nodepool_ocb.errors import Invalid

_SIZE: Final = re.compile(r"([0-9]{1,15})([KMGTP]?)(iB|B)?")
_UNITS: Final = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40, "P": 50}


def bytes_of(size: int | str) -> int:
    """The number of bytes; raises Invalid for another text.

    >>> bytes_of("64G"), bytes_of(512)
    (68719476736, 512)
    """
    found = _SIZE.fullmatch(str(size))
    if found is None:
        raise Invalid(f"{size!r} is no size of a disk; write bytes, or 64G")
    return int(found[1]) << _UNITS[found[2]]


class DiskHints(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True, rename="kebab"
):
    """The marks of the disk; each given one must match. Without any, the machine must have a single disk that is large enough."""

    path: str | None = None  # /dev/sda, or a name below /dev/disk
    serial: str | None = None
    wwn: str | None = None
    model: str | None = None
    min_size: int | str | None = None  # bytes, or "64G"
    max_size: int | str | None = None
    rotational: bool | None = None

    @property
    def words(self) -> str:
        """For people.

        >>> DiskHints(serial="S1", rotational=False).words, DiskHints().words
        ('serial=S1 rotational=false', 'its only disk')
        """
        given = msgspec.to_builtins(self).items()
        return (
            " ".join(
                f"{key}={str(value).lower()}" if isinstance(value, bool) else f"{key}={value}" for key, value in given
            )
            or "its only disk"
        )


class Disk(msgspec.Struct, frozen=True, kw_only=True):
    """A disk in the inventory of a machine."""

    path: str
    size: int = 0  # bytes
    serial: str = ""
    wwn: str = ""
    model: str = ""
    rotational: bool | None = None

    @property
    def words(self) -> str:
        """For people.

        >>> Disk(path="/dev/sda", size=32 << 30, serial="S1").words
        '/dev/sda (serial S1, 32.0 GiB)'
        """
        serial = f"serial {self.serial}, " if self.serial else ""
        return f"{self.path} ({serial}{self.size / (1 << 30):.1f} GiB)"


def of_inventory(facts: Mapping[str, Any]) -> tuple[Disk, ...] | None:
    """The disks in the facts of a machine; None if these have no list of disks."""
    listed = facts.get("disks")
    if not isinstance(listed, list | tuple):
        return None
    return tuple(_disk(each) for each in listed if isinstance(each, Mapping))


def _disk(facts: Mapping[str, Any]) -> Disk:
    path = str(facts.get("path") or f"/dev/{facts.get('name', '?')}")
    size, rotational = facts.get("size"), facts.get("rotational")
    texts = {name: str(facts.get(name) or "") for name in ("serial", "wwn", "model")}
    known = rotational if isinstance(rotational, bool) else None
    return Disk(path=path, size=size if isinstance(size, int) else 0, rotational=known, **texts)


def chosen(hints: DiskHints, disks: Sequence[Disk], needed: int) -> Disk:
    """The disk that loses its data; ``needed``: the size of the image in bytes.

    Raises Invalid if no disk matches, if several do, and if the disk is too small.

    >>> chosen(DiskHints(serial="S1"), [Disk(path="/dev/sda", size=10, serial="S1"), Disk(path="/dev/sdb", size=10)], 5).path
    '/dev/sda'
    """
    matching = [disk for disk in disks if _matches(hints, disk)]
    large = [disk for disk in matching if disk.size >= needed]
    if len(large) == 1:
        return large[0]
    if not matching:
        raise Invalid(f"no disk of the machine matches {hints.words}; it has {_listed(disks)}")
    if not large:
        raise Invalid(f"the image needs {needed} bytes, and the disk is too small: {_listed(matching)}")
    raise Invalid(f"{len(large)} disks match {hints.words}: {_listed(large)}; name one by serial or wwn")


def _matches(hints: DiskHints, disk: Disk) -> bool:
    texts = all(
        wanted is None or wanted == getattr(disk, name)
        for name in ("path", "serial", "wwn", "model")
        for wanted in [getattr(hints, name)]
    )
    least, most = hints.min_size, hints.max_size
    sized = (least is None or disk.size >= bytes_of(least)) and (most is None or disk.size <= bytes_of(most))
    return texts and sized and hints.rotational in (None, disk.rotational)


def _listed(disks: Iterable[Disk]) -> str:
    return ", ".join(disk.words for disk in disks) or "none"
