"""The figures of a walk, from the lines of its trace."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec


class Figures(msgspec.Struct, frozen=True):
    """One walk through one program."""

    modules: tuple[str, ...]  # that are entered, in the order of the first call
    two_way: tuple[tuple[str, str], ...]  # pairs of modules that call each other

    @property
    def folders(self) -> tuple[str, ...]:
        """The folders of the first level with an entered module; a module outside them counts as one."""
        return tuple(sorted({name.partition("/")[0] for name in self.modules}))


class Call(msgspec.Struct, frozen=True):
    """A line of a trace."""

    at: float  # seconds since the epoch
    caller: str
    called: str


def calls(folder: Path, name: str) -> Iterator[Call]:
    """The calls of the processes that were traced as ``name``; a line that was cut off is left out."""
    for file in sorted(folder.glob(f"{name}.*")):
        for line in file.read_text(encoding="utf-8").splitlines():
            match line.split("\t"):
                case [at, caller, called] if called.endswith(".py"):
                    yield Call(float(at), caller, called)


def figures(found: Iterable[Call]) -> Figures:
    """Of these calls; they may come from several processes.

    >>> walk = figures([Call(1.0, "-", "cli/main.py"), Call(2.0, "cli/main.py", "a/b.py"), Call(3.0, "a/b.py", "cli/main.py")])
    >>> walk.modules, walk.folders, walk.two_way
    (('cli/main.py', 'a/b.py'), ('a', 'cli'), (('a/b.py', 'cli/main.py'),))
    """
    ordered = sorted(found, key=lambda call: call.at)
    edges = {(call.caller, call.called) for call in ordered}
    both = {(min(edge), max(edge)) for edge in edges if edge[::-1] in edges}
    return Figures(tuple(dict.fromkeys(call.called for call in ordered)), tuple(sorted(both)))
