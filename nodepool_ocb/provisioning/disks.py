"""The disk of an installation: one disk of the machine must match all hints, and be large enough. Pure.

Without an inventory the installer judges in the same way on the machine, before it writes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from nodepool_ocb.errors import Invalid
from nodepool_ocb.model.joining import MachineDisk, MachineFacts

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
    removable: bool = False

    @property
    def words(self) -> str:
        """For people.

        >>> Disk(path="/dev/sda", size=32 << 30, serial="S1").words
        '/dev/sda (serial S1, 32.0 GiB)'
        """
        serial = f"serial {self.serial}, " if self.serial else ""
        return f"{self.path} ({serial}{self.size / (1 << 30):.1f} GiB)"


def of_inventory(facts: MachineFacts) -> tuple[Disk, ...] | None:
    """The disks in the facts of a machine; None for a machine that named none."""
    return tuple(map(_disk, facts.disks)) or None


def _disk(known: MachineDisk) -> Disk:
    return Disk(
        path=f"/dev/{known.name}",
        size=known.size,
        serial=known.serial,
        wwn=known.wwn,
        model=known.model,
        rotational=known.rotational,
        removable=known.removable,
    )


def chosen(hints: DiskHints, disks: Sequence[Disk], needed: int, number: int = 1) -> tuple[Disk, ...]:
    """The disks that lose their data; ``needed``: the size of the image in bytes, ``number``: two for a mirror.

    Raises Invalid if fewer disks match, if more do, and if a disk is too small.

    >>> [disk.path for disk in chosen(DiskHints(serial="S1"), [Disk(path="/dev/sda", size=10, serial="S1")], 5)]
    ['/dev/sda']
    """
    matching = [disk for disk in disks if _matches(hints, disk)]
    large = [disk for disk in matching if disk.size >= needed]
    if len(large) == number:
        return tuple(large)
    if not matching:
        raise Invalid(f"no disk of the machine matches {hints.words}; it has {_listed(disks)}")
    if len(large) > number:
        name = "name one by serial or wwn" if number == 1 else f"a mirror needs {number}"
        raise Invalid(f"{len(large)} disks match {hints.words}: {_listed(large)}; {name}")
    if len(matching) < number:
        raise Invalid(f"a mirror needs {number} disks, and {len(matching)} matches {hints.words}: {_listed(matching)}")
    small = [disk for disk in matching if disk.size < needed]
    raise Invalid(f"the image needs {needed} bytes, and the disk is too small: {_listed(small)}")


def named(hints: DiskHints, known: Sequence[Disk] | None, every: str = "its only disk") -> str:
    """The disks that match, in words, for a person who decides about their data. ``known``: None without an inventory.

    ``every``: the words for hints without marks, where the disks are not known.

    >>> named(DiskHints(serial="S1"), [Disk(path="/dev/sda", size=1 << 30, serial="S1")]), named(DiskHints(serial="S1"), None)
    ('/dev/sda (serial S1, 1.0 GiB)', 'serial=S1')
    """
    words = hints.words if hints != DiskHints() else every
    if known is None or (hints.path or "").startswith("/dev/disk/"):  # no inventory has these links
        return words
    found = [disk for disk in known if _matches(hints, disk)]
    return _listed(found) if found else f"{words} (its inventory has no such disk)"


def _matches(hints: DiskHints, disk: Disk) -> bool:
    texts = all(
        wanted is None or wanted == getattr(disk, name)
        for name in ("path", "serial", "wwn", "model")
        for wanted in [getattr(hints, name)]
    )
    least, most = hints.min_size, hints.max_size
    sized = (least is None or disk.size >= bytes_of(least)) and (most is None or disk.size <= bytes_of(most))
    named = not disk.removable or any((hints.path, hints.serial, hints.wwn))  # a stick is no disk of the machine
    return texts and sized and named and hints.rotational in (None, disk.rotational)


def _listed(disks: Iterable[Disk]) -> str:
    return ", ".join(disk.words for disk in disks) or "none"
