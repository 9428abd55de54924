"""The cluster that the files in a daemon's folder belong to: its id is in ``cluster_id.txt``, and is not overwritten.

ZooKeeper cannot tell a daemon that it was sent to another world: a wrong chroot, an ensemble rebuilt from nothing, a folder
copied to another cluster's host. The folder can.
"""

from __future__ import annotations

import logging
import os
import tempfile
from pathlib import Path
from typing import Final

from nodepool_ocb.documents import files
from nodepool_ocb.errors import NoCluster

log = logging.getLogger(__name__)

CLUSTER_FILE: Final = "cluster_id.txt"
MODE: Final = 0o644
ID_BYTES: Final = 1000


def belong(folder: Path, cluster: str) -> None:
    """Note that the folder is this cluster's, unless that is noted.

    Raises NoCluster, with nothing changed, where it is another's; OSError where it can be neither read nor written.
    """
    file = folder / CLUSTER_FILE
    known = files.read(file, ID_BYTES).decode(errors="replace").strip() if file.exists() else ""
    if not known:
        write_whole(file, cluster + "\n")
    elif known != cluster:
        raise NoCluster(
            f"{folder} belongs to cluster {known}, and ZooKeeper has cluster {cluster}: correct zookeeper.hosts; or,"
            f" if the folder is to serve this cluster, remove {file}"
        )


def of_logs(folder: str | None, cluster: str) -> None:
    """As ``belong``, for a folder of logs, None for none: it is made where it is absent, and a fault of it is only warned
    of.
    """
    if folder is None:
        return
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        belong(Path(folder), cluster)
    except OSError as error:
        which = (
            f"{error.filename}: " if error.filename and str(error.filename) != folder else ""
        )  # none for a full disk
        log.warning("annealer.log_dir: %s: %s%s; no logs can be kept there", folder, which, error.strerror)


def write_whole(file: Path, text: str) -> None:
    """The whole text or nothing, also after a power failure, and where others write the same file at the same time."""
    descriptor, partial = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
    try:
        with os.fdopen(descriptor, "w") as writer:
            os.fchmod(descriptor, MODE)
            writer.write(text)
            writer.flush()
            os.fsync(descriptor)
        os.rename(partial, file)
    except BaseException:
        os.unlink(partial)
        raise
