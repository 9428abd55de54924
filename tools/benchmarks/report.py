"""The table for people, and the JSON for programs."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table

from benchmarks.figure import Figure, Plan

_VERDICT = {True: "[green]yes[/]", False: "[red]NO[/]", None: "[yellow]not measured[/]"}


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
            f"{number(figure.ours)} {figure.unit}",
            beside,
            number(figure.ratio),
            f"{sign} {number(figure.target)}",
            _VERDICT[figure.holds],
        )
    return shown


def number(value: float | None) -> str:
    """Three figures that count.

    >>> number(0.01234), number(12345.6), number(2.0), number(None)
    ('0.0123', '12,346', '2', '-')
    """
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def write(file: Path, figures: Iterable[Figure], plan: Plan) -> None:
    """Print the figures, and the machine of the measurement."""
    shown: list[dict[str, Any]] = [{**msgspec.structs.asdict(figure), "holds": figure.holds} for figure in figures]
    about = {
        "measured": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "cpus": os.cpu_count(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "rounds": plan.rounds,
        "share": plan.share,
    }
    file.write_bytes(msgspec.json.format(msgspec.json.encode({**about, "figures": shown})) + b"\n")


def show(figures: Iterable[Figure], console: Console) -> None:
    console.print(table(figures))
