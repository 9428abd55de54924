"""The CPU and the memory of everyday commands on a large cluster, against the promised ones: 2,000 nodes with 50 noderoles each.

All noderoles have run, and every fifth is outdated. Each round is a process of its own. Its CPU is user and system time, with
that of the interpreter. Other work on the computer raises it: the note of each figure has the load.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from msgspec.structs import replace

from benchmarks import ensemble
from benchmarks.figure import Figure, Plan, rounds_of
from benchmarks.starting import OURS, PROGRAM, folders
from nodepool_ocb.engine import inputs
from nodepool_ocb.model.records import NodeRole, Role
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.world.load import load_world
from nodepool_ocb.testing.grid import Grid

NODES: Final = 2_000
DEPTH: Final = 50
OUTDATED: Final = 5  # every fifth
NEVER: Final = 12_345  # a digest of inputs that no role has
FIRST: Final = Grid(nodes=1).fqdn(0)
LAST: Final = f"step-{DEPTH - 1}-0@{FIRST}"

#: The commands, and the seconds of CPU that each may take. ``{site}`` is the exported file.
TARGETS: Final[Mapping[str, float]] = {
    "status": 2.0,
    "node list": 1.0,
    f"node show {FIRST}": 0.4,
    f"noderole list --node {FIRST}": 0.4,
    f"noderole show {LAST}": 0.4,
    f"noderole explain {LAST}": 0.4,
    f"noderole attributes {LAST}": 0.4,
    f"noderole refresh {LAST}": 0.4,
    "export": 5.0,
    "apply -f {site}": 5.0,
}
EXPORT_MIB: Final = 200.0  # of memory, at most


class Usage(NamedTuple):
    """Of one process."""

    seconds: float  # of CPU
    mib: float  # of memory, at most


class RunGrid(Grid, frozen=True, kw_only=True):
    """A grid of noderoles that have run, with the inputs ``given``."""

    given: int = 0

    def record(self, node: int, level: int, lane: int) -> NodeRole:
        old = (node * self.depth + level) % OUTDATED == 0
        return replace(super().record(node, level, lane), given=NEVER if old else self.given)


def grid(nodes: int) -> RunGrid:
    """The cluster: each node by itself, its noderoles one above the other."""
    return RunGrid(nodes=nodes, depth=DEPTH, across=False, active=True, role=Role(barclamp="bench", jig="test"))


def write(session: Session, nodes: int) -> None:
    """Write the cluster, in an empty chroot."""
    small = grid(1)
    small.write(session)
    world = load_world(session)
    (vertex,) = (each for each in world.vertices() if each.name == LAST)
    given = inputs.judged(inputs.sources(world, vertex, world.role_of(vertex)), {}).number
    replace(grid(nodes), given=given).extend(session, small.nodes)


def measure_everyday(plan: Plan) -> Iterator[Figure]:
    """Each command, and the memory of ``export``."""
    with ensemble.server() as server, TemporaryDirectory() as folder:
        settings = ensemble.settings(server)
        with ensemble.session(settings) as session:
            write(session, plan.size(NODES))
        site = Path(folder) / "site.yaml"
        environment = {"NODEPOOL_OCB_ZOOKEEPER": settings.hosts}
        used(OURS, "export", environment, site)
        for line, target in TARGETS.items():
            words = line.format(site=site)
            before = os.getloadavg()[0]
            measured: list[Usage] = []

            def once(words: str = words, measured: list[Usage] = measured) -> float:
                measured.append(used(OURS, words, environment))
                return measured[-1].seconds

            seconds = rounds_of(plan.rounds, {"ours": once})["ours"]
            yield _figure(line, "s", seconds, target, before)
            if line == "export":
                yield _figure("export: memory", "MiB", [each.mib for each in measured], EXPORT_MIB, before)


def used(checkout: Path, line: str, environment: Mapping[str, str], output: Path | None = None) -> Usage:
    """The CPU and memory of one command of a checkout. Raises RuntimeError if the command fails."""
    with open(output or os.devnull, "wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *line.split()],
            env={**os.environ, **environment, "PYTHONPATH": folders(checkout)},
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.DEVNULL,
        )
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{line} of {checkout} ended with {process.returncode}")
    return Usage(usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def _figure(what: str, unit: str, values: Sequence[float], target: float, load: float) -> Figure:
    ours = statistics.median(values)
    return Figure(
        name="everyday",
        what=f"{what.replace(' {site}', ' SITE')}: {'CPU' if unit == 's' else 'peak'}",
        unit=unit,
        ours=ours,
        ratio=ours,
        bound="at most",
        target=target,
        note=f"{min(values):.2f} to {max(values):.2f} {unit}; load {load:.1f} before, {os.getloadavg()[0]:.1f} after",
    )
