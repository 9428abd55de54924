"""The files of a task, and the script (place.sh) that puts them on a machine."""

from __future__ import annotations

import base64
import re
import shlex
from collections.abc import Sequence
from typing import Final

import msgspec

from nodepool_ocb.jigs.tasks.task import TaskRefused, program

_MODE: Final = re.compile(r"[0-7]{3,4}")
_OWNER: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*\$?")
_END: Final = "end of this file"  # no base64


class File(msgspec.Struct, frozen=True, kw_only=True):
    """A file with its place, content, rights and owner on the machine."""

    path: str
    content: bytes
    mode: str
    dir_mode: str  # of directories that are made; "": none are
    owner: str  # USER:GROUP
    overwrite: bool


class FileParameters(msgspec.Struct, frozen=True, kw_only=True):
    """The parameters for the rights, owners and folders of files."""

    permissions: str | int  # octal digits, as they are written: 0644, "0644" and 644 are one
    dir_permissions: str | int
    user: str
    group: str
    overwrite: bool
    parents: bool

    def file(self, path: str, content: bytes) -> File:
        """Raises TaskRefused."""
        for name in (self.user, self.group):
            if not _OWNER.fullmatch(name):
                raise TaskRefused(f"{name!r} can be no name of a user or group; correct it")
        return File(
            path=absolute(path),
            content=content,
            mode=_mode("permissions", self.permissions),
            dir_mode=_mode("dir_permissions", self.dir_permissions) if self.parents else "",
            owner=f"{self.user}:{self.group}",
            overwrite=self.overwrite,
        )


def absolute(path: str, what: str = "path") -> str:
    """The path, which must be one from the root, without ``..``; raises TaskRefused.

    >>> absolute("/etc//hosts")
    '/etc//hosts'
    """
    if not path.startswith("/"):
        raise TaskRefused(f"the {what} {path} does not begin with /; write an absolute path")
    if ".." in path.split("/"):
        raise TaskRefused(f"the {what} {path} has .. in it; write the path without ..")
    if "\0" in path:
        raise TaskRefused(f"the {what} has a zero byte in it; remove it")
    return path


def script(files: Sequence[File], noop: bool) -> str:
    """The script that puts the files in their places, in this order; with ``noop`` it prints them. Raises TaskRefused."""
    for file in files:
        if file.path.endswith(("/", "/.")):
            raise TaskRefused(f"the path {file.path} names a directory, not a file; name the file")
    if not files:
        return "echo 'there is no file for this node'\n"
    if noop:
        return "".join(f"printf %s\\\\n {shlex.quote(_intent(file))}\n" for file in files)
    return program("place.sh") + "".join(map(_placed, files))


def _intent(file: File) -> str:
    kept = "" if file.overwrite else ", unless it is there"
    return f"would write {len(file.content)} bytes to {file.path}, permissions {file.mode}, owner {file.owner}{kept}"


def _placed(file: File) -> str:
    words = (file.path, file.mode, file.dir_mode, file.owner, "replace" if file.overwrite else "keep")
    content = base64.encodebytes(file.content).decode()
    return f"place {' '.join(map(shlex.quote, words))} <<'{_END}'\n{content}{_END}\n"


def _mode(what: str, mode: str | int) -> str:
    text = str(mode)
    if not _MODE.fullmatch(text):
        raise TaskRefused(f"{what}: {text!r} is no mode; write octal digits, as '0644'")
    return text
