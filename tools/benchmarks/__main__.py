"""``tools/bench annealer``: measures, prints a table, and exits 1 where a promise is not kept."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

import click
from rich.console import Console

from benchmarks import converging, dispatching, growing, idling, loading, machines, report, sending
from benchmarks.figure import Figure, Plan

BENCHMARKS: Final[Mapping[str, Callable[[Plan], Iterator[Figure]]]] = {
    "sets": sending.measure,
    "load": loading.measure,
    "converge": converging.measure,
    "dispatch": dispatching.measure,
    "cpu": growing.measure_cpu,
    "memory": growing.measure_memory,
    "machines": machines.measure,
    "idle": idling.measure,
}


@click.group()
def main() -> None:
    """Measure what was promised about speed."""


@main.command()
@click.option("--only", multiple=True, type=click.Choice(list(BENCHMARKS)), help="Only this one; may be repeated.")
@click.option("--rounds", default=5, show_default=True, type=click.IntRange(1), help="Of each, in turns.")
@click.option("--json", "file", type=click.Path(path_type=Path, dir_okay=False), help="Write the figures there, too.")
@click.option("--quick", is_flag=True, help="A tenth of the size, one round: whether it works, not how fast.")
def annealer(only: tuple[str, ...], rounds: int, file: Path | None, quick: bool) -> None:
    """The annealer's figures, each beside its floor or peer; exit status 1 where one is missed, unless --quick."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # by way of every finally: servers must not outlive us
    plan = Plan(rounds=1, share=0.1) if quick else Plan(rounds=rounds)
    figures: list[Figure] = []
    said = Console(stderr=True)
    for name in only or BENCHMARKS:
        with said.status(f"measuring {name}"):
            figures += BENCHMARKS[name](plan)
    report.show(figures, Console())
    if file is not None:
        report.write(file, figures, plan)
    sys.exit(1 if not quick and any(figure.holds is False for figure in figures) else 0)


if __name__ == "__main__":
    main()
