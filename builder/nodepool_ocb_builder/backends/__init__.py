"""The backends, which make images. ``installed`` finds them; ``missing`` names the parts that this machine lacks for one."""

from __future__ import annotations

import shutil

from nodepool_ocb import extensions
from nodepool_ocb.extensions import LeftOut
from nodepool_ocb.images.backends import GROUP, KIND, Unusable, check, faults, made, stand_ins
from nodepool_ocb_builder.backends.backend import Backend, BuildTask, Command, Task, search_path

__all__ = ["Backend", "BuildTask", "Command", "Task", "check", "faults", "installed", "missing"]


def installed() -> tuple[dict[str, Backend], tuple[LeftOut, ...]]:
    """Every backend that the entry points name, by name, and those that are left out; ``Unusable`` stands in for these."""
    found = extensions.load(KIND, GROUP, made, Backend)
    return {**stand_ins(found.left_out), **found.usable}, found.left_out


def missing(backend: Backend) -> str:
    """The reason why a backend cannot build on this machine: the programs that it needs, and that are not installed."""
    if isinstance(backend, Unusable):
        return backend.reason
    lacking = tuple(program for program in backend.needs if shutil.which(program, path=search_path()) is None)
    return f"{', '.join(lacking)} is not installed" if lacking else ""
