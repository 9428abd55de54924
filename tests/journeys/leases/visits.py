"""Visits on leased machines, and the marks that the machines keep of them: evidence without the launchers' records.

A visit holds an exclusive lock of its place on the machine until it ends. It notes the times of its begin and its end there, and
whether another visit held the lock, or the machine was not there. The clock is the kernel's uptime, which all machines share.
"""

from __future__ import annotations

import getpass
import os
import subprocess
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

from nodepool_ocb.model.pool import PoolNode
from nodepool_ocb.testing.machines import Farm

MARKS: Final = "marks"
#: Its arguments: the folder of marks, the place, the name of the visit, a file that exists as long as the machine does.
VISIT: Final = r"""
cd "$1" || exit 1
note() { read -r up _ </proc/uptime; echo "$up $place $name $1" >>marks; }
place=$2 name=$3 machine=$4
exec 9>>"place$place"
flock -n 9 || note beside
[ -e "$machine" ] || note absent
note begins
echo begun
read -r _
[ -e "$machine" ] || note absent
note ends
"""


class Mark(NamedTuple):
    """A line that a machine wrote."""

    uptime: float
    place: str  # of the machine
    visit: str
    kind: str  # begins, ends, beside, absent


class Visit:
    """A process that uses a machine until ``leave``."""

    def __init__(self, command: Sequence[str]) -> None:
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        assert self._process.stdout is not None
        os.set_blocking(self._process.stdout.fileno(), False)
        self.begun = False

    def arrived(self) -> bool:
        """Whether the machine has written that it began, or the machine cannot be reached."""
        assert self._process.stdout is not None
        self.begun = self.begun or bool(self._process.stdout.read())
        return self.begun or self.over

    @property
    def over(self) -> bool:
        """Whether its process has ended."""
        return self._process.poll() is not None

    def leave(self) -> None:
        """End the use; it is over a moment later."""
        if self._process.stdin is not None and not self._process.stdin.closed:
            self._process.stdin.close()

    def close(self) -> None:
        """End it by force."""
        self.leave()
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


class Machines:
    """The machines of a rack, and those of clouds below a folder, as a visitor reaches them."""

    def __init__(self, farm: Farm, key: Path, clouds: Path, folder: Path) -> None:
        self._farm, self._key, self._clouds, self._folder = farm, key, clouds, folder
        folder.mkdir(parents=True, exist_ok=True)

    def visit(self, name: str, id: str, node: PoolNode) -> Visit:
        """Use a machine by the record of its node: its address, its port and its host keys."""
        if node.provider == "rack":
            known = self._folder / f"known-{name}-{id}"
            host = f"[{node.interface_ip}]:{node.connection_port}"
            known.write_text("".join(f"{host} {key}\n" for key in node.host_keys or ()))
            options = ["BatchMode=yes", "StrictHostKeyChecking=yes", f"UserKnownHostsFile={known}", "ConnectTimeout=5"]
            words = ["ssh", "-F", "none", "-T", "-i", str(self._key), "-p", str(node.connection_port)]
            words += [part for option in options for part in ("-o", option)]
            script = f"set -- \"$HOME\" '{node.slot or 0}' '{name}/{id}' \"$HOME\"\n{VISIT}"
            return Visit([*words, f"{getpass.getuser()}@{node.interface_ip}", script])
        cloud, machine = self._clouds / str(node.provider), str(node.external_id)
        home = cloud / "visits" / machine
        home.mkdir(parents=True, exist_ok=True)
        file = cloud / "machines" / f"{machine}.json"
        return Visit(["sh", "-c", VISIT, "visit", str(home), "0", f"{name}/{id}", str(file)])

    def marks(self) -> dict[str, list[Mark]]:
        """All marks, by machine."""
        return {name: [*_marks(file)] for name, file in self._files()}

    def _files(self) -> Iterator[tuple[str, Path]]:
        for fqdn, _ in self._farm.records():
            yield fqdn, self._farm.state_dir(fqdn).parent / MARKS
        for file in self._clouds.glob(f"*/visits/*/{MARKS}"):
            yield file.parent.name, file


def _marks(file: Path) -> Iterator[Mark]:
    for line in file.read_text().split("\n")[:-1] if file.exists() else ():
        uptime, place, visit, kind = line.split()
        yield Mark(float(uptime), place, visit, kind)


def faults(marks: dict[str, list[Mark]]) -> list[str]:
    """Each mark of a machine that was given to two at the same time, or was not there during its use.

    A visit without an end was on a machine that lost its power: its lock alone tells when it ended.
    """
    found = []
    for machine, lines in marks.items():
        found += [f"{machine}: {each.visit} {each.kind}" for each in lines if each.kind in ("beside", "absent")]
        spans: dict[str, list[tuple[float, float, str]]] = defaultdict(list)
        ends = {(each.place, each.visit): each.uptime for each in lines if each.kind == "ends"}
        for each in lines:
            if each.kind == "begins" and (each.place, each.visit) in ends:
                spans[each.place].append((each.uptime, ends[each.place, each.visit], each.visit))
        for spanned in map(sorted, spans.values()):
            for (_, end, one), (begin, _, other) in pairwise(spanned):
                if begin < end:
                    found.append(f"{machine}: {other} begins before {one} ends")
    return found
