"""What makes images. ``installed`` finds the backends; ``faults`` says why one cannot build an image, before it tries."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from importlib.metadata import entry_points

from nodepool_ocb.checks import did_you_mean
from nodepool_ocb.nodepool import Diskimage
from nodepool_ocb_builder.backends.backend import Backend, Command, Task, search_path

__all__ = ["Backend", "Command", "Task", "faults", "installed", "missing"]


def installed() -> dict[str, Backend]:
    """Every backend that the entry points ``nodepool_ocb.backends`` name, by name."""
    return {point.name: point.load()() for point in entry_points(group="nodepool_ocb.backends")}


def faults(image: Diskimage, backends: Mapping[str, Backend]) -> list[str]:
    """What is wrong with an image's backend, options and formats, as ``[place: ]sentence``."""
    backend = backends.get(image.backend)
    if backend is None:
        known = ", ".join(sorted(backends)) or "none"
        hint = did_you_mean(image.backend, backends)
        return [f"backend: there is no backend `{image.backend}`{hint}; installed here: {known}"]
    found = [f"options: {fault}" for fault in backend.faults(image.options)]
    if backend.formats is not None:
        found += [
            f"formats: backend {image.backend} makes no {format}; it makes {', '.join(backend.formats)}"
            for format in image.formats
            if format not in backend.formats
        ]
    return found


def missing(backend: Backend) -> tuple[str, ...]:
    """The programs that a backend needs and this machine has not."""
    return tuple(program for program in backend.needs if shutil.which(program, path=search_path()) is None)
