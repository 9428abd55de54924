"""Format ``pxe``: one tar with the three files that a machine boots from the network, and their checksums.

The members are SHA256SUMS, vmlinuz, initrd and root.squashfs, in this sequence. One file keeps the rules of every other
format: one checksum, one upload, one file to remove. A provider unpacks it.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Final

FORMAT: Final = "pxe"
SUMS: Final = "SHA256SUMS"
KERNEL: Final = "vmlinuz"
INITRD: Final = "initrd"
ROOT: Final = "root.squashfs"
NEEDS: Final = ("mksquashfs", "squashfs-tools")  # a program and its package

#: zstd: a slow machine unpacks it several times as fast as xz.
_SQUASH: Final = (
    "mksquashfs - {root} -tar -noappend -quiet -no-progress -root-mode 755 -root-uid 0 -root-gid 0"
    " -comp zstd -Xcompression-level 9 -b 262144 >/dev/null"
)
_BOOT: Final = ("./boot/vmlinu[xz]-*", "./boot/initrd.img-*")


def from_tar(tar: Path, folder: Path) -> Iterator[str]:
    """Lines for /bin/sh -eu: the three files in ``folder``, from a root file system that has a kernel and an initrd."""
    names = " ".join(map(shlex.quote, _BOOT))
    root, own = shlex.quote(str(folder / ROOT)), shlex.quote(str(folder / "boot"))
    yield f"mkdir -p -- {own}"
    yield f"tar -xf {shlex.quote(str(tar))} -C {own} --strip-components=2 --wildcards {names} || {{"
    yield "    echo 'format pxe needs a kernel and an initrd in /boot: include linux-image-amd64 and initramfs-tools' >&2"
    yield "    exit 1"
    yield "}"
    for pattern, name in (("vmlinu[xz]-*", KERNEL), ("initrd.img-*", INITRD)):
        yield f'mv -- "$(ls {own}/{pattern} | sort -V | tail -n 1)" {shlex.quote(str(folder / name))}'
    yield f"rm -r -- {own}"
    failed = shlex.quote(str(folder / "failed"))
    delete = f"tar --wildcards --delete -f - {names} <{shlex.quote(str(tar))} || touch {failed}"
    yield f"{{ {delete}; }} | {_SQUASH.format(root=root)}"
    yield f"[ ! -e {failed} ]"  # the status of a pipe is that of its last program


def packed(folder: Path, output: Path) -> Iterator[str]:
    """Lines for /bin/sh -eu: the tar from the three files in ``folder``, which are removed."""
    names = f"{KERNEL} {INITRD} {ROOT}"
    # UEFI lays a second initrd right behind this one, and Linux looks for an archive at multiples of four bytes alone.
    yield f"truncate -s %4 -- {shlex.quote(str(folder / INITRD))}"
    yield f"(cd {shlex.quote(str(folder))} && sha256sum {names} >{SUMS})"
    tar = shlex.join(["tar", "--create", "--file", str(output), "--directory", str(folder), "--format=ustar"])
    yield f"{tar} --owner=0 --group=0 --numeric-owner --mode=0644 --remove-files {SUMS} {names}"
