"""From power to ACTIVE: a virtual machine with an empty disk, beside the parts of its way that no provisioner can avoid.

The floor is measured on the same host in the same run:

- two bare boots of the same environment by the same servers;
- one ``dd`` of the same image, from the same HTTP server to a disk of the same kind;
- one boot from the installed disk until sshd answers;
- ten logins.

Our way ends when all ten noderoles of the machine are ACTIVE. Its machine comes after the rule that adopts it.

QEMU emulates the CPU, so other work on the computer slows both sides: the note has the parts, and the load.
"""

from __future__ import annotations

import os
import re
import socket
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

from benchmarks.figure import Figure, Plan, over
from nodepool_ocb.testing.virtual import metalimages, preparing
from nodepool_ocb.testing.virtual.network import why_not
from nodepool_ocb.testing.virtual.site import MetalSite
from nodepool_ocb.testing.virtual.walking import STEP_SECONDS, Walker, build_of

TARGET: Final = 1.5
ROLES: Final = 10
BARE_BOOTS: Final = 2
#: The line of ocb-init before it starts the agent: by then a shell is up.
SHELL_UP: Final = re.compile(r"^ocb: \d+ s: sshd is up", re.MULTILINE)


class Part(NamedTuple):
    """Of a way: its name, and the seconds of the clock and of the machine's CPU."""

    what: str
    seconds: float
    cpu: float


Parts = Sequence[Part]


def measure(plan: Plan) -> Iterator[Figure]:
    """One machine a round; not measured where virtual machines or images are missing."""
    before = os.getloadavg()[0]
    try:
        floors, ways = _rounds(plan.rounds)
    except LookupError as lacking:
        yield from figures([], [], str(lacking))
    else:
        yield from figures(floors, ways, f"load {before:.1f} before, {os.getloadavg()[0]:.1f} after")


def figures(floors: Sequence[Parts], ways: Sequence[Parts], note: str) -> Iterator[Figure]:
    """The medians of the rounds, with the parts of the newest one. Without rounds nothing is measured."""
    shown = [f"{name}: {_words(side[-1])}" for name, side in (("ours", ways), ("floor", floors)) if side]
    ours, floor = (_median([sum(part.seconds for part in parts) for parts in side]) for side in (ways, floors))
    yield Figure(
        name="metal",
        what="power to ACTIVE of ten roles, BIOS",
        unit="s",
        ours=ours,
        other=floor,
        beside="s, bare boots, dd, logins",
        ratio=over(ours, floor),
        target=TARGET,
        note="\n".join([*shown, note]),
    )
    ours, floor = (_median([sum(part.cpu for part in parts) for parts in side]) for side in (ways, floors))
    yield Figure(
        name="metal",
        what="the CPU of its QEMU meanwhile",
        unit="s",
        ours=ours,
        other=floor,
        beside="s, the same",
        ratio=over(ours, floor),
        note="without waits, and the same on a loaded host",
    )


def _rounds(rounds: int) -> tuple[list[Parts], list[Parts]]:
    """The parts of the floor, and of our way, of each round. Raises LookupError if something is missing."""
    missing = why_not("dnsmasq", "nginx", "cpio", "mmdebstrap", "curl")
    if missing is not None:
        raise LookupError(missing)
    sections = metalimages.fresh()
    images = metalimages.at_hand(sections)
    floors: list[Parts] = []
    ways: list[Parts] = []
    with TemporaryDirectory() as folder, MetalSite(Path(folder), images) as site:
        _prepare(site, sections, images)
        for number in range(1, 2 * rounds + 1, 2):
            bare = _bare(site, number)
            way, others = _whole(site, number + 1)
            floors.append([*bare, *others])
            ways.append(way)
    return floors, ways


def _prepare(site: MetalSite, sections: Sequence[Mapping[str, Any]], images: Sequence[Mapping[str, Any]]) -> None:
    preparing.prepare(site, site.ocb, "bios")
    preparing.await_images(site, STEP_SECONDS)
    if images == sections:
        for section in sections:
            metalimages.keep(section, build_of(site, section["name"]))


def _bare(site: MetalSite, number: int) -> Parts:
    """A machine that no rule adopts: it boots our environment, and then writes the image as a person would."""
    parts: list[Part] = []
    with Walker(site, number) as walker:
        for _ in range(BARE_BOOTS):
            _bare_boot(parts, walker)
        walker.until(lambda: walker.registration is not None, "registered")  # then its agent waits
        row = walker.registration
        assert row is not None
        with _timed(parts, walker, "dd"):
            written = f"curl --silent --fail {_url(site)} | dd of=/dev/sda bs=1M conv=fsync"
            walker.asks(written, row.host_keys[0], row.address)
    return parts


def _bare_boot(parts: list[Part], walker: Walker) -> None:
    """From power to the shell."""
    walker.power.off()
    seen = len(walker.machine.said)
    with _timed(parts, walker, "network boot"):
        walker.power.on()
        walker.machine.await_that(lambda: bool(SHELL_UP.search(walker.machine.said[seen:])), STEP_SECONDS, "shell")


def _whole(site: MetalSite, number: int) -> tuple[Parts, Parts]:
    """Our way of a machine, and the parts of the floor for which its disk must have the system."""
    preparing.adopt_all(site.ocb)
    others: list[Part] = []
    with Walker(site, number) as walker:
        walker.switch_on()
        walker.until(lambda: walker.registration is not None, "registered")
        walker.until(lambda: walker.heard("identified as"), "identified")
        walker.until(lambda: walker.heard("restarting from the disk"), "written")
        walker.until(walker.all_active, "ACTIVE")
        way = [Part(*noted) for noted in walker.times]
        assert len(site.states(walker.fqdn)) == ROLES
        site.ocb("adoption", "delete", preparing.RULE)
        key = walker.node.host_keys[0]
        with _timed(others, walker, "logins"):
            for _ in range(ROLES):
                walker.asks("true", key)
        walker.power.off()
        with _timed(others, walker, "disk boot"):
            walker.power.on()
            walker.machine.await_that(lambda: _sshd_answers(walker.node.addresses[0]), STEP_SECONDS, "answer of sshd")
    return way, others


@contextmanager
def _timed(parts: list[Part], walker: Walker, what: str) -> Iterator[None]:
    began, spent = time.monotonic(), walker.machine.cpu_seconds
    yield
    parts.append(Part(what, time.monotonic() - began, walker.machine.cpu_seconds - spent))


def _url(site: MetalSite) -> str:
    """The image, at the HTTP server of the admin node."""
    (host,) = site.admins
    build = host.read(f"http/images/{metalimages.SYSTEM}/newest").strip()
    return f"http://{host.address}:8480/images/{metalimages.SYSTEM}/{build}/disk.tar"


def _sshd_answers(address: str) -> bool:
    try:
        with socket.create_connection((address, 22), timeout=2.0) as channel:
            channel.settimeout(30.0)
            return channel.recv(4) == b"SSH-"
    except OSError:
        return False


def _median(values: Sequence[float]) -> float | None:
    return statistics.median(values) if values else None


def _words(parts: Parts) -> str:
    """The parts for the note.

    >>> _words([Part("dd", 12.34, 8.0), Part("logins", 9.0, 1.0)])
    'dd 12.3, logins 9.0'
    """
    return ", ".join(f"{part.what} {part.seconds:.1f}" for part in parts)
