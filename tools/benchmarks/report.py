"""The table for people, and the JSON for programs."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table

from benchmarks.figure import Figure, Plan

_VERDICT = {True: "[green]yes[/]", False: "[red]NO[/]", None: "[yellow]not measured[/]"}
_UNPROMISED = "-"


def table(figures: Iterable[Figure]) -> Table:
    """One line a figure; the notes below each."""
    shown = Table(box=None, pad_edge=False)
    for heading in ("figure", "ours", "floor or peer", "ratio", "target", "holds"):
        shown.add_column(heading, justify="left" if heading in ("figure", "floor or peer", "holds") else "right")
    for figure in figures:
        name = f"[bold]{figure.name}[/] {figure.what}" + (f"\n[dim]{figure.note}[/]" if figure.note else "")
        sign = "≥" if figure.bound == "at least" else "≤"
        beside = f"{number(figure.other)} {figure.beside}" if figure.other is not None else figure.beside
        shown.add_row(
            name,
            f"{number(figure.ours)} {figure.unit}" + _late(figure.p99),
            beside + _late(figure.other_p99),
            number(figure.ratio),
            _UNPROMISED if figure.target is None else f"{sign} {number(figure.target)}",
            _UNPROMISED if figure.target is None else _VERDICT[figure.holds],
        )
    return shown


def _late(p99: float | None) -> str:
    return "" if p99 is None else f"\n[dim]p99 {number(p99)}[/]"


def summary(figures: Sequence[Figure]) -> str:
    """How many promises hold, and how many could not be measured."""
    promised = [figure.holds for figure in figures if figure.target is not None]
    kept, broken, unknown = (promised.count(holds) for holds in (True, False, None))
    text = f"{kept} of {len(promised)} promises hold, {broken} do not"
    return f"{text}; {unknown} could not be measured, which is no pass" if unknown else text


def number(value: float | None) -> str:
    """Three figures that count.

    >>> number(0.01234), number(12345.6), number(2.0), number(None)
    ('0.0123', '12,346', '2', '-')
    """
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def write(file: Path, figures: Iterable[Figure], plan: Plan, took: Mapping[str, float]) -> None:
    """Print the figures, the seconds that each part took, and the machine of the measurement."""
    shown: list[dict[str, Any]] = [{**msgspec.structs.asdict(figure), "holds": figure.holds} for figure in figures]
    about = {
        "measured": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "cpus": os.cpu_count(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "rounds": plan.rounds,
        "share": plan.share,
        "load": os.getloadavg(),
        "seconds": {name: round(seconds, 1) for name, seconds in took.items()},
    }
    file.write_bytes(msgspec.json.format(msgspec.json.encode({**about, "figures": shown})) + b"\n")


def show(figures: Sequence[Figure], console: Console) -> None:
    console.print(table(figures))
    console.print(summary(figures))
