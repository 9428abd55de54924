"""``tools/mutants``: changes pieces of the product, one at a time, and says which change no test notices."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import click
import msgspec
from rich.console import Console

from mutation import forks, judged, report
from mutation.judge import question, verdicts
from mutation.mutant import sample
from mutation.places import SERVED, places
from mutation.report import Case
from mutation.servers import server
from mutation.tests import Reach, Room, Watching, ran

ROOT: Final = Path(__file__).resolve().parents[2]
#: What may be changed, and where it is.
FOLDERS: Final = {
    **{
        name: f"nodepool_ocb/{name}"
        for name in ("engine", "rollout", "images", "pool", "catalogue", "operations", "store")
    },
    "annealer": "annealer/nodepool_ocb_annealer",
}
JUDGED: Final = ROOT / "tests/journeys/judged_mutants.yaml"
REACH: Final = ROOT / ".venv-mutants/reach.jsonl"


@click.command()
@click.option("--sample", "size", type=click.IntRange(1), help="So many of them; all without it, which takes hours.")
@click.option("--only", multiple=True, type=click.Choice(list(FOLDERS)), help="Only this folder; repeatable.")
@click.option("--match", default="", help="Only files whose path has this in it.")
@click.option("--seed", default=1, show_default=True, help="Another seed is another sample.")
@click.option("--budget", default=20.0, show_default=True, help="Seconds of tests for one mutant, by their usual time.")
@click.option("--fresh", is_flag=True, help="Watch anew what each test reaches.")
@click.option("--list", "listing", is_flag=True, help="Show the sample, and judge nothing.")
@click.option("--json", "file", type=click.Path(path_type=Path, dir_okay=False), help="Write all of it there, too.")
@click.option("--at-least", default=0.0, help="Exit status 1 where fewer of 100 are killed.")
def main(
    size: int | None,
    only: tuple[str, ...],
    match: str,
    seed: int,
    budget: float,
    fresh: bool,
    listing: bool,
    file: Path | None,
    at_least: float,
) -> None:
    """Change the product in one place at a time, and say which change no test notices."""
    console = Console()
    files = [each for each in sources(only or FOLDERS) if match in each]
    judgement = judged.read(JUDGED)
    for entry in judgement.idle(ROOT, files):
        console.print(f"judged, and not there any more: {entry.file} {entry.function}\n{entry.change}", markup=False)
    drawn = sample(ROOT, files, size, seed)
    cases: list[Case] = []
    if listing:
        for mutant in drawn:
            console.print(f"{mutant.file}:{mutant.line} {mutant.function}\n{mutant.change}\n", markup=False)
        return
    with room([FOLDERS[name] for name in only or FOLDERS]) as ours:
        reaches = watched(ours, fresh)
        questions = [question(mutant, reaches, budget) for mutant in drawn]
        for mutant, verdict in verdicts(ours, questions):
            cases.append(Case(mutant=mutant, verdict=verdict, reason=judgement.reason(mutant)))
            report.survivor(cases[-1], console)
            print(f"\r{len(cases)} of {len(drawn)}\r", end="", file=sys.stderr, flush=True)
    report.show(cases, console)
    if file is not None:
        report.write(file, cases)
    sys.exit(report.shares(cases)[-1].percent < at_least)


def sources(names: Iterable[str]) -> list[str]:
    """The modules of these folders, below the root."""
    found = (path for name in names for path in (ROOT / FOLDERS[name]).rglob("*.py"))
    return sorted(str(path.relative_to(ROOT)) for path in found)


@contextlib.contextmanager
def room(folders: Sequence[str]) -> Iterator[Room]:
    """Where the tests of these folders of the product run; nothing of it is left afterwards."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder, contextlib.ExitStack() as stack:
        os.environ["TMPDIR"] = tempfile.tempdir = folder
        stack.callback(_unmount, folder)
        shared = stack.enter_context(server()) if any(each in SERVED for each in folders) else None
        yield Room(ROOT, places(ROOT, folders), shared, Path(folder))


def _unmount(folder: str) -> None:
    """Tests that were ended may have left small disks there."""
    mounted = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
    for place in mounted:
        if place.startswith(f"{folder}/"):
            subprocess.run(["umount", "--lazy", place], check=False)


def watched(ours: Room, fresh: bool) -> list[Reach]:
    """The functions that each test reaches. A test is watched again if its file has changed; the product may have."""
    known = {} if fresh or not REACH.exists() else {reach.test: reach for reach in _read()}
    files = sources(FOLDERS)

    def watch(send: forks.Send) -> None:
        status = ran(ours.places, ours, Watching(ours, files, known, send))
        if status:
            raise SystemExit(f"the tests could not be collected: pytest says {status}")

    with REACH.open("wb" if fresh else "ab") as kept:
        for number, line in enumerate(forks.lines(watch), 1):
            kept.write(line + b"\n")
            kept.flush()
            print(f"\r{number} tests watched", end="", file=sys.stderr, flush=True)
            reach = msgspec.json.decode(line, type=Reach)
            known[reach.test] = reach
    print(file=sys.stderr)
    return [reach for reach in known.values() if reach.test.startswith(ours.places)]


def _read() -> Iterator[Reach]:
    for line in REACH.read_bytes().splitlines():
        yield msgspec.json.decode(line, type=Reach)


if __name__ == "__main__":
    main()
