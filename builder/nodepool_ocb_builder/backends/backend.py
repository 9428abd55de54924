"""The interface of backends: a BuildTask goes in, the Command that makes the image comes out. Pure; ``isolation`` runs it."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import msgspec

from nodepool_ocb.images.nodepool import Diskimage
from nodepool_ocb.model.records import Json


class BuildTask(msgspec.Struct, frozen=True, kw_only=True):
    """One build of an image."""

    image: Diskimage
    build: str  # its id, ten digits
    work: Path  # a folder of its own in the image directory, there and empty
    elements_dir: tuple[str, ...] = ()
    outputs: Mapping[str, Path]  # for each format the file that must be there at the end, in the image directory
    manifest: Path  # a folder for lists of the image's content; may stay absent


#: The name for backends of other packages.
Task = BuildTask


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """A program to run, which makes all of a task's outputs and exits with 0, or fails."""

    argv: tuple[str, ...]
    env: Mapping[str, str]  # TMPDIR: where the build's own temporary folder is made, instead of its work folder
    cwd: Path
    calls_setuid: bool = False  # sudo, newuidmap ...: these work in no user namespace


class Backend(Protocol):
    """A way to make images; made once, without arguments, and used by many threads."""

    @property
    def formats(self) -> tuple[str, ...] | None:
        """The formats that it can make; None: all formats that the image's program makes."""

    @property
    def needs(self) -> tuple[str, ...]:
        """Programs that must be installed."""

    def faults(self, options: Mapping[str, Json]) -> list[str]:
        """The faults of an image's ``options``, as sentences."""

    def command(self, task: BuildTask) -> Command:
        """The command for a task with faultless options."""


def search_path() -> str:
    """The PATH of builds: the builder's own, the programs beside it, and the programs of root that builds call."""
    beside = str(Path(sys.executable).parent)
    folders = [*os.environ.get("PATH", os.defpath).split(":"), beside, "/usr/local/sbin", "/usr/sbin", "/sbin"]
    return ":".join(dict.fromkeys(folder for folder in folders if folder))
