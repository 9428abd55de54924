"""The CPU of commands, beside the same commands of another checkout: help, and reads of small and large clusters.

Each round is a process of its own. Its CPU is user and system time, also of the interpreter. Both checkouts run with this
Python and its packages, in turns, so that a slow minute slows both. Other work on the computer slows both as well: the
note of each figure has the load, and the spread of both sides.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from benchmarks import ensemble
from benchmarks.figure import Figure, Plan, rounds_of
from nodepool_ocb.testing.grid import Grid

OURS: Final = Path(__file__).parents[2]
PARTS: Final = (".", "annealer", "builder", "launcher", "schemas")  # of a checkout: the folders with packages
PROGRAM: Final = "import sys; sys.argv[0] = 'nodepool-ocb'; from nodepool_ocb.cli.main import main; main()"
HELPS: Final = ("--help", "node --help", "noderole --help", "rollout --help", "image --help")
READS: Final = ("node list", "status", f"node show {Grid(nodes=1).fqdn(0)}")
SIZES: Final = (10_000, 100_000)  # noderoles
DEPTH: Final = 10  # noderoles of a node
TARGET: Final = 1.05  # not more than the other checkout, within the spread of a calm computer

Measured = Mapping[str, Sequence[float]]


def measure_help(plan: Plan) -> Iterator[Figure]:
    """The start alone."""
    for line in HELPS:
        yield _figure(plan, "help", line, {})


def measure_reads(plan: Plan) -> Iterator[Figure]:
    """Commands that read a cluster."""
    for full in SIZES:
        grid = Grid(nodes=plan.size(full // DEPTH), depth=DEPTH)
        with ensemble.server() as server:
            settings = ensemble.settings(server)
            with ensemble.session(settings) as session:
                grid.write(session)
            for line in READS:
                what = f"{line}, {grid.size:,} noderoles"
                yield _figure(plan, "reads", line, {"NODEPOOL_OCB_ZOOKEEPER": settings.hosts}, what)


def folders(checkout: Path) -> str:
    """The folders of a checkout with packages, for PYTHONPATH."""
    return os.pathsep.join(str(checkout / part) for part in PARTS)


def cpu_ms(checkout: Path, line: str, environment: Mapping[str, str]) -> float:
    """User and system time of one command of a checkout, in ms. Raises RuntimeError if the command fails."""
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *line.split()],
        env={**os.environ, **environment, "PYTHONPATH": folders(checkout)},
        cwd="/",  # no file beside this one is taken for a package
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{line} of {checkout} ended with {process.returncode}")
    return (usage.ru_utime + usage.ru_stime) * 1000


def _figure(plan: Plan, name: str, line: str, environment: Mapping[str, str], what: str = "") -> Figure:
    sides: dict[str, Callable[[], float]] = {"ours": lambda: cpu_ms(OURS, line, environment)}
    against = plan.against
    if against is not None:
        sides["other"] = lambda: cpu_ms(against, line, environment)
    before = os.getloadavg()[0]
    measured = rounds_of(plan.rounds, sides)
    ours = statistics.median(measured["ours"])
    other = statistics.median(measured["other"]) if against is not None else None
    return Figure(
        name=name,
        what=f"{what or line}: CPU",
        unit="ms",
        ours=ours,
        other=other,
        beside=f"ms, {against}" if against is not None else "give --against DIR",
        ratio=ours / other if other is not None else None,
        bound="at most",
        target=TARGET,
        note=f"{_spread(measured)}; load {before:.1f} before, {os.getloadavg()[0]:.1f} after",
    )


def _spread(measured: Measured) -> str:
    """The range of each side.

    >>> _spread({"ours": [81.6, 90.2], "other": [80.0, 80.4]})
    'ours 82 to 90, other 80 to 80'
    """
    return ", ".join(f"{side} {min(values):.0f} to {max(values):.0f}" for side, values in measured.items())
