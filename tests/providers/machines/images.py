"""An image with sshd, of this host's own programs: made within a second, without a mirror.

As a script it is the program of an image of backend ``command``.
"""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Final

PROGRAMS: Final = (
    *(
        "sh",
        "sshd",
        "ssh-keygen",
        "mkdir",
        "chmod",
        "chown",
        "rm",
        "cat",
        "id",
        "env",
        "sleep",
        "ls",
        "grep",
        "head",
        "date",
        "mv",
    ),
    *(
        "flock",
        "setsid",
        "timeout",
        "sync",
        "sha256sum",
        "dd",
        "tail",
        "wc",
        "sed",
        "df",
        "uname",
        "hostname",
        "touch",
        "nproc",
        "rmdir",
        "mktemp",
        "cp",
    ),
)
FILES: Final = {
    "etc/passwd": "root:x:0:0:root:/root:/bin/sh\nsshd:x:100:65534::/run/sshd:/bin/false\nzuul:x:1000:1000::/home/zuul:/bin/sh\n",
    "etc/group": "root:x:0:\nnogroup:x:65534:\nzuul:x:1000:\n",
    "etc/shadow": "root:*:19000:0:99999:7:::\nsshd:*:19000:0:99999:7:::\nzuul:*:19000:0:99999:7:::\n",
    "etc/ssh/sshd_config": "UsePAM no\n",
    "etc/ssh/ssh_host_ed25519_key": "the key of the image, which all containers would share\n",
}
FOLDERS: Final = ("root", "home/zuul", "tmp", "run", "var/empty", "proc", "dev", "sys")


def sshd_tar(path: Path, **more: str) -> Path:
    """A tar of the programs, the libraries and the files; ``more`` replaces files by name, with ``__`` for a slash."""
    found = [shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/sbin") for name in PROGRAMS]
    programs = {each for each in found if each is not None}
    libraries = {"/lib/x86_64-linux-gnu/libnss_files.so.2"}
    for program in programs:
        linked = subprocess.run(["ldd", program], check=False, capture_output=True, text=True).stdout.split()
        libraries |= {word for word in linked if word.startswith("/")}
    files = FILES | {name.replace("__", "/"): text for name, text in more.items()}
    with tarfile.open(path, "w", dereference=True) as tar:
        for name in FOLDERS:
            folder = tarfile.TarInfo(name)
            folder.type, folder.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(folder)
        for name in sorted(programs):
            tar.add(
                os.path.realpath(name), arcname=f"usr/bin/{Path(name).name}" if "sshd" not in name else "usr/sbin/sshd"
            )
        for name in sorted(libraries):
            if Path(name).exists():
                tar.add(os.path.realpath(name), arcname=name)
        tar.add(os.path.realpath("/bin/sh"), arcname="bin/sh")
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(text.encode()), 0o644
            tar.addfile(member, io.BytesIO(text.encode()))
    return path


if __name__ == "__main__":
    sshd_tar(Path(os.environ["NODEPOOL_OCB_OUTPUT_TAR"]), etc__build=f"{os.environ['NODEPOOL_OCB_BUILD']}\n")
