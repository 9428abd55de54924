"""What machines wrote, read into the checker's terms; and the script whose work they witness.

The clock is the kernel's uptime, which machines on one host share and nobody sets.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from history import Entry, Event, Work

#: Notes that it works, in a file of its own beside the runner's: the runner is not asked.
WITNESS: Final = """\
note() { read -r up _ </proc/uptime; echo "$up ${OCB_RUN##*/} $$ $1" >>"${OCB_RUN%/runs/*}/work"; }
note begins
trap 'note ends' EXIT
"""

_EVENTS: Final = {
    "start": Event.STARTED,
    "end": Event.ENDED,
    "ended": Event.KILLED,
    "lost": Event.KILLED,
    "attach": Event.ATTACHED,
    "adopt": Event.ADOPTED,
    "fence": Event.FENCED,
}


def uptime() -> float:
    """The time now, of the clock that all machines share."""
    return float(Path("/proc/uptime").read_text().split()[0])


def entries(fqdn: str, state: Path) -> Iterator[Entry]:
    """The runner's history: lines of TIME UPTIME EVENT EPOCH ROLE@GENERATION RUN GROUP DETAIL."""
    for line in _lines(state / "history"):
        _, uptime, word, epoch, key, run, _, *detail = line.split()
        role, _, generation = key.rpartition("@")
        event = _EVENTS[word]
        code = int(detail[1]) if event is Event.ENDED else None
        yield Entry(float(uptime), fqdn, int(epoch), f"{role}@{fqdn}", int(generation), run, event, code)


def work(fqdn: str, state: Path) -> Iterator[Work]:
    """What the scripts wrote: lines of UPTIME ROLE@GENERATION PID begins|ends."""
    for line in _lines(state / "work"):
        uptime, key, pid, word = line.split()
        role, _, generation = key.rpartition("@")
        yield Work(float(uptime), fqdn, f"{role}@{fqdn}", int(generation), int(pid), word == "begins")


def _lines(file: Path) -> list[str]:
    """Whole lines only: the last one may be being written."""
    return file.read_text().split("\n")[:-1] if file.exists() else []
