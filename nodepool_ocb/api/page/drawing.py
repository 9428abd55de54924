"""A drawing by Graphviz as plain shapes: the page makes its elements from them, and reads no markup.

``dot`` gets a text of a bounded size, some seconds, some memory, and a group of its own, which is killed at the end of the time.
Few run at a time. A text that was drawn is not drawn again.
"""

from __future__ import annotations

import hashlib
import os
import re
import resource
import signal
import subprocess
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Final
from xml.etree import ElementTree

import msgspec

from nodepool_ocb.telemetry.terminal_escape import line

COMMAND: Final = ("dot", "-Tsvg")
SECONDS: Final = 10.0
MEMORY_BYTES: Final = 1 << 30
MOST_AT_ONCE: Final = 2
PATIENCE_SECONDS: Final = 5.0  # that a drawing waits for others
MOST_KEPT: Final = 64

_SVG: Final = "{http://www.w3.org/2000/svg}"
_NUMBER: Final = r"-?\d+(?:\.\d+)?"
#: The shapes that are taken, each with its attributes.
SHAPES: Final[Mapping[str, tuple[str, ...]]] = {
    "path": ("d",),
    "polygon": ("points",),
    "text": ("x", "y", "text-anchor", "font-size"),
}
_VALUE: Final = re.compile(r"[-0-9.,eMCLZz ]*|start|middle|end")
_BOX: Final = re.compile(r"b(\d{1,6})")
_VIEW: Final = re.compile(rf"{_NUMBER} {_NUMBER} ({_NUMBER}) ({_NUMBER})")
_SHIFT: Final = re.compile(rf"translate\(({_NUMBER}) ({_NUMBER})\)")


class Shape(msgspec.Struct, frozen=True):
    """One element: its name, its attributes, and the text of a text."""

    tag: str
    attributes: Mapping[str, str]
    text: str | None = None


class ShapeGroup(msgspec.Struct, frozen=True):
    """The shapes of a box, or of an arrow: then ``box`` is None."""

    box: int | None
    shapes: tuple[Shape, ...]


class GraphDrawing(msgspec.Struct, frozen=True):
    """``shift``: how far all shapes are moved, in both directions."""

    width: float
    height: float
    shift: tuple[float, float]
    groups: tuple[ShapeGroup, ...]


class Undrawn(msgspec.Struct, frozen=True):
    """Why there is no drawing; for a person."""

    reason: str


class Drawer:
    """Draws; thread-safe."""

    def __init__(self) -> None:
        self._slots = threading.BoundedSemaphore(MOST_AT_ONCE)
        self._kept: OrderedDict[bytes, GraphDrawing] = OrderedDict()  # by the digest of the text
        self._guard = threading.Lock()

    def draw(self, text: str) -> GraphDrawing | Undrawn:
        """The drawing of a text in Graphviz' language."""
        key = hashlib.blake2b(text.encode(), digest_size=16).digest()
        with self._guard:
            if (known := self._kept.get(key)) is not None:
                self._kept.move_to_end(key)
                return known
        if not self._slots.acquire(timeout=PATIENCE_SECONDS):
            return Undrawn("this server draws other graphs; it draws this one with the next try")
        try:
            svg = _svg(text)
        finally:
            self._slots.release()
        if isinstance(svg, Undrawn):
            return svg
        drawing = parsed(svg)
        with self._guard:
            self._kept[key] = drawing
            while len(self._kept) > MOST_KEPT:
                self._kept.popitem(last=False)
        return drawing


def _svg(text: str) -> bytes | Undrawn:
    pipe = subprocess.PIPE
    try:
        child = subprocess.Popen(COMMAND, stdin=pipe, stdout=pipe, stderr=pipe, cwd="/", start_new_session=True)
    except FileNotFoundError:
        return Undrawn("there is no program dot on the host of this server: apt-get install graphviz")
    except OSError as fault:
        return Undrawn(f"dot cannot be started on the host of this server: {fault.strerror}")
    with child:
        try:
            _bound(child.pid)  # before it gets its input
            out, said = child.communicate(text.encode(), timeout=SECONDS)
        except subprocess.TimeoutExpired:
            return Undrawn(f"dot has not drawn it within {SECONDS:g} seconds; take fewer steps, or a filter")
        finally:
            if child.poll() is None:
                with suppress(ProcessLookupError):
                    os.killpg(child.pid, signal.SIGKILL)
    if child.returncode:
        words = line(said.decode(errors="replace").strip())[:300] or f"it ended with {child.returncode}"
        return Undrawn(f"dot cannot draw it: {words}")
    return out


def _bound(pid: int) -> None:
    with suppress(ProcessLookupError):  # it has ended already, with a message
        resource.prlimit(pid, resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
        resource.prlimit(pid, resource.RLIMIT_CORE, (0, 0))


def parsed(svg: bytes) -> GraphDrawing:
    """The shapes of Graphviz' SVG; every other element and attribute is left out."""
    root = ElementTree.fromstring(svg)
    view = _VIEW.fullmatch(root.get("viewBox", ""))
    graph = root.find(f"{_SVG}g")
    if view is None or graph is None:
        return GraphDrawing(0.0, 0.0, (0.0, 0.0), ())
    shift = _SHIFT.search(graph.get("transform", ""))
    moved = (float(shift[1]), float(shift[2])) if shift else (0.0, 0.0)
    return GraphDrawing(float(view[1]), float(view[2]), moved, tuple(_groups(graph)))


def _groups(graph: ElementTree.Element) -> Iterator[ShapeGroup]:
    """Arrows stand before boxes, so that boxes are above them."""
    found = []
    for group in graph.findall(f"{_SVG}g"):
        named = _BOX.fullmatch(group.get("id", ""))
        shapes = tuple(shape for each in group.iter() if (shape := _shape(each)) is not None)
        found.append(ShapeGroup(int(named[1]) if named else None, shapes))
    yield from (each for each in found if each.box is None)
    yield from (each for each in found if each.box is not None)


def _shape(element: ElementTree.Element) -> Shape | None:
    tag = element.tag.removeprefix(_SVG) if isinstance(element.tag, str) else ""
    if tag not in SHAPES:
        return None
    given = {name: element.get(name, "") for name in SHAPES[tag] if element.get(name)}
    if not all(_VALUE.fullmatch(value) for value in given.values()):
        return None
    return Shape(tag, given, element.text if tag == "text" else None)
