"""An image with sshd, of this host's own programs: made within a second, without a mirror.

As a program it makes an image of backend ``command``; its file /etc/build names the build.
"""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Final

LOGIN: Final = "sh sshd ssh-keygen hostname env id cat ls"
FILES_AND_TIMES: Final = "mkdir chmod chown rm rmdir mv cp touch mktemp sync dd df date sleep"
RUNNER: Final = "flock setsid timeout sha256sum grep sed head tail wc uname nproc"
SHIPPED_ROLES: Final = "awk cut tr stat readlink install ln od find cmp getconf getent su setpriv"
PROGRAMS: Final = f"{LOGIN} {FILES_AND_TIMES} {RUNNER} {SHIPPED_ROLES}".split()
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


def main() -> None:
    """Make the image of a builder's backend ``command``."""
    image, build = (os.environ[f"NODEPOOL_OCB_{name}"] for name in ("IMAGE", "BUILD"))
    sys.stdout.write(f"packing sshd and {len(PROGRAMS) - 1} more programs of this host\n")
    tar = sshd_tar(Path(os.environ["NODEPOOL_OCB_OUTPUT_TAR"]), etc__build=f"build {build} of {image}\n")
    sys.stdout.write(f"build {build} of {image}: {tar.stat().st_size} bytes\n")


if __name__ == "__main__":
    main()
