"""A mutant: the product with one changed piece; and a sample of all mutants.

The order of a sample is that of a hash over the seed, the function and the number of the change in it. So a sample
hardly moves when code changes elsewhere.
"""

from __future__ import annotations

import ast
import difflib
import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import libcst as cst
import msgspec

from mutation.operators import mutated, untouched


class Mutant(msgspec.Struct, frozen=True, kw_only=True):
    """A change of a file. ``function`` is empty outside of functions; ``source`` is the whole file, changed."""

    file: str
    function: str  # as Python names it: World.parents, bound.<locals> is its outermost
    line: int
    change: str  # a diff without places: lines that begin with - and with +
    source: str = msgspec.field(default="")

    @property
    def key(self) -> tuple[str, str, str]:
        """A key that does not depend on other code."""
        return self.file, self.function, self.change


class _Candidate(NamedTuple):
    file: _File
    statement: int  # of those of the module, the one that it is in
    function: str
    node: cst.CSTNode
    instead: cst.CSTNode
    order: bytes


class _File:
    """A module in pieces. Raises the errors of libcst if it is no Python."""

    def __init__(self, root: Path, name: str) -> None:
        self.name = name
        self.source = (root / name).read_text()
        self.program = ast.dump(ast.parse(self.source))
        self.module = cst.parse_module(self.source)

    @cached_property
    def _parts(self) -> list[str]:
        return [self.module.code_for_node(statement) for statement in self.module.body]

    def pieces(self) -> Iterator[tuple[int, str, cst.CSTNode]]:
        """Every one that may be changed: number of its statement, its outermost function, itself."""
        for number, statement in enumerate(self.module.body):
            for function, node in _pieces(statement, (), ""):
                yield number, function, node

    def changed(self, number: int, node: cst.CSTNode, instead: cst.CSTNode) -> str:
        """The source with another piece in the place of this one."""
        statement = self.module.body[number].deep_replace(node, instead)
        parts = [*self._parts]
        parts[number] = self.module.code_for_node(statement) if isinstance(statement, cst.CSTNode) else ""
        around = (self.module.header, self.module.footer)
        header, footer = ("".join(map(self.module.code_for_node, lines)) for lines in around)
        return header + "".join(parts) + footer


def sample(root: Path, files: Iterable[str], size: int | None, seed: int) -> list[Mutant]:
    """So many mutants of these files (None: all), in the order of the draw; none twice."""
    candidates = [candidate for file in files for candidate in _candidates(_File(root, file), seed)]
    drawn: dict[tuple[str, str, str], Mutant] = {}
    for candidate in sorted(candidates, key=lambda candidate: candidate.order):
        if size is not None and len(drawn) == size:
            break
        if mutant := _made(candidate):
            drawn.setdefault(mutant.key, mutant)
    return list(drawn.values())


def _candidates(file: _File, seed: int) -> Iterator[_Candidate]:
    numbers: Counter[str] = Counter()
    for statement, function, node in file.pieces():
        for instead in mutated(node):
            numbers[function] += 1
            words = f"{seed} {file.name} {function} {numbers[function]}"
            yield _Candidate(file, statement, function, node, instead, hashlib.sha256(words.encode()).digest())


def _pieces(node: cst.CSTNode, within: tuple[str, ...], function: str) -> Iterator[tuple[str, cst.CSTNode]]:
    if untouched(node):
        return
    if isinstance(node, cst.FunctionDef | cst.ClassDef):
        within = (*within, node.name.value)
    yield function, node
    for child in node.children:
        inside = isinstance(node, cst.FunctionDef) and child is node.body and not function
        yield from _pieces(child, within, ".".join(within) if inside else function)


def _made(candidate: _Candidate) -> Mutant | None:
    """None where it is no Python, or the same program."""
    file = candidate.file
    after = file.changed(candidate.statement, candidate.node, candidate.instead)
    try:
        if ast.dump(ast.parse(after)) == file.program:
            return None
        compile(after, file.name, "exec", dont_inherit=True)
    except SyntaxError:
        return None
    lines = list(difflib.unified_diff(file.source.splitlines(), after.splitlines(), n=0, lineterm=""))[2:]
    place = next(line for line in lines if line.startswith("@@"))
    return Mutant(
        file=file.name,
        function=candidate.function,
        line=int(place.split()[1].lstrip("-").split(",")[0]),
        change="\n".join(line for line in lines if not line.startswith("@@")),
        source=after,
    )
