"""What machines wrote, read into the checker's terms; and the script whose work they witness.

The clock is the kernel's uptime, which machines on one host share and nobody sets.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from tests.journeys.history import Entry, Event, Work

#: Notes that it works, beside the runner's state directory and not in it: the runner is not asked. It holds a lock as long as
#: anything of it lives, so that the kernel tells of two at once.
WITNESS: Final = """\
home=${OCB_RUN%/*/runs/*}
note() { read -r up _ </proc/uptime; echo "$up ${OCB_RUN##*/} $$ $1" >>"$home/work"; }
exec 9>>"$home/alone"
if flock -n 9; then note begins; else note beside; fi
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


def entries(fqdn: str, memories: Sequence[Path]) -> Iterator[Entry]:
    """The runner's history, of every state directory that it had: lines of
    TIME UPTIME EVENT EPOCH ROLE@GENERATION RUN GROUP DETAIL.
    """
    for lost, state in zip(range(len(memories))[::-1], memories, strict=True):
        for line in _lines(state / "history"):
            _, uptime, word, epoch, key, run, _, *detail = line.split()
            role, _, generation = key.rpartition("@")
            event = _EVENTS[word]
            code = int(detail[1]) if event is Event.ENDED else None
            yield Entry(float(uptime), fqdn, int(epoch), f"{role}@{fqdn}", int(generation), run, event, code, lost)


def work(fqdn: str, home: Path) -> Iterator[Work]:
    """What the scripts wrote: lines of UPTIME ROLE@GENERATION PID begins|beside|ends."""
    for line in _lines(home / "work"):
        uptime, key, pid, word = line.split()
        role, _, generation = key.rpartition("@")
        begins, beside = word != "ends", word == "beside"
        yield Work(float(uptime), fqdn, f"{role}@{fqdn}", int(generation), int(pid), begins, beside)


def _lines(file: Path) -> list[str]:
    """Whole lines only: the last one may be being written."""
    return file.read_text().split("\n")[:-1] if file.exists() else []
