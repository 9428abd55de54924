"""The places in the product that write to ZooKeeper: found in its source, and in the stack of a transaction.

A *site* is a call of ``commit``, ``commit_soon`` or ``create_next`` of a session, or of ``send`` of an annealer. Its name is
that of its function, numbered where the function has several: ``store.locks.Locks.sweep``, ``builder.build.Build._end#2``.
A site that writes transactions of several kinds is one for each kind: ``... : rollout``.
"""

from __future__ import annotations

import ast
import functools
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import FrameType
from typing import Any, Final, NamedTuple

import nodepool_ocb
import nodepool_ocb_annealer
import nodepool_ocb_builder

#: The folders that are searched; the sites of the last begin with the name of its room: ``store``, ``cli``.
ROOTS: Final = {
    "annealer": Path(str(nodepool_ocb_annealer.__file__)).parent,
    "builder": Path(str(nodepool_ocb_builder.__file__)).parent,
    "": Path(str(nodepool_ocb.__file__)).parent,
}
#: Not searched: the room that sends transactions, and the stand-ins for tests.
LEFT_OUT: Final = ("store/client/", "testing/")
_SESSION: Final = re.compile(r"(.*[._])?(session|opened|super\(\)|Session)")
_CONTEXT: Final = re.compile(r"(.*[._])?context")
_WRITES: Final = {"commit": _SESSION, "commit_soon": _SESSION, "create_next": _SESSION, "send": _CONTEXT}

_NAMED: Final = re.compile(rf"\.({'|'.join(_WRITES)})\(")

#: They pass on the transactions of others: the site is their caller.
CARRIERS: Final = frozenset({"annealer.writing.Writing.send", "store.journal.Journaled.commit"})


class WriteCall(NamedTuple):
    """One call in the source; ``lines``: the first and the last of it."""

    name: str
    lines: tuple[int, int]


def _hook(frame: FrameType) -> str:
    return str(frame.f_locals["asked"].kind)


def _work(frame: FrameType) -> str:
    return str(frame.f_locals["self"]._work.what)


def _caller(frame: FrameType) -> str:
    return frame.f_back.f_code.co_name.lstrip("_") if frame.f_back is not None else ""


def _end(frame: FrameType) -> str:
    attempt: Any = frame.f_locals["attempt"]
    if attempt.state.oversized:
        return "alone"
    following = type(attempt.following).__name__
    return {"NoneType": "together", "Attempt": "passed on", "InlineBatch": "at once"}[following]


def _claim(frame: FrameType) -> str:
    return "new" if frame.f_locals["grant"].previous_epoch is None else "taken over"


_DRIVEN: Final = ("rollout", "run of tasks")
_DRIVERS: Final = "annealer.driving.drivers.Drivers."

#: The kinds of the transactions of a site, and the kind of one by the frame of the site.
KINDS: Final[Mapping[str, tuple[tuple[str, ...], Callable[[FrameType], str]]]] = {
    "annealer.hooks.hooking.Hooking._send": (("hook-noderole", "hook-node", "hook-deployment"), _hook),
    **{
        f"{_DRIVERS}{name}": (_DRIVEN, _work)
        for name in ("_hand_over", "_handed", "_let_go", "_take", "_close", "_write")
    },
    "annealer.runs.executor.Executor.begin": (("new", "taken over"), _claim),
    "annealer.runs.executor.Executor._write": (("together", "passed on", "at once", "alone"), _end),
    "annealer.runs.executor.Executor._give_back": (("put_back", "leave", "release"), _caller),
}


def names() -> set[str]:
    """Of all sites of the product, each with its kinds; carriers are left out."""
    found = {site.name for root in ROOTS.values() for file in root.rglob("*.py") for site in sites(str(file))}
    return {
        name
        for site in found - CARRIERS
        for name in ([f"{site}: {kind}" for kind in KINDS[site][0]] if site in KINDS else [site])
    }


def here() -> str:
    """The innermost site in the stack; empty where a test writes."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        for site in sites(frame.f_code.co_filename):
            first, last = site.lines
            if first <= frame.f_lineno <= last and _function(site.name) not in CARRIERS:
                return f"{site.name}: {KINDS[site.name][1](frame)}" if site.name in KINDS else site.name
        frame = frame.f_back
    return ""


def _function(site: str) -> str:
    return site.partition("#")[0]


@functools.cache
def sites(file: str) -> list[WriteCall]:
    """Those in a file of the product; none in any other."""
    path = Path(file)
    root = next((name for name, folder in ROOTS.items() if path.is_relative_to(folder)), None)
    if root is None or path.relative_to(ROOTS[root]).as_posix().startswith(LEFT_OUT):
        return []
    module = ".".join([*root.split(), *path.relative_to(ROOTS[root]).with_suffix("").parts])
    text = path.read_text()
    calls = list(_calls(ast.parse(text), module)) if _NAMED.search(text) else []
    count: dict[str, int] = {}
    found = []
    for function, call in calls:
        count[function] = count.get(function, 0) + 1
        several = sum(each == function for each, _ in calls) > 1 and function not in CARRIERS
        name = f"{function}#{count[function]}" if several else function
        found.append(WriteCall(name, (call.lineno, call.end_lineno or call.lineno)))
    return found


def _calls(node: ast.AST, within: str) -> Iterator[tuple[str, ast.Call]]:
    for child in ast.iter_child_nodes(node):
        named = isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        yield from _calls(child, f"{within}.{child.name}" if named else within)
        if isinstance(child, ast.Call) and isinstance(child.func, ast.Attribute):
            receiver = _WRITES.get(child.func.attr)
            if receiver is not None and receiver.fullmatch(ast.unparse(child.func.value)):
                yield within, child
