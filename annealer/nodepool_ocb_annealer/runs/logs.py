"""The files with the outputs of runs on this host: ``LOG_DIR/<fqdn>/<role>-<run>.log``, and nothing else there.

The number for each noderole, the age and the bytes in all are limited; the newest files stay. A file of a present run
stays at any age. Files of other names are not ours, and are left alone.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from nodepool_ocb.config import AnnealerSettings

_NAME: Final = re.compile(r"(?P<role>.+)-(?P<run>[0-9]{10,}-[0-9a-f]+)\.log")


class Log(msgspec.Struct, frozen=True):
    """One log file."""

    path: Path
    noderole: str
    run: str
    size: int
    written: float


def tidy(settings: AnnealerSettings, active: Collection[str], now: float) -> int:
    """Remove surplus files and empty folders; returns the number of removed files. ``active``: runs that go on."""
    if settings.log_dir is None:
        return 0
    went = 0
    for log in surplus(found(Path(settings.log_dir)), settings, active, now):
        with contextlib.suppress(OSError):
            log.path.unlink()
            went += 1
        with contextlib.suppress(OSError):  # as a rule there are others in it
            log.path.parent.rmdir()
    return went


def found(folder: Path) -> Iterator[Log]:
    """Every file that is ours."""
    for node in _entries(folder):
        if node.is_dir(follow_symlinks=False):
            for entry in _entries(node.path):
                name = _NAME.fullmatch(entry.name)
                if name is not None and entry.is_file(follow_symlinks=False):
                    with contextlib.suppress(OSError):
                        stat = entry.stat(follow_symlinks=False)
                        noderole = f"{name['role']}@{node.name}"
                        yield Log(Path(entry.path), noderole, name["run"], stat.st_size, stat.st_mtime)


def surplus(logs: Iterable[Log], settings: AnnealerSettings, active: Collection[str], now: float) -> list[Log]:
    """The surplus files."""
    noderoles: defaultdict[str, list[Log]] = defaultdict(list)
    for log in logs:
        noderoles[log.noderole].append(log)
    gone: list[Log] = []
    kept: list[Log] = []
    for each in noderoles.values():
        each.sort(key=lambda log: log.run, reverse=True)
        for place, log in enumerate(each):
            old = place >= settings.log_keep or now - log.written > settings.log_keep_seconds
            (gone if old and log.run not in active else kept).append(log)
    room = settings.log_total_bytes
    for log in sorted(kept, key=lambda log: log.written, reverse=True):
        room -= log.size
        if room < 0 and log.run not in active:
            gone.append(log)
    return gone


def _entries(folder: Path | str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []
