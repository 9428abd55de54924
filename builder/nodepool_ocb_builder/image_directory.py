"""The directory of images that one builder owns: its id, its files, its logs.

A build's files are ``<image>-<id>.<format>`` with ``.md5`` and ``.sha256`` beside them, and the folder ``<image>-<id>.d``
for manifests; while it is built there are ``<image>-<id>.new.<format>`` and the folder ``<image>-<id>.build``. Nothing
else in the directory is ours. The id of the directory, in ``builder_id.txt``, is the builder's: the owner of the files owns the
records. Beside it, in ``cluster_id.txt``, is the id of the cluster that has them. One process at a time uses a directory.
"""

from __future__ import annotations

import fcntl
import glob
import os
import re
import uuid
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Final

from nodepool_ocb.daemon import belonging
from nodepool_ocb.daemon.belonging import write_whole
from nodepool_ocb.documents import files
from nodepool_ocb.errors import Conflict, Invalid
from nodepool_ocb_builder.checksums import ALGORITHMS, beside
from nodepool_ocb_builder.renaming import rename_new
from nodepool_ocb_builder.sandbox import leftovers

ID_FILE: Final = "builder_id.txt"
_OURS: Final = re.compile(r"(?P<build>[A-Za-z0-9_.+~@-]+-[0-9]{10})\.(?P<rest>.+)")
_LOG: Final = re.compile(r"(?P<build>(?P<image>[A-Za-z0-9_.+~@-]+)-[0-9]{10})\.log")
_FORMAT: Final = re.compile(r"[A-Za-z0-9]+(\.[A-Za-z0-9]+)*")
ID_BYTES: Final = 4096
TAIL_BYTES: Final = 4096
ENDED: Final = "-- ended: "  # in the last line of the log of a build (sandbox)


def named(image: str, id: str) -> str:
    """The name of a build's files before the dot. It is never taken from the record, because any client may write that.

    >>> named("jammy", "0000000001")
    'jammy-0000000001'
    """
    return f"{image}-{id}"


class ImageDirectory:
    """The directory, held for this process until it ends. Raises Conflict where another process has it, and Invalid
    where it cannot be used.
    """

    def __init__(self, folder: Path, logs: Path) -> None:
        self.folder, self.logs = folder, logs
        try:
            folder.mkdir(parents=True, exist_ok=True)
            logs.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise Invalid(
                f"{error.filename}: cannot be used: {error.strerror}; see images-dir, build-log-dir"
            ) from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock)
            raise Conflict(f"another builder uses {folder}; give each builder an images-dir of its own") from None
        self.builder_id = self._identity()

    def close(self) -> None:
        """Let another process have it."""
        os.close(self._lock)

    @property
    def id_file(self) -> Path:
        """The file with the builder's id."""
        return self.folder / ID_FILE

    @property
    def here(self) -> bool:
        """Whether the directory is still the one that was opened. If not, for example because its file system is not
        mounted, no file is missing.
        """
        try:
            return files.text(self.id_file, ID_BYTES).strip() == self.builder_id
        except OSError:
            return False

    def _identity(self) -> str:
        file = self.id_file
        if file.exists() and (known := files.text(file, ID_BYTES).strip()):
            return known
        made = str(uuid.uuid4())
        write_whole(file, made)  # without a line feed: Nodepool takes the whole file for the id
        return made

    def belong(self, cluster: str) -> None:
        """Serve this cluster from now on; raises NoCluster where the directory is another's, and Invalid."""
        try:
            belonging.belong(self.folder, cluster)
        except OSError as error:
            raise Invalid(f"{error.filename}: {error.strerror}; see images-dir") from error

    # -- a build's files --

    def file(self, build: str, format: str) -> Path:
        """A finished file of a build, which is ``named``. Raises Invalid where the format is none."""
        if not _FORMAT.fullmatch(format):
            raise Invalid(f"{build}: {format!r} is no format; correct the record")
        return self.folder / f"{build}.{format}"

    def unfinished(self, build: str, format: str) -> Path:
        """The same, while it is written."""
        return self.folder / f"{build}.new.{format}"

    def work(self, build: str) -> Path:
        """The folder that a build works in."""
        return self.folder / f"{build}.build"

    def manifest(self, build: str) -> Path:
        """The folder of a build's manifests."""
        return self.folder / f"{build}.d"

    def log(self, build: str) -> Path:
        """The log of a build."""
        return self.logs / f"{build}.log"

    def knows(self, build: str) -> bool:
        """Whether anything here is of this build, be it its log: it is, or was, made here, or this is a copy."""
        return self.log(build).exists() or any(self.folder.glob(glob.escape(build) + ".*"))

    def finish(self, build: str, format: str) -> Path:
        """The unfinished file gets its final name; never over one that is there already. Raises Conflict, OSError."""
        file = self.file(build, format)
        try:
            rename_new(self.unfinished(build, format), file)
        except FileExistsError:
            raise Conflict(f"{file} is there already; move it away, or delete it") from None
        return file

    def tail(self, build: str) -> str:
        """The end of a build's log."""
        try:
            with self.log(build).open("rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - TAIL_BYTES))
                return file.read(TAIL_BYTES).decode("utf-8", "replace")
        except OSError:
            return ""

    def remove(self, build: str) -> list[str]:
        """Remove all files of a build but its log; returns those that could not be removed, as sentences."""
        return remove_all([path for path in self.folder.iterdir() if path.name.startswith(build + ".")])

    def remove_format(self, build: str, format: str) -> list[str]:
        """Remove one format's file and checksums; returns the failures, as sentences. Raises as ``file`` does."""
        file = self.file(build, format)
        return remove_all([file, *(beside(file, algorithm) for algorithm in ALGORITHMS)])

    # -- leftovers --

    def orphans(self, known: Collection[str], made_here: bool = False) -> list[Path]:
        """The files with names of builds, except those of ``known`` builds.

        ``made_here``: those alone of builds with a log that a builder of ours ended.
        """
        found = sorted((path, build) for path, build in self._of_builds() if build not in known)
        return [path for path, build in found if not made_here or self._made_here(build)]

    def _made_here(self, build: str) -> bool:
        return self.tail(build).rstrip("\n").rpartition("\n")[2].startswith(ENDED)

    def _of_builds(self) -> Iterator[tuple[Path, str]]:
        for path in self.folder.iterdir():
            if match := _OURS.fullmatch(path.name):
                yield path, match["build"]

    def prune_logs(self, known: Collection[str], keep: int, image: str | None = None) -> list[Path]:
        """Remove the logs of builds that have no record, but for those among the newest ``keep`` of each image; returns the
        removed ones. One stays always, and all where ``keep`` is below 0. ``image``: those of this image alone.
        """
        if keep < 0:
            return []
        logs: dict[str, list[Path]] = {}
        for path in self.logs.iterdir():
            if (match := _LOG.fullmatch(path.name)) and image in (None, match["image"]):
                logs.setdefault(match["image"], []).append(path)
        old = [path for paths in logs.values() for path in sorted(paths)[: -max(keep, 1)]]
        gone = [path for path in old if path.stem not in known]
        remove_all(gone)
        return gone


def remove_all(paths: Iterable[Path]) -> list[str]:
    """Remove files and folders that still exist; returns those that could not be removed, as sentences."""
    return [fault for path in paths for fault in _remove(path)]


def _remove(path: Path) -> list[str]:
    if path.is_dir() and not path.is_symlink():
        return leftovers.clear(path)  # never the mounts in it, and also files that belong to others
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        return [f"{path} cannot be removed: {error.strerror}; remove it by hand"]
    return []
