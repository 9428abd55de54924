"""The cost of ten times as many noderoles for an annealer: CPU for each converged noderole, memory for each known one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from benchmarks import ensemble
from benchmarks.convergence import annealer, converge
from benchmarks.figure import Figure, Plan, interleaved
from nodepool_ocb.testing.grid import Grid

SMALL: Final = Grid(nodes=200, lanes=5, depth=10)
TIMES: Final = 10  # as many


def measure_cpu(plan: Plan) -> Iterator[Figure]:
    """Microseconds a noderole, of the annealer's process, from commit to all ACTIVE."""
    small = SMALL.of(plan.size(SMALL.nodes))
    large = small.of(small.nodes * TIMES)
    sides = {"small": lambda: _cpu(small), "large": lambda: _cpu(large)}
    cost = interleaved(plan.rounds, sides, warm_up=False)
    yield Figure(
        name="cpu",
        what=f"of the annealer, a noderole, at {large.size:,} noderoles",
        unit="us",
        ours=cost["large"] * 1e6,
        other=cost["small"] * 1e6,
        beside=f"us, at {small.size:,}",
        ratio=cost["large"] / cost["small"],
        bound="at most",
        target=1.25,
    )


def _cpu(grid: Grid) -> float:
    with ensemble.server() as server:
        return converge(server, grid).cpu_seconds / grid.size


def measure_memory(plan: Plan) -> Iterator[Figure]:
    """Bytes of an annealer for each ACTIVE noderole more that there is."""
    small = SMALL.of(plan.size(SMALL.nodes))
    small = Grid(nodes=small.nodes, lanes=small.lanes, depth=small.depth, active=True)
    large = small.of(small.nodes * (TIMES + 1))
    sides = {"small": lambda: _resident(small), "large": lambda: _resident(large)}
    bytes_ = interleaved(plan.rounds, sides, warm_up=False)
    each = (bytes_["large"] - bytes_["small"]) / (large.size - small.size)
    yield Figure(
        name="memory",
        what=f"of an annealer, each of {large.size - small.size:,} noderoles more",
        unit="bytes",
        ours=each,
        ratio=each,
        bound="at most",
        target=660,
        note=f"resident: {_mib(bytes_['small'])} at {small.size:,}, {_mib(bytes_['large'])} at {large.size:,}",
    )


def _mib(size: float) -> str:
    return f"{size / 2**20:,.0f} MiB"


def _resident(grid: Grid) -> float:
    with ensemble.server() as server:
        settings = ensemble.settings(server)
        with ensemble.session(settings) as session:
            grid.write(session)
        with annealer(settings) as process:
            process.start()
            return float(process.resident_bytes)
