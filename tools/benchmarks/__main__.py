"""``tools/bench annealer|builder|...|metal``: measures, prints a table, and exits 1 where a promise is not kept."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final, NoReturn, TypeAlias, TypeVar

import click
from rich.console import Console

from benchmarks import (
    booting,
    building,
    converging,
    dispatching,
    everyday,
    growing,
    idling,
    loading,
    planning,
    report,
    sending,
    sharing,
    starting,
)
from benchmarks.figure import Figure, Plan
from benchmarks.machines import latency, links, payloads, rates, writes
from benchmarks.pools import enrolling, handing_out, queueing, resting
from benchmarks.serving import crowding, listing
from benchmarks.serving import idling as resting_api

Benchmark: TypeAlias = Callable[[Plan], Iterator[Figure]]
F = TypeVar("F", bound=Callable[..., object])

ANNEALER: Final[Mapping[str, Benchmark]] = {
    "sets": sending.measure,
    "load": loading.measure,
    "converge": converging.measure,
    "sharing": sharing.measure,
    "dispatch": dispatching.measure,
    "cpu": growing.measure_cpu,
    "memory": growing.measure_memory,
    "machines": rates.measure,
    "latency": latency.measure,
    "payloads": payloads.measure,
    "links": links.measure,
    "zookeeper": writes.measure,
    "idle": idling.measure,
}
BUILDER: Final[Mapping[str, Benchmark]] = {"builder": building.measure}
LAUNCHER: Final[Mapping[str, Benchmark]] = {
    "hand-out": handing_out.measure,
    "queue": queueing.measure,
    "rest": resting.measure,
    "enrol": enrolling.measure,
}
API: Final[Mapping[str, Benchmark]] = {"list": listing.measure, "rest": resting_api.measure, "events": crowding.measure}
TASKS: Final[Mapping[str, Benchmark]] = {"plans": planning.measure}
CLI: Final[Mapping[str, Benchmark]] = {
    "help": starting.measure_help,
    "reads": starting.measure_reads,
    "everyday": everyday.measure_everyday,
}
METAL: Final[Mapping[str, Benchmark]] = {"metal": booting.measure}


@click.group()
def main() -> None:
    """Measure the promised speed."""


def benchmarked(benchmarks: Mapping[str, Benchmark], rounds: int = 5) -> Callable[[F], F]:
    """A decorator: the options of a command that measures, by default in so many rounds."""

    def decorate(command: F) -> F:
        for option in (
            click.option(
                "--quick", is_flag=True, help="A tenth of the size, one round: whether it works, not how fast."
            ),
            click.option(
                "--json", "file", type=click.Path(path_type=Path, dir_okay=False), help="Write them there, too."
            ),
            click.option(
                "--rounds", default=rounds, show_default=True, type=click.IntRange(1), help="Of each, in turns."
            ),
            click.option("--only", multiple=True, type=click.Choice(list(benchmarks)), help="Only this; repeatable."),
        ):
            command = option(command)
        return command

    return decorate


@main.command()
@benchmarked(ANNEALER)
def annealer(only: tuple[str, ...], rounds: int, file: Path | None, quick: bool) -> None:
    """The annealer's figures, each beside its floor or peer; exit status 1 where one is missed, unless --quick."""
    measure(ANNEALER, only, Plan(rounds=1, share=0.1) if quick else Plan(rounds=rounds), file)


@main.command()
@benchmarked(BUILDER)
def builder(only: tuple[str, ...], rounds: int, file: Path | None, quick: bool) -> None:
    """The builder's figures; exit status 1 where one is missed, unless --quick."""
    measure(BUILDER, only, Plan(rounds=1, share=0.1) if quick else Plan(rounds=rounds), file)


@main.command()
@benchmarked(LAUNCHER)
def launcher(only: tuple[str, ...], rounds: int, file: Path | None, quick: bool) -> None:
    """The launcher's figures, beside Nodepool 11 from PyPI; exit status 1 where one is missed, unless --quick."""
    measure(LAUNCHER, only, Plan(rounds=1, share=0.1) if quick else Plan(rounds=rounds), file)


@main.command()
@benchmarked(API)
def api(only: tuple[str, ...], rounds: int, file: Path | None, quick: bool) -> None:
    """The figures of the API server; exit status 1 where one is missed, unless --quick."""
    measure(API, only, Plan(rounds=1, share=0.1) if quick else Plan(rounds=rounds), file)


@main.command()
@benchmarked(TASKS)
def tasks(only: tuple[str, ...], rounds: int, file: Path | None, quick: bool) -> None:
    """The figures of task lists; exit status 1 where one is missed, unless --quick."""
    measure(TASKS, only, Plan(rounds=1, share=0.1) if quick else Plan(rounds=rounds), file)


@main.command()
@benchmarked(CLI)
@click.option(
    "--against",
    type=click.Path(exists=True, file_okay=False, resolve_path=True, path_type=Path),
    help="The peer: another checkout, such as a worktree of the commit before.",
)
def cli(only: tuple[str, ...], rounds: int, file: Path | None, quick: bool, against: Path | None) -> None:
    """The CPU of commands beside those of another checkout; exit status 1 where one costs more, unless --quick."""
    plan = Plan(rounds=1, share=0.1, against=against) if quick else Plan(rounds=rounds, against=against)
    measure(CLI, only, plan, file)


@main.command()
@benchmarked(METAL, rounds=1)
def metal(only: tuple[str, ...], rounds: int, file: Path | None, quick: bool) -> None:
    """A virtual machine from power to ACTIVE, beside bare boots; exit status 1 where it takes too long, unless --quick."""
    measure(METAL, only, Plan(rounds=1, share=0.1) if quick else Plan(rounds=rounds), file)


def measure(benchmarks: Mapping[str, Benchmark], only: tuple[str, ...], plan: Plan, file: Path | None) -> NoReturn:
    """Measure, show, write; exit. After an interrupt the parts that were measured are shown and written."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # by way of every finally: servers must not outlive us
    figures: list[Figure] = []
    took: dict[str, float] = {}
    said = Console(stderr=True)
    try:
        for name in only or benchmarks:
            began = time.monotonic()
            with said.status(f"measuring {name}"):
                figures += benchmarks[name](plan)
            took[name] = time.monotonic() - began
            said.print(f"{name}: {took[name]:.0f} s, load {os.getloadavg()[0]:.1f}", highlight=False)
        said.print(f"all: {sum(took.values()) / 60:.1f} min", highlight=False)
    finally:
        report.show(figures, Console())
        if file is not None:
            report.write(file, figures, plan, took)
    whole = plan.share == 1.0
    sys.exit(1 if whole and any(figure.holds is False for figure in figures) else 0)


if __name__ == "__main__":
    main()
