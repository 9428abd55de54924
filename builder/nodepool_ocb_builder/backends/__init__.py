"""What makes images. ``installed`` finds the backends; ``missing`` says what one needs that this machine has not."""

from __future__ import annotations

import shutil
from importlib.metadata import entry_points

from nodepool_ocb.images.backends import GROUP, check, faults
from nodepool_ocb_builder.backends.backend import Backend, Command, Task, search_path

__all__ = ["Backend", "Command", "Task", "check", "faults", "installed", "missing"]


def installed() -> dict[str, Backend]:
    """Every backend that the entry points name, by name."""
    return {point.name: point.load()() for point in entry_points(group=GROUP)}


def missing(backend: Backend) -> tuple[str, ...]:
    """The programs that a backend needs and this machine has not."""
    return tuple(program for program in backend.needs if shutil.which(program, path=search_path()) is None)
