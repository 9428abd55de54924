"""The table for people, and the JSON for programs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path

import msgspec
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from mutation.judge import Verdict
from mutation.mutant import Mutant

KILLED = ("killed", "time-out")


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """A mutant and its result; ``reason`` is the reason why it may survive."""

    mutant: Mutant
    verdict: Verdict
    reason: str | None = None

    @property
    def killed(self) -> bool:
        return self.verdict.fate in KILLED

    @property
    def folder(self) -> str:
        top, below = self.mutant.file.split("/")[:2]
        return below if top == "nodepool_ocb" else top


class Share(msgspec.Struct, frozen=True, kw_only=True):
    """How many of the mutants of a folder were killed; those that may survive count beside, not among them."""

    folder: str
    killed: int
    judged: int
    survived: int

    @property
    def percent(self) -> float:
        """Of all of them.

        >>> Share(folder="engine", killed=9, judged=1, survived=0).percent
        90.0
        """
        return 100 * self.killed / max(1, self.killed + self.judged + self.survived)


def shares(cases: Iterable[Case]) -> list[Share]:
    """For each folder, and then for all."""
    ordered = sorted(cases, key=lambda case: case.folder)
    folders = [(folder, list(each)) for folder, each in groupby(ordered, key=lambda case: case.folder)]
    return [_share(folder, each) for folder, each in [*folders, ("all", ordered)]]


def _share(folder: str, cases: Sequence[Case]) -> Share:
    killed = sum(case.killed for case in cases)
    judged = sum(case.reason is not None and not case.killed for case in cases)
    return Share(folder=folder, killed=killed, judged=judged, survived=len(cases) - killed - judged)


def survivor(case: Case, console: Console) -> None:
    """Its change, where it survives without a reason."""
    if not case.killed and case.reason is None:
        console.print(line(case), soft_wrap=True)


def show(cases: Sequence[Case], console: Console) -> None:
    """The shares, folder by folder."""
    table = Table(box=None, pad_edge=False)
    for heading in ("folder", "killed", "judged", "survived", "killed of 100"):
        table.add_column(heading, justify="left" if heading == "folder" else "right")
    for share in shares(cases):
        table.add_row(share.folder, str(share.killed), str(share.judged), str(share.survived), f"{share.percent:.0f}")
    console.print(table)


def line(case: Case) -> str:
    """A mutant as people see it."""
    mutant, verdict = case.mutant, case.verdict
    left = f", {verdict.left} beyond the budget not" if verdict.left else ""
    asked = f"{verdict.asked} tests asked{left}" if verdict.fate == "survived" else verdict.by
    colour = "green" if case.killed else "red"
    place = f"{mutant.file}:{mutant.line} {mutant.function}"
    return f"[{colour}]{verdict.fate}[/] [bold]{escape(place)}[/] [dim]{escape(asked)}[/]\n{escape(mutant.change)}\n"


def write(file: Path, cases: Sequence[Case]) -> None:
    """Every case, without the sources."""
    plain = [msgspec.structs.replace(case, mutant=msgspec.structs.replace(case.mutant, source="")) for case in cases]
    about = {"shares": shares(cases), "cases": plain}
    file.write_bytes(msgspec.json.format(msgspec.json.encode(about)) + b"\n")
