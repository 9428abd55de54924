"""A rename that fails if the new name exists, instead of replacing it."""

from __future__ import annotations

import ctypes
import errno
import os
from pathlib import Path
from typing import Final

_NOREPLACE: Final = 1
_HERE: Final = -100  # AT_FDCWD
_UNSUPPORTED: Final = frozenset({errno.EINVAL, errno.ENOSYS, errno.ENOTSUP})


def rename_new(source: Path, target: Path) -> None:
    """Raises FileExistsError, with nothing changed, where the target is there; other OSErrors as a rename does."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.renameat2(_HERE, os.fsencode(source), _HERE, os.fsencode(target), _NOREPLACE) == 0:
        return
    code = ctypes.get_errno()
    if code not in _UNSUPPORTED:
        raise OSError(code, os.strerror(code), str(source), None, str(target))
    os.link(source, target)  # as on NFS; a crash before the next line leaves both names, of one file
    source.unlink()
