"""The profile hook: writes each call from one module of the product into another one, with its time.

A line is ``SECONDS <tab> CALLING MODULE <tab> CALLED MODULE``. A module is written as its path in the tree, without the name
of its package. The caller is the nearest frame of the product; ``-`` if there is none. A pair is written once in each
``PERIOD_SECONDS``: a trace of a daemon stays small, and the time tells one walk from the next.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
from types import FrameType
from typing import Any, Final

PERIOD_SECONDS: Final = 0.2
NOWHERE: Final = "-"

#: The folders of packages, each with its place in the name of a module.
PACKAGES: Final = {
    "nodepool_ocb/": "",
    "annealer/nodepool_ocb_annealer/": "ANNEALER/",
    "builder/nodepool_ocb_builder/": "BUILDER/",
    "launcher/nodepool_ocb_launcher/": "LAUNCHER/",
    "schemas/nodepool_ocb_schemas/": "SCHEMAS/",
}


def module(file: str, tree: str) -> str:
    """The name of a module; empty for one that is not of the product.

    >>> module("/t/annealer/nodepool_ocb_annealer/claims.py", "/t"), module("/t/nodepool_ocb/errors.py", "/t")
    ('ANNEALER/claims.py', 'errors.py')
    >>> module("/t/tests/conftest.py", "/t"), module("/usr/lib/python3/ast.py", "/t")
    ('', '')
    """
    if not file.startswith(f"{tree}/"):
        return ""
    path = file[len(tree) + 1 :]
    return next((name + path[len(folder) :] for folder, name in PACKAGES.items() if path.startswith(folder)), "")


class Tracer:
    """Follows the calls of all threads of this process."""

    def __init__(self, tree: str) -> None:
        self._tree = tree
        self._modules: dict[str, str] = {}  # file → name
        self._met: dict[tuple[str, str], float] = {}  # of this period, in the order of the first call

    def called(self, frame: FrameType, event: str, _: Any) -> None:
        """As ``sys.setprofile`` calls it."""
        if event != "call" or frame.f_code.co_name == "<module>":
            return
        name = self._module(frame)
        if not name:
            return
        calling = frame.f_back
        while calling is not None and not self._module(calling):
            calling = calling.f_back
        caller = NOWHERE if calling is None else self._module(calling)
        if caller != name and (caller, name) not in self._met:
            self._met[caller, name] = time.time()

    def lines(self) -> str:
        """The calls since this was asked for the last time."""
        met, self._met = self._met, {}
        return "".join(f"{at:.3f}\t{caller}\t{called}\n" for (caller, called), at in list(met.items()))

    def _module(self, frame: FrameType) -> str:
        file = frame.f_code.co_filename
        name = self._modules.get(file)
        if name is None:
            name = self._modules[file] = module(file, self._tree)
        return name


def started(place: str, tree: str) -> None:
    """Trace this process into the file ``place`` with its process id."""
    tracer = Tracer(tree)
    file = open(f"{place}.{os.getpid()}", "a", encoding="utf-8")  # noqa: SIM115  # until the process ends

    def write() -> None:
        file.write(tracer.lines())
        file.flush()

    def write_on() -> None:
        while True:
            time.sleep(PERIOD_SECONDS)
            write()

    threading.Thread(target=write_on, daemon=True).start()
    atexit.register(write)
    threading.setprofile(tracer.called)
    sys.setprofile(tracer.called)
