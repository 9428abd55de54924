"""The remains of a build on the machine, and their removal: processes, mounts, loop devices, folders.

Standard library only, because the supervisor starts without packages. Everything here may be repeated, and may run
beside another process that does the same. An action that an ordinary user may not do is tried once more with ``sudo -n``.
Nothing is removed below a mount that stays: the files behind it are not the build's.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import signal
import struct
import subprocess
import time
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

MARK: Final = "NODEPOOL_OCB_WORK"  # in the environment of everything that belongs to a build: its work folder
REAPER: Final = "NODEPOOL_OCB_REAPER"  # in that of its supervisor and guard only, which get the orphans of the build
KILLING_SECONDS: Final = 5.0  # that killed processes get to be gone
_MNT_DETACH: Final = 2
_LOOP_CLR_FD: Final = 0x4C01
_LOOP_GET_STATUS64: Final = 0x4C05
_LOOP_INFO_BYTES: Final = 232  # struct loop_info64; device and inode of the file are its first two numbers


class Loop(NamedTuple):
    """A loop device and the file behind it."""

    name: str  # loop0
    device: int
    inode: int


def clear(work: Path, loops_seen: Collection[Loop] = ()) -> list[str]:
    """Unmount all below a work folder, detach its loop devices, remove it; returns the failures, as sentences.

    ``loops_seen``: devices that were the build's while it ran, because the path of a file without its mount says little.
    """
    scratch = scratch_of(work)
    folders = [work] if scratch is None else [scratch, work]
    faults = []
    for folder in folders:
        _unmount(folder)
    for loop in {*loops_seen, *(loop for folder in folders for loop in loops(folder))}:
        _detach(loop)
    for folder in folders:
        if left := mounts(folder):
            faults.append(f"{left[0]} cannot be unmounted, so {folder} stays; unmount it and remove the folder")
        elif not _remove(folder):
            faults.append(f"{folder} cannot be removed by this user; remove it as root")
    return faults


def scratch_of(work: Path) -> Path | None:
    """The build's temporary folder where it lies elsewhere; the target of the link must begin with the work folder's name."""
    link = work / "tmp"
    if not link.is_symlink():
        return None
    target = Path(os.readlink(link))
    ours = target.name == work.name or target.name.startswith(f"{work.name}.")
    return target if target.is_absolute() and ours else None


# -- processes --


def descendants() -> list[int]:
    """The living processes that come from this one, with those that were left to it."""
    return _from([os.getpid()], list(_stats()))


def processes(work: Path) -> list[int]:
    """The living processes of a build: marked in their environment, or at home below its folder, and their descendants.

    A shell on a terminal with only its working directory there belongs to a person that looks around.
    """
    mark = f"{MARK}={work}".encode()
    stats = list(_stats())
    found = [
        pid
        for pid, fields in stats
        if marked(pid, mark) or _at(pid, "root", work) or (fields[4] == "0" and _at(pid, "cwd", work))
    ]
    return [pid for pid in dict.fromkeys(found + _from(found, stats)) if pid != os.getpid()]


def end(work: Path) -> list[int]:
    """Kill the processes of a build from outside; returns the remaining ones.

    Supervisor and guard are spared, because orphans of the build become their children: without them, processes that were
    forked after the list could not be found. They end when the others have ended; otherwise they are killed too.
    """
    reaper = f"{REAPER}={work}".encode()
    for sparing in (True, False):
        for _ in _passes():
            found = processes(work)
            if not found:
                return []
            spared = [pid for pid in found if sparing and marked(pid, reaper)]
            _kill_groups(found, spared)
            _kill([pid for pid in found if pid not in spared])
    return processes(work)


def end_descendants() -> list[int]:
    """Kill all descendants of this process, a subreaper, and take their status; returns the remaining ones.

    It is over when the kernel knows no child of ours: a list lacks processes that are forked meanwhile.
    """
    for _ in _passes():
        _kill_groups([os.getpid()], [os.getpid()])
        _kill(descendants())
        if _childless():
            return []
    return descendants()


def _passes() -> Iterator[None]:
    """For as long as killed processes get to be gone, with a rest after each."""
    deadline = time.monotonic() + KILLING_SECONDS
    pause = 0.002
    while time.monotonic() < deadline:
        yield
        time.sleep(pause)
        pause = min(pause * 2, 0.1)


def _kill(pids: list[int]) -> None:
    denied = [pid for pid in pids if not send(pid, signal.SIGKILL)]
    if denied:
        _sudo("kill", "-KILL", *map(str, denied))


def _kill_groups(ancestors: list[int], spared: list[int]) -> None:
    """Kill the process groups that have only these processes and their descendants, and none that is spared.

    A process that forks and ends faster than a list is read and used is in no list. The kernel kills a group at one moment.
    """
    stats = list(_stats())
    ours = {*ancestors, *_from(ancestors, stats)} - {*spared}
    groups: dict[int, list[int]] = {}
    for pid, fields in stats:
        groups.setdefault(int(fields[2]), []).append(pid)
    for group, members in groups.items():
        if group > 1 and group != os.getpgrp() and ours.issuperset(members):
            with suppress(OSError):  # it is gone, or of another user: then its processes are killed one by one
                os.killpg(group, signal.SIGKILL)


def _childless() -> bool:
    """Whether this process has no child, after it took every dead one."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
        return False
    return True


def send(pid: int, number: signal.Signals) -> bool:
    """Whether we may; a process that is gone has had every signal."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass
    except PermissionError:
        return False
    return True


def _stats() -> Iterator[tuple[int, list[str]]]:
    """Of every living process: its id, and state, parent, group, session, terminal ... of /proc/PID/stat."""
    for name in os.listdir("/proc"):
        if name.isdigit():
            with suppress(OSError):
                fields = Path("/proc", name, "stat").read_text(errors="replace").rpartition(")")[2].split()
                if fields[0] not in "ZX" or int(fields[17]) > 1:  # its first thread has ended, and others go on
                    yield int(name), fields


def _from(ancestors: list[int], stats: list[tuple[int, list[str]]]) -> list[int]:
    """All that descends from these."""
    children: dict[int, list[int]] = {}
    for pid, fields in stats:
        children.setdefault(int(fields[1]), []).append(pid)
    found: list[int] = []
    waiting = list(ancestors)
    while waiting:
        born = children.pop(waiting.pop(), [])
        found += born
        waiting += born
    return found


def marked(pid: int, mark: bytes) -> bool:
    """Whether a process has this line in its environment, as far as we may look."""
    try:
        return mark in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False


def _at(pid: int, link: str, work: Path) -> bool:
    try:
        return below(os.readlink(f"/proc/{pid}/{link}").removesuffix(" (deleted)"), work)
    except OSError:
        return False


def below(path: str, folder: Path) -> bool:
    """Whether a path is a folder's, or the folder itself."""
    return path == str(folder) or path.startswith(f"{folder}/")


# -- mounts --


def mounts(folder: Path) -> list[str]:
    """The mount points below a folder that this process can see, outermost first."""
    found = []
    for line in Path("/proc/self/mountinfo").read_text(errors="surrogateescape").splitlines():
        escaped = line.split(" ")[4]
        point = escaped.encode("latin-1", "surrogateescape").decode("unicode_escape").encode("latin-1")
        if below(os.fsdecode(point), folder):
            found.append(os.fsdecode(point))
    return found


def _unmount(folder: Path) -> None:
    libc = ctypes.CDLL(None)
    for point in reversed(mounts(folder)):
        if libc.umount2(os.fsencode(point), _MNT_DETACH):
            _sudo("umount", "--lazy", point)


# -- loop devices --


def loops(folder: Path) -> set[Loop]:
    """The loop devices with a file in a folder.

    The kernel gives the file's path as the build saw it. After the build's own mounts are gone, the path is without the mount
    point of its file system: so the inode decides if the path does not.
    """
    at = [str(folder)]
    with suppress(OSError):
        point = next(parent for parent in (folder, *folder.parents) if parent.is_mount())
        at.append(f"/{folder.relative_to(point)}")
    found: set[Loop] = set()
    others: set[Loop] = set()
    for entry in Path("/sys/block").glob("loop*/loop/backing_file"):
        with suppress(OSError):
            path = entry.read_text(errors="surrogateescape").strip().removesuffix(" (deleted)")
            loop = _loop(entry.parts[3])
            (found if any(below(path, Path(each)) for each in at) else others).add(loop)
    if others:
        inodes = {(loop.device, loop.inode): loop for loop in others}
        found |= {inodes[file] for file in _files(folder, {loop.inode for loop in others}) if file in inodes}
    return found


def _loop(name: str) -> Loop:
    """A device as the kernel describes it; numbers are 0 if this user may not ask."""
    try:
        with open(f"/dev/{name}", "rb", buffering=0) as device:
            status = fcntl.ioctl(device, _LOOP_GET_STATUS64, bytes(_LOOP_INFO_BYTES))
        return Loop(name, *struct.unpack_from("QQ", status))
    except PermissionError:
        return Loop(name, 0, 0)


def _files(folder: Path, inodes: set[int]) -> Iterator[tuple[int, int]]:
    """Device and inode of the regular files below a folder, of those with one of these inodes."""
    waiting = [os.fspath(folder)]
    while waiting:
        with suppress(OSError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                elif entry.inode() in inodes:
                    status = entry.stat(follow_symlinks=False)
                    yield status.st_dev, status.st_ino


def _detach(loop: Loop) -> None:
    """Free a loop device that still has this file, and the mapped partitions that hold it."""
    with suppress(OSError):
        if _loop(loop.name) != loop:
            return
        for holder in Path("/sys/block", loop.name).glob("**/holders/dm-*"):
            mapped = (holder / "dm" / "name").read_text().strip()
            _command("dmsetup", "remove", "--force", mapped)
        try:
            with open(f"/dev/{loop.name}", "rb", buffering=0) as device:
                fcntl.ioctl(device, _LOOP_CLR_FD)
        except PermissionError:
            _sudo("losetup", "--detach", f"/dev/{loop.name}")


# -- folders --


def _remove(folder: Path) -> bool:
    """Remove a folder, with the files of other users that an ordinary user's build made there."""
    remove = ("rm", "-rf", "--one-file-system", "--", str(folder))
    ways: list[tuple[str, ...]] = [()]
    if os.geteuid() != 0:
        ways += [("unshare", "--map-root-user", "--map-auto"), ("sudo", "-n")]
    for way in ways:
        if not os.path.lexists(folder):
            break
        _command(*way, *remove)
    return not os.path.lexists(folder)


def _sudo(*argv: str) -> None:
    if os.geteuid() != 0:
        _command("sudo", "-n", *argv)


def _command(*argv: str) -> None:
    """Run a program for its effect, which the caller looks at; a program that is missing has none."""
    with suppress(OSError):
        subprocess.run(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False
        )
